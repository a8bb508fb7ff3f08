#!/bin/sh
# Times the replay on one core: of a recording, of generated events, and, if LLFree's `replay` is
# named by LLFREE_REPLAY, of both programs on one generated trace, each in its own format.
# Usage: [LLFREE_REPLAY=/path/to/replay] bench/replay.sh [ROUNDS]
set -eu
cd "$(dirname "$0")/.."
rounds="${1:-5}"
core="${CORE:-0}"
target="${CARGO_TARGET_DIR:-target}/release"
cargo build --release --quiet -p experiments --bin replay_rate
rate="taskset -c $core $target/replay_rate"

echo "== data/mixed.parquet"
$rate --rounds "$rounds" data/mixed.parquet
echo "== generated events, 16 GiB"
$rate --rounds "$rounds"

if [ -z "${LLFREE_REPLAY:-}" ]; then
    echo "LLFREE_REPLAY names no binary: no race"
    exit 0
fi
cargo build --release --quiet -p experiments --bin llfree_trace
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
events="${RACE_EVENTS:-10000000}"
"$target/llfree_trace" 4194304 "$events" "$directory/race.parquet" "$directory/race.bin"
echo "== race on $events events: whole process, CPU seconds (user, system) and peak KiB"
race() {
    name=$1
    shift
    /usr/bin/time -f "$name %U %S %M" taskset -c "$core" "$@" 2>"$directory/err" >/dev/null
    tail -n 1 "$directory/err"
}
for _ in $(seq "$rounds"); do
    race "llfree     " "$LLFREE_REPLAY" --stride 1 "$directory/race.bin"
    for system in buddy linux contiguitas; do
        race "$system" "$target/replay_rate" --rounds 1 --system "$system" "$directory/race.parquet"
    done
done
