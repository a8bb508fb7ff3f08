#!/bin/sh
# Compares the heap with other allocators on micro workloads: CPU seconds and peak memory.
# Usage: [NAME=…] [HEAP_LIBRARY=…] [PEERS_FOLDER=…] [ALLOCATORS="name=/path/lib.so …"] bench/heap/micro.sh [--json FILE] [ROUNDS [WORKLOAD…]]
#
# With PEERS_FOLDER the peers of crates.io take part too, built there (peers.sh).
# All are preloaded and run interleaved, each after warm.c, another one first in each round. Cells are
# medians ± half the range of the rounds; the last table has geometric means over each row's best.
# Python 3 makes the tables, named NAME-cpu and so on [default: heap-micro].
set -eu
started=$(date +%s)
command="$0 $*"
json=
if [ "${1:-}" = --json ]; then json=$2; shift 2; fi
cd "$(dirname "$0")/../.."
rounds="${1:-5}"
[ $# -eq 0 ] || shift
target="${CARGO_TARGET_DIR:-target}"
heap="${HEAP_LIBRARY:-$target/release/libprairie_heap.so}"
[ -n "${HEAP_LIBRARY:-}" ] || cargo build --release --quiet -p prairie-heap-preload
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc -O2 -fno-builtin -w -o "$work/micro" bench/heap/micro.c -lpthread
cc -O1 -o "$work/warm" bench/heap/warm.c

allocators=$(echo "prairie=$heap" $(bench/heap/peers.sh ${PEERS_FOLDER:-}) ${ALLOCATORS:-})
setting() { case $1 in *,*) echo "${1#*,}" ;; *) echo UNUSED= ;; esac; }
workloads="${*:-$("$work/micro")}"

for round in $(seq "$rounds"); do
    for workload in $workloads; do
        case $workload in malloc-large) megabytes=640 ;; *) megabytes=64 ;; esac
        for allocator in $allocators; do
            "$work/warm" "$megabytes"
            spec=${allocator#*=}
            result=$(env "$(setting "$spec")" LD_PRELOAD="${spec%%,*}" "$work/micro" "$workload") || result="nan nan nan"
            echo "$workload ${allocator%%=*} $result" >>"$work/results"
        done
    done
    first=${allocators%% *}
    allocators="${allocators#* } $first"
    echo "round $round of $rounds" >&2
done

thp="THP $(sed 's/.*\[\(.*\)\].*/\1/' /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null || echo unknown)"
bench/heap/report.py "$work/results" --name "${NAME:-heap-micro}" --json "$json" --command "$command" \
    --started "$started" --columns "CPU:s,wall:s,memory:peak KiB" --means CPU,memory --note "$thp"
