#!/bin/sh
# Compares the heap with other allocators on micro workloads: CPU seconds and peak memory.
# Usage: [NAME=…] [HEAP_LIBRARY=…] [PEERS_FOLDER=…] [ALLOCATORS="name=/path/lib.so …"] bench/heap/micro.sh [--json FILE] [ROUNDS [WORKLOAD…]]
#
# With PEERS_FOLDER the peers of crates.io take part too, built there (peers.sh).
# All are preloaded and run interleaved, each after warm.c, another one first in each round. Cells are
# medians ± half the range of the rounds; the last table has geometric means over each row's best.
# Python 3 makes the tables, named NAME-cpu and so on [default: heap-micro].
set -eu
. "$(dirname "$0")/common.sh"
cc -O2 -fno-builtin -w -o "$work/micro" bench/heap/micro.c -lpthread
allocators=$(all_allocators)
workloads="${*:-$("$work/micro")}"

for round in $(seq "$rounds"); do
    for workload in $workloads; do
        case $workload in malloc-large) megabytes=640 ;; *) megabytes=64 ;; esac
        for allocator in $allocators; do
            "$work/warm" "$megabytes"
            # shellcheck disable=SC2046
            result=$(env $(preloaded "${allocator#*=}") "$work/micro" "$workload") || result="nan nan nan"
            echo "$workload ${allocator%%=*} $result" >>"$work/results"
        done
    done
    next_first
    echo "round $round of $rounds" >&2
done

bench/heap/report.py "$work/results" --name "${NAME:-heap-micro}" --json "$json" --command "$command" \
    --started "$started" --columns "CPU:s,wall:s,memory:peak KiB" --means CPU,memory --note "$(thp_note)"
