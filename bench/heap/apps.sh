#!/bin/bash
# Compares the heap with other allocators under whole programs: CPU and wall time, peak memory.
# Usage: [HEAP_LIBRARY=…] [PEERS_FOLDER=…] [ALLOCATORS="name=/path/lib.so …"] bench/heap/apps.sh [--json FILE] [ROUNDS [PROGRAM…]]
#
# Programs that are not installed are left out, with a message. All run interleaved, each after warm.c; cells are medians, and
# behind CPU time the spread of the rounds. Memory is the peak of the largest process.
set -euo pipefail
started=$(date +%s)
command="$0 $*"
json=
if [ "${1:-}" = --json ]; then json=$2; shift 2; fi
cd "$(dirname "$0")/../.."
root=$PWD
rounds=${1:-5}
[ $# -eq 0 ] || shift
target=${CARGO_TARGET_DIR:-$root/target}
heap=${HEAP_LIBRARY:-$target/release/libprairie_heap.so}
[ -n "${HEAP_LIBRARY:-}" ] || cargo build --release --quiet -p prairie-heap-preload
heap=$(realpath "$heap")
# shellcheck disable=SC2046,SC2086
allocators=$(echo "prairie=$heap" $(bench/heap/peers.sh ${PEERS_FOLDER:-}) ${ALLOCATORS:-})
setting() { case $1 in *,*) echo "${1#*,}" ;; *) echo UNUSED= ;; esac; }
work=$(mktemp -d)
chmod 711 "$work"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

cc -O1 -o "$work/warm" bench/heap/warm.c
. bench/heap/programs.sh
prepare_programs
mapfile -t present < <(present_programs ${*:-python gcc rustfmt sqlite memcached threads})
measured() {
    env "$(setting "$spec")" python3 "$work/measure.py" "${spec%%,*}" "$work/results" "$name ${allocator%%=*}" "$@"
}

cat >"$work/measure.py" <<'PY'
import os, resource, subprocess, sys, time
library, results, label, *command = sys.argv[1:]
start = time.monotonic()
status = subprocess.run(["env", "LD_PRELOAD=" + library, *command]).returncode
wall = time.monotonic() - start
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
if status: sys.exit(f"{command[0]} failed under {library or 'glibc'}")
with open(results, "a") as file:
    print(label, f"{usage.ru_utime + usage.ru_stime:.3f} {wall:.3f} {usage.ru_maxrss}", file=file)
PY
for round in $(seq "$rounds"); do
    for name in "${present[@]}"; do
        for allocator in $allocators; do
            "$work/warm" 768
            spec=${allocator#*=}
            program "$name"
        done
    done
    # Another one is first in each round.
    first=${allocators%% *}
    allocators="${allocators#* } $first"
    echo "round $round of $rounds" >&2
done
thp="THP $(sed 's/.*\[\(.*\)\].*/\1/' /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null || echo unknown)"
bench/heap/report.py "$work/results" --name heap-apps --json "$json" --command "$command" \
    --started "$started" --columns "CPU:s,wall:s,memory:peak KiB" --means CPU,memory --note "$thp"
