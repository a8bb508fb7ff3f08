# Runs in the guest: a paced workload in the cgroup w, an agent in the cgroup agent, and samples of
# what the kernel says. Settings come as arguments NAME=VALUE.
AGENT=none SECONDS=600 CHANGE_AT= HOT=128 WARM=64 COLD=256 HUGE=never SWAP=zswap SWAP_MAX=
CONFIG=/in/offload.toml RATIO=0.005
EVERY=20 KILL_AT= KILL_WITH=9 LOG=--verbose
for setting in "$@"; do eval "$setting"; done
. /in/common.sh
set_up
[ -z "$SWAP_MAX" ] || echo $SWAP_MAX >w/memory.swap.max

# put VALUE FILE: into a file of DAMON's.
put() { echo "$1" >"$2" || echo "vm: $2 does not take $1"; }

# damos PID: pages out what has not been touched for more than a minute.
damos() {
    admin=/sys/kernel/mm/damon/admin/kdamonds
    put 1 $admin/nr_kdamonds
    put 1 $admin/0/contexts/nr_contexts
    context=$admin/0/contexts/0
    put vaddr $context/operations
    put 100000 $context/monitoring_attrs/intervals/sample_us
    put 2000000 $context/monitoring_attrs/intervals/aggr_us
    put 1 $context/targets/nr_targets
    put $1 $context/targets/0/pid_target
    put 1 $context/schemes/nr_schemes
    scheme=$context/schemes/0
    put pageout $scheme/action
    put 4096 $scheme/access_pattern/sz/min
    put 18446744073709551615 $scheme/access_pattern/sz/max
    put 0 $scheme/access_pattern/nr_accesses/min
    put 0 $scheme/access_pattern/nr_accesses/max
    put 35 $scheme/access_pattern/age/min
    put 4294967295 $scheme/access_pattern/age/max
    # A hundredth of the container a period, as the others.
    put $(($(cat w/memory.current) / 100)) $scheme/quotas/bytes
    put 6000 $scheme/quotas/reset_interval_ms
    put on $admin/0/state
}

start_workload $HOT $WARM $COLD $SECONDS $CHANGE_AT
sleep 2
limits >$OUT/limits-before
sample
start=$(cut -d. -f1 /proc/uptime)
case $AGENT in
prairie) start_daemon $CONFIG $LOG ;;
published)
    (echo 0 >agent/cgroup.procs && exec /in/bin/published /sys/fs/cgroup/w $RATIO) >$OUT/agent 2>&1 &
    ;;
senpai)
    export PYTHONHOME=/in/python
    (echo 0 >agent/cgroup.procs && exec python3.11 /in/senpai.py /sys/fs/cgroup/w) >$OUT/agent 2>&1 &
    ;;
damos) damos $(cat w/cgroup.procs) >$OUT/agent 2>&1 ;;
damon_reclaim)
    for pair in min_age=60000000 wmarks_high=1000 wmarks_mid=999 wmarks_low=0 enabled=Y; do
        put ${pair#*=} /sys/module/damon_reclaim/parameters/${pair%=*}
    done >$OUT/agent 2>&1
    ;;
esac
while kill -0 $paced 2>/dev/null; do
    sleep $EVERY
    sample
    # The last answer while the workload was there.
    if [ $AGENT = prairie ] && /in/bin/prairie offload status --json >$OUT/status.new 2>&1 && kill -0 $paced 2>/dev/null; then
        mv $OUT/status.new $OUT/status
    fi
    if [ -n "$KILL_AT" ] && [ $(($(cut -d. -f1 /proc/uptime) - start)) -ge $KILL_AT ]; then
        limits >$OUT/limits-during
        kill -$KILL_WITH $agent
        KILL_AT=
        sleep 2
        limits >$OUT/limits-after
    fi
done
cat /sys/module/damon_reclaim/parameters/*tried* /sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/schemes/0/stats/* >$OUT/damon 2>/dev/null
trouble
exit 0
