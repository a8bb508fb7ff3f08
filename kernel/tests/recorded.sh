# Runs in the guest of kernel/model: the mixed load while `prairie record` records it, and each second
# the border. Arguments: ROUND SECONDS.
round=$1 lasts=$2
. /in/common.sh
. /in/agent.sh
. /in/mixed-load.sh
make_disks
fill_cache
/in/bin/prairie record --output $OUT/trace.parquet --for ${lasts}s >$OUT/record 2>&1 &
recorder=$!
sleep 3
start_mixed_load $lasts
while kill -0 $recorder 2>/dev/null; do
    echo "at=$(cut -d' ' -f1 /proc/uptime) border=$(cat $contiguitas/border_pfn)" \
        "pgmigrate_success=$(count pgmigrate_success)" $(sed 's/ /=/' $contiguitas/counters) >>$OUT/samples
    sleep 1
done
wait $recorder || complain "$(tail -n 1 $OUT/record)"
/in/bin/prairie survey --save $OUT/end.parquet --json >/dev/null 2>>$OUT/record || complain "no survey at the end"
trouble
exit 0
