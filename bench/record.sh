#!/bin/sh
# Times unpacking a source tree with and without `prairie record`, in turns. Root is needed.
# Usage: bench/record.sh TREE.tar [ROUNDS]     (a plain tar: unpacking it is mostly the kernel's work)
# PRAIRIE names the command to use; by default it is built.
set -eu
tar_file=$(realpath "${1:?usage: bench/record.sh TREE.tar [ROUNDS]}")
rounds="${2:-3}"
cd "$(dirname "$0")/.."
if [ -z "${PRAIRIE:-}" ]; then
    cargo build --release --quiet -p prairie
    PRAIRIE="${CARGO_TARGET_DIR:-target}/release/prairie"
fi
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cat "$tar_file" >/dev/null
timed() {
    name=$1
    shift
    rm -rf "$directory/tree"
    mkdir "$directory/tree"
    sync
    # Of the unpacking alone: recording also reads every frame's state before and after.
    cat >"$directory/unpack" <<END
exec /usr/bin/time -o "$directory/time" -f "%e s, user+sys %U+%S" tar -xf "$tar_file" -C "$directory/tree"
END
    "$@" sh "$directory/unpack" >"$directory/out" 2>&1
    echo "$name: $(tail -n 1 "$directory/time")"
}
for _ in $(seq "$rounds"); do
    timed "without" env
    timed "with   " "$PRAIRIE" record -o "$directory/trace.parquet" --json --
    sed -n '/^{/,$p' "$directory/out" | tr -d '\n ' | head -c 1500
    echo
done
