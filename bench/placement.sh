#!/bin/sh
# Times allocation and free in Prairie's placements, beside LLFree's `bench` if LLFREE_BENCH names
# it; rounds are interleaved, so that a busy machine slows all alike. LLFree's lines are
# nanoseconds of its own (truncated to whole ones) for get, put.
# Usage: [LLFREE_BENCH=/path/to/bench] bench/placement.sh [ROUNDS]
set -eu
cd "$(dirname "$0")/.."
rounds="${1:-3}"
core="${CORE:-0}"
target="${CARGO_TARGET_DIR:-target}/release"
cargo build --release --quiet -p experiments --bin placement_rate
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
for round in $(seq "$rounds"); do
    echo "== round $round"
    taskset -c "$core" "$target/placement_rate" "" 5
    [ -n "${LLFREE_BENCH:-}" ] || continue
    for pattern in bulk repeat rand; do
        taskset -c "$core" "$LLFREE_BENCH" "$pattern" LLFree -x 1 -t 1 -s 0 -s 9 -m 4 \
            --offset "$core" -o "$directory/out.csv" >/dev/null 2>"$directory/err" ||
            { tail -n 3 "$directory/err" >&2; exit 1; }
        # Columns: allocator, threads, order, round, GiB, get least, mean, most, put the same.
        awk -F, -v pattern="$pattern" 'NR > 1 {
            # Of "repeat" it writes the time of a pair into both.
            pair = pattern == "repeat" ? $7 : $7 + $10
            printf "%-12s %6d %-7s %10d %9d %9d\n", "llfree", $3, pattern, $7, $10, pair
        }' "$directory/out.csv"
    done
done
