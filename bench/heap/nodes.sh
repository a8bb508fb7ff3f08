#!/bin/sh
# Measures where the kernel puts what threads of two NUMA nodes allocate, in a virtual machine.
# Usage: [HEAP_LIBRARY=…] [VM_KERNEL=6.12] bench/heap/nodes.sh [--json FILE] [ROUNDS]
#
# Two threads, one on each node, allocate, free what the other has allocated, and allocate again
# (vm/heap/nodes.c): with a page heap for each node, with one page heap, and with glibc.
set -eu
default_rounds=3
. "$(dirname "$0")/common.sh"
kernel=${VM_KERNEL:-6.12}
HEAP_LIBRARY=$heap vm/heap/run "$kernel" "$work/guest" "$rounds"
awk '
    BEGIN { name["by-node"] = "prairie"; name["one-page-heap"] = "prairie,PRAIRIE_HEAP_NUMA=0"; name["glibc"] = "glibc" }
    $1 in name {
        for (i = 2; i <= NF; i++) { split($i, pair, "="); value[pair[1]] = pair[2] }
        print "nodes", name[$1], value["fresh"], value["crosswise"], value["partial"]
    }' "$work/guest/result" >"$work/results"
bench/heap/report.py "$work/results" --name heap --table-per-row --json "$json" \
    --command "$command" --started "$started" \
    --columns "new objects:%,after all were exchanged:%,after 7 of 8 were exchanged:%" \
    --note "QEMU with two nodes of 512 MiB and a CPU each, Linux $kernel"
