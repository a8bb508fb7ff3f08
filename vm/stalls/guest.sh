# Runs in the guest of vm/tests/stalls.sh: a program that times its own stalls, watched from
# outside, then watched by a recording. Arguments: megabytes that stay free beside the small pages,
# huge pages.
thp=/sys/kernel/mm/transparent_hugepage
echo always >$thp/enabled
echo always >$thp/defrag
# Nobody else makes huge pages or compacts meanwhile.
echo 0 >$thp/khugepaged/defrag
echo 0 >/proc/sys/vm/compaction_proactiveness
small() {
    available=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)
    echo $((available / 1024 - $1))
}
/in/bin/prairie stalls --stacks --json -- /in/bin/stalled $(small $1) $2 $OUT/own-live \
    >$OUT/live.json 2>$OUT/live.err || echo "live: $(cat $OUT/live.err)" >>$OUT/failed
grep -E "^(compact_stall|compact_success|compact_fail|allocstall|thp_fault|pgmigrate_success)" /proc/vmstat >$OUT/vmstat
# A recording needs memory of its own.
/in/bin/prairie record -o /tmp/stalls.parquet --ring 32M -- \
    /in/bin/stalled $(small $(($1 * 2 + 32))) $2 $OUT/own-recorded \
    2>$OUT/record.err || echo "record: $(cat $OUT/record.err)" >>$OUT/failed
/in/bin/prairie stalls --from /tmp/stalls.parquet --json >$OUT/recorded.json 2>>$OUT/record.err ||
    echo "from: $(cat $OUT/record.err)" >>$OUT/failed
/in/bin/prairie stalls --from /tmp/stalls.parquet >$OUT/report
exit 0
