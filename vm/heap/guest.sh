# Runs in a guest of two NUMA nodes, whose CPUs belong to them in turn: `nodes` on the heap, and what
# the kernel says about its memory. Argument: rounds.
# Lines of $OUT/result: what ran, then KEY=VALUE.
heap=/in/libprairie_heap.so
# Otherwise, the kernel moves pages to the node whose threads use them.
echo 0 >/proc/sys/kernel/numa_balancing
on_heap() { LD_PRELOAD=$heap PRAIRIE_HEAP_NUMA=$1 /in/bin/nodes "$2" "$3"; }
say() {
    what=$1
    shift
    line=$("$@" 2>"$OUT/$what.err") || line="failed=$?"
    echo "$what $line" | tee -a "$OUT/result"
}

for round in $(seq "$1"); do
    say by-node on_heap 1 exchange
    say one-page-heap on_heap 0 exchange
    say glibc /in/bin/nodes exchange
done

# A node that runs out: the rest comes from the other node.
free_mib=$(awk '$3 == "MemFree:" { print int($4 / 1024) }' /sys/devices/system/node/node0/meminfo)
say exhausted on_heap 1 exhaust $((free_mib + 64))

# A CPU that comes later.
echo 0 >/sys/devices/system/cpu/cpu1/online
say hotplug on_heap 1 hotplug 1

# Statistics by node, and a cpuset that forbids a node.
nodes_of() { LD_PRELOAD=$heap PRAIRIE_HEAP_STATS=json:/tmp/stats /in/bin/nodes exchange >/dev/null &&
    echo "nodes=$(grep -o '"node":[0-9]*' /tmp/stats | cut -d: -f2 | tr '\n' ',')"; }
say statistics nodes_of
echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/first
echo 0 >/sys/fs/cgroup/first/cpuset.mems
echo $$ >/sys/fs/cgroup/first/cgroup.procs
say cpuset nodes_of
exit 0
