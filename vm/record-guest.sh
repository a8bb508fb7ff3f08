# Runs in the guest of vm/record: a workload between snapshots, then brings the events out. The
# kernel has been tracing since it booted.
# Arguments: the workload's name.
set -eu
trace=/sys/kernel/tracing
snapshot() {
    /in/snapshot "$OUT" "$@"
}

# probe DEFINITION...: sets the first that the kernel takes.
probe() {
    for each in "$@"; do
        ! echo "$each" 2>/dev/null >>$trace/kprobe_events || return 0
    done
    printf '%s\n' "$@" >>"$OUT/refused"
}

# What has no tracepoint: blocks that compaction takes from the free lists (asked for, and how many
# frames it got), and pageblocks that get another type or are marked as looked at.
probe 'p:prairie_isolate __isolate_free_page page=%di:x64 order=%si:u32 base=@vmemmap_base:x64'
probe 'r:prairie_isolated __isolate_free_page frames=$retval:u32'
# Since 6.17 the compiler leaves out two arguments.
probe 'p:prairie_pageblock set_pfnblock_flags_mask pfn=%dx:x64 flags=%si:x64 mask=%cx:x64 by=$stack0:symbol' \
    'p:prairie_pageblock __set_pfnblock_flags_mask.constprop.0 pfn=%di:x64 flags=%si:x64 mask=\7:x64 by=$stack0:symbol'
# Memory that goes offline: which, when it is isolated, when it leaves the free lists, and the result.
probe 'p:prairie_offline offline_pages pfn=%di:x64 frames=%si:u64'
probe 'r:prairie_isolation start_isolate_page_range failed=$retval:s32'
probe 'p:prairie_removed __offline_isolated_pages pfn=%di:x64 end=%si:x64'
probe 'r:prairie_offlined offline_pages failed=$retval:s32'
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
# In many boots of 6.1 and 6.12, probes of the command line have no folder in tracefs, so trace-cmd would
# find no format for their events. A new instance has a folder for each.
for name in $(sed -n 's,^[pr][0-9]*:kprobes/\([a-z_]*\) .*,\1,p' $trace/kprobe_events); do
    [ ! -d "$trace/events/kprobes/$name" ] || continue
    mkdir $trace/instances/formats
    mount --bind $trace/instances/formats/events/kprobes $trace/events/kprobes
    break
done
trace-cmd extract -o "$OUT/trace.dat" >/dev/null
