#!/bin/bash
# Compares the heap with other allocators under whole programs: CPU and wall time, peak memory.
# Usage: [HEAP_LIBRARY=…] [PEERS_FOLDER=…] [ALLOCATORS="name=/path/lib.so …"] bench/heap/apps.sh [--json FILE] [ROUNDS [PROGRAM…]]
#
# Programs that are not installed are left out, with a message. All run interleaved, each after warm.c; cells are medians, and
# behind CPU time the spread of the rounds. Memory is the peak of the largest process.
set -euo pipefail
. "$(dirname "$0")/common.sh"
allocators=$(all_allocators)
chmod 711 "$work"
. bench/heap/programs.sh
prepare_programs
mapfile -t present < <(present_programs ${*:-python gcc rustfmt sqlite memcached threads})
measured() {
    python3 "$work/measure.py" "$(preloaded "${allocator#*=}")" "$work/results" "$name ${allocator%%=*}" "$@"
}

cat >"$work/measure.py" <<'PY'
import os, resource, subprocess, sys, time
variables, results, label, *command = sys.argv[1:]
start = time.monotonic()
status = subprocess.run(["env", *variables.split(), *command]).returncode
wall = time.monotonic() - start
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
if status: sys.exit(f"{command[0]} failed under {label}")
with open(results, "a") as file:
    print(label, f"{usage.ru_utime + usage.ru_stime:.3f} {wall:.3f} {usage.ru_maxrss}", file=file)
PY
for round in $(seq "$rounds"); do
    for name in "${present[@]}"; do
        for allocator in $allocators; do
            "$work/warm" 768
            program "$name"
        done
    done
    next_first
    echo "round $round of $rounds" >&2
done
bench/heap/report.py "$work/results" --name heap-apps --json "$json" --command "$command" \
    --started "$started" --columns "CPU:s,wall:s,memory:peak KiB" --means CPU,memory --note "$(thp_note)"
