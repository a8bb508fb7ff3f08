# Runs in the guest: a paced workload in the cgroup w, an agent in the cgroup agent, and samples of
# what the kernel says. Settings come as arguments NAME=VALUE.
AGENT=none SECONDS=600 CHANGE_AT= HOT=128 WARM=64 COLD=256 HUGE=never SWAP=zswap SWAP_MAX=
CONFIG=/in/offload.toml
EVERY=20 KILL_AT= KILL_WITH=9
for setting in "$@"; do eval "$setting"; done

mount -t debugfs debug /sys/kernel/debug
echo $HUGE >/sys/kernel/mm/transparent_hugepage/enabled
mkswap /dev/vdc >/dev/null && swapon /dev/vdc
if [ $SWAP = zswap ]; then
    for pair in compressor=zstd zpool=zsmalloc enabled=1; do
        echo ${pair#*=} >/sys/module/zswap/parameters/${pair%=*} 2>/dev/null
    done
fi
cd /sys/fs/cgroup
echo "+memory +io +cpu" >cgroup.subtree_control
mkdir w agent
[ -z "$SWAP_MAX" ] || echo $SWAP_MAX >w/memory.swap.max

# sample: a line of what the kernel says.
sample() {
    set -- $(grep -E "^(anon|file|zswap|zswapped|workingset_refault_anon|workingset_refault_file|pgsteal|pgscan|pgmajfault|zswpin|zswpout) " w/memory.stat | sed "s/ /=/")
    read up rest </proc/uptime
    echo "at=$up current=$(cat w/memory.current) swap=$(cat w/memory.swap.current) high=$(cat w/memory.high)" \
        "stall=$(sed -n 's/^some.*total=//p' w/memory.pressure) io=$(sed -n 's/^some.*total=//p' w/io.pressure)" \
        "free=$(sed -n 's/^MemFree: *\([0-9]*\) kB/\1/p' /proc/meminfo)" \
        "agent=$(sed -n 's/^usage_usec //p' agent/cpu.stat) agent_user=$(sed -n 's/^user_usec //p' agent/cpu.stat) $*" >>$OUT/samples
}

limits() {
    for limit in memory.high memory.swap.max memory.zswap.max; do echo $limit $(cat w/$limit); done
    echo swappiness $(cat /proc/sys/vm/swappiness)
}

(echo 0 >w/cgroup.procs && exec /in/bin/paced $HOT $WARM $COLD $SECONDS $CHANGE_AT) >$OUT/paced &
paced=$!
# The workload fills its memory first.
while [ ! -s $OUT/paced ]; do sleep 1; done
sleep 2
limits >$OUT/limits-before
sample
start=$(cut -d. -f1 /proc/uptime)
case $AGENT in
prairie)
    (echo 0 >agent/cgroup.procs && exec /in/bin/prairie offload run --config $CONFIG --verbose) >$OUT/agent 2>&1 &
    agent=$!
    ;;
esac
while kill -0 $paced 2>/dev/null; do
    sleep $EVERY
    sample
    if [ -n "$KILL_AT" ] && [ $(($(cut -d. -f1 /proc/uptime) - start)) -ge $KILL_AT ]; then
        limits >$OUT/limits-during
        kill -$KILL_WITH $agent
        KILL_AT=
        sleep 2
        limits >$OUT/limits-after
    fi
done
[ $AGENT = none ] || /in/bin/prairie offload status --json >$OUT/status 2>&1
grep -h oom_kill w/memory.events >$OUT/oom
dmesg | grep -i -E "oom|BUG|WARNING" >$OUT/kernel-trouble
ls -l w >$OUT/ls
exit 0
