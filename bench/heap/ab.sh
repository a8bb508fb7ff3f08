#!/bin/bash
# Compares the page heaps `temeraire` and `legacy` of one library under whole programs, as Tables 1
# and 2 of the paper do.
# Usage: [HEAP_LIBRARY=…] bench/heap/ab.sh [--json FILE] [ROUNDS [PROGRAM…]]
#
# Each round runs each program on both page heaps, in turns first. `perf` (Debian: linux-perf) adds
# the share of time in the heap, and hardware counters where the machine has them; the report names
# those that it does not have. Programs that are not installed are left out, with a message.
set -euo pipefail
started=$(date +%s)
command="$0 $*"
json=
if [ "${1:-}" = --json ]; then json=$2; shift 2; fi
cd "$(dirname "$0")/../.."
rounds=${1:-10}
[ $# -eq 0 ] || shift
target=${CARGO_TARGET_DIR:-$PWD/target}
[ -n "${HEAP_LIBRARY:-}" ] || cargo build --release --quiet -p prairie-heap-preload
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
# A server may run as a user who cannot read the build's folder.
chmod 711 "$work"
cp "${HEAP_LIBRARY:-$target/release/libprairie_heap.so}" "$work/heap.so"
cc -O1 -o "$work/warm" bench/heap/warm.c

. bench/heap/programs.sh
prepare_programs
mapfile -t present < <(present_programs ${*:-python cpython gcc rustfmt sqlite threads memcached redis nginx postgres})
measured() {
    PRAIRIE_PAGE_HEAP=$heap python3 bench/heap/ab.py measure --library "$work/heap.so" \
        --label "$name $heap" --out "$work/runs" ${profile:+--profile} -- "$@"
}
order=(temeraire legacy)
# One run of each under the profiler, which slows it down.
for name in "${present[@]}"; do
    for heap in "${order[@]}"; do profile=1 program "$name"; done
done
for round in $(seq "$rounds"); do
    for name in "${present[@]}"; do
        for heap in "${order[@]}"; do
            "$work/warm" 768
            program "$name"
        done
    done
    order=("${order[1]}" "${order[0]}")
    echo "round $round of $rounds" >&2
done
thp="THP $(sed 's/.*\[\(.*\)\].*/\1/' /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null || echo unknown)"
python3 bench/heap/ab.py report "$work/runs" --json "$json" --command "$command" \
    --started "$started" --note "$thp"
