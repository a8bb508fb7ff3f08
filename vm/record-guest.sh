# Runs in the guest of vm/record: a workload between snapshots, then brings the events out. The
# kernel has been tracing since it booted.
# Arguments: the workload's name.
set -eu
trace=/sys/kernel/tracing
snapshot() {
    /in/snapshot "$OUT" "$@"
}

# What has no tracepoint: blocks that compaction takes from the free lists (asked for, and how many
# frames it got), and pageblocks that get another type or are marked as looked at.
while read -r probe; do
    echo "$probe" >>$trace/kprobe_events || echo "$probe" >>"$OUT/refused"
done <<'END'
p:prairie_isolate __isolate_free_page page=%di:x64 order=%si:u32 base=@vmemmap_base:x64
r:prairie_isolated __isolate_free_page frames=$retval:u32
p:prairie_pageblock set_pfnblock_flags_mask pfn=%dx:x64 flags=%si:x64 mask=%cx:x64 by=$stack0:symbol
END
cat $trace/kprobe_events >"$OUT/probes"
echo 1 >$trace/events/kprobes/enable

snapshot early
. "/in/workloads/$1"
snapshot end 1
echo 0 >$trace/tracing_on
for cpu in "$trace"/per_cpu/cpu*; do
    echo "${cpu##*/}"
    cat "$cpu/stats"
done >"$OUT/ring.stats"
uname -r >"$OUT/release"
dmesg >"$OUT/dmesg"
trace-cmd extract -o "$OUT/trace.dat" >/dev/null
