#!/bin/sh
# Builds the command from nothing at several commits and settings: CPU time, size, and speed.
# Usage: [WORK=FOLDER] bench/build.sh ROUNDS NAME=COMMIT:LTO...
#
# LTO is off, thin, or fat, or nothing for what the commit's profile says. The libraries' sources are
# fetched before. Speed is the user CPU time of four commands, interleaved, so that a busy machine
# slows all builds alike. WORK keeps programs and times; what is there is not built again.
set -eu
cd "$(dirname "$0")/.."
rounds=$1
shift
work=${WORK:-$(mktemp -d)}
[ -n "${WORK:-}" ] || trap 'rm -rf "$work"' EXIT

build() {
    name=$1 commit=${2%%:*} lto=${2#*:}
    [ ! -e "$work/$name/seconds" ] || return 0
    mkdir -p "$work/$name"
    git worktree add --quiet --force --detach "$work/tree" "$commit"
    cargo fetch --quiet --locked --manifest-path "$work/tree/Cargo.toml"
    (
        cd "$work/tree"
        [ -z "$lto" ] || export CARGO_PROFILE_RELEASE_LTO="$lto"
        CARGO_TARGET_DIR="$work/target" /usr/bin/time -f '%U %S' -o "$work/$name/time" \
            cargo build --quiet --release --locked --offline --package prairie
    )
    strip --strip-all -o "$work/$name/prairie" "$work/target/release/prairie"
    git worktree remove --force "$work/tree"
    rm -rf "$work/target"
    tail -n 1 "$work/$name/time" | awk '{ print $1 + $2 }' >"$work/$name/seconds"
}

names=
for argument in "$@"; do
    build "${argument%%=*}" "${argument#*=}"
    names="$names ${argument%%=*}"
done

run() {
    name=$1 what=$2
    shift 2
    /usr/bin/time -f "$name $what %U" -a -o "$work/results" "$work/$name/prairie" "$@" >/dev/null 2>&1
}
: >"$work/results"
for round in $(seq "$rounds"); do
    for name in $names; do
        run "$name" replay replay data/mixed.parquet --systems buddy,linux,contiguitas --initial replaced --json
        run "$name" heap heap driver --sizes figure-5 --heap 512M --load steady --time 240s --release 8M --json
        run "$name" checker migrate check --lines 1 --json
        run "$name" migrate migrate sim --json
    done
    first=${names# }
    first=${first%% *}
    names="${names# "$first"} $first"
    echo "round $round of $rounds" >&2
done

of() {
    awk -v name="$1" -v what="$2" '$1 == name && $2 == what { print $3 }' "$work/results" | sort -n |
        awk '{ value[NR] = $1 } END {
            printf "%.2f ± %.2f", value[int((NR + 1) / 2)], (value[NR] - value[1]) / 2
        }'
}
echo "| build | CPU time, min | size, MiB | replay, s | page heap, s | checker, s | migration, s |"
echo "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
for argument in "$@"; do
    name=${argument%%=*}
    minutes=$(awk '{ printf "%.1f", $1 / 60 }' "$work/$name/seconds")
    size=$(stat -c %s "$work/$name/prairie" | awk '{ printf "%.1f", $1 / 1048576 }')
    echo "| $name | $minutes | $size | $(of "$name" replay) | $(of "$name" heap) | $(of "$name" checker) | $(of "$name" migrate) |"
done
