#!/bin/sh
# The heap on a machine of two NUMA nodes: at least 99 % of what a thread allocates lies on its
# node, whoever freed it before; with one page heap much less does. A node that runs out takes from the
# other, a CPU that comes later has its node, a cpuset that forbids a node leaves one page heap.
# Usage: vm/tests/heap-nodes.sh
#
# VM_KERNELS names the kernels, VM_KEEP a folder to keep what runs said, HEAP_LIBRARY a library to
# use; the one that is built otherwise checks all levels against each other at the end.
set -eu
cd "$(dirname "$0")/../.."
short= self=vm/tests/heap-nodes.sh
. vm/common.sh
if [ -z "${HEAP_LIBRARY:-}" ]; then
    ${CARGO:-cargo} build --quiet --locked --profile test -p prairie-heap-preload
    HEAP_LIBRARY=${CARGO_TARGET_DIR:-target}/debug/libprairie_heap.so
fi

# figure WHAT KEY: a figure of the guest's results.
figure() {
    awk -v what="$1" -v key="$2=" '$1 == what { for (i = 2; i <= NF; i++)
        if (index($i, key) == 1) print substr($i, length(key) + 1) }' "$out/result" | head -n 1
}
# at_least WHAT KEY LEAST, at_most WHAT KEY MOST: percent.
compare() {
    found=$(figure "$1" "$2")
    awk -v found="${found:-x}" -v limit="$4" "BEGIN { exit !(found != \"x\" && found + 0 $3 limit) }" ||
        fail "$kernel: $1: $2 is ${found:-missing}, expected $3 $4; $(cat "$out/$1.err")"
}
at_least() { compare "$1" "$2" ">=" "$3"; }
at_most() { compare "$1" "$2" "<=" "$3"; }
is() { [ "$(figure "$1" "$2")" = "$3" ] || fail "$kernel: $1: $2 is '$(figure "$1" "$2")', expected $3"; }

for kernel in ${VM_KERNELS:-6.1}; do
    out=$work/$kernel
    HEAP_LIBRARY=$HEAP_LIBRARY vm/heap/run "$kernel" "$out" 1
    ! grep failed= "$out/result" || fail "$kernel: a program failed; $(cat "$out"/*.err)"
    for phase in fresh crosswise partial; do at_least by-node $phase 99; done
    at_most one-page-heap crosswise 90
    at_least exhausted first_half 99
    at_most exhausted all 99
    at_least hotplug fresh 99
    is hotplug node 1
    is statistics nodes 0,1,
    is cpuset nodes ""
done
[ "$failed" = 0 ]
