#!/bin/bash
# Compares the page heaps `temeraire` and `legacy` of one library under whole programs, as Tables 1
# and 2 of the paper do.
# Usage: [HEAP_LIBRARY=…] bench/heap/ab.sh [--json FILE] [ROUNDS [PROGRAM…]]
#
# Each round runs each program on both page heaps, in turns first. `perf` (Debian: linux-perf) adds
# the share of time in the heap, and hardware counters where the machine has them; the report names
# those that it does not have. Programs that are not installed are left out, with a message.
set -euo pipefail
default_rounds=10
. "$(dirname "$0")/common.sh"
# A server may run as a user who cannot read the build's folder.
chmod 711 "$work"
cp "$heap" "$work/heap.so"

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
python3 bench/heap/ab.py report "$work/runs" --json "$json" --command "$command" \
    --started "$started" --note "$(thp_note)"
