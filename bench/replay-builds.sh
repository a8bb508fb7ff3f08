#!/bin/sh
# Compares the replay rate of two builds: the programs `replay_rate` that BEFORE and AFTER name.
# Usage: BEFORE=/path/replay_rate AFTER=/path/replay_rate bench/replay-builds.sh [ROUNDS [FILE]]
#
# Rounds are interleaved, so that a busy machine slows both alike; CPU time of the one thread.
set -eu
cd "$(dirname "$0")/.."
rounds="${1:-5}"
file="${2:-data/mixed.parquet}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for round in $(seq "$rounds"); do
    for build in before after; do
        case $build in before) program=$BEFORE ;; *) program=$AFTER ;; esac
        for allocator in ${ALLOCATORS:-buddy linux contiguitas}; do
            "$program" --rounds 1 --system "$allocator" "$file" |
                awk -v build="$build" -v name="$allocator" '$1 == name { print build, name, $4 }'
        done
    done
    echo "round $round of $rounds" >&2
done >"$work/results"

echo "| allocator | before, ns per event | after, ns per event | after / before |"
echo "| --- | ---: | ---: | ---: |"
# Median and half the range of a build and an allocator.
of() {
    awk -v build="$1" -v name="$2" '$1 == build && $2 == name { print $3 }' "$work/results" |
        sort -n | awk '{ value[NR] = $1 } END {
            print value[int((NR + 1) / 2)], (value[NR] - value[1]) / 2
        }'
}
for allocator in ${ALLOCATORS:-buddy linux contiguitas}; do
    echo "$(of before "$allocator") $(of after "$allocator")" |
        awk -v name="$allocator" '{
            printf "| %s | %.1f ± %.1f | %.1f ± %.1f | %.2f |\n", name, $1, $2, $3, $4, $3 / $1
        }'
done
