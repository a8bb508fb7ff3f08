# Runs in the guest: a paced workload in the cgroup w, an agent in the cgroup agent, and samples of
# what the kernel says. Settings come as arguments NAME=VALUE.
AGENT=none SECONDS=600 CHANGE_AT= HOT=128 WARM=64 COLD=256 HUGE=never SWAP=zswap SWAP_MAX=
CONFIG=/in/offload.toml
EVERY=20 KILL_AT= KILL_WITH=9 LOG=--verbose
for setting in "$@"; do eval "$setting"; done
. /in/common.sh
. /in/agents.sh
set_up
[ -z "$SWAP_MAX" ] || echo $SWAP_MAX >w/memory.swap.max

start_workload $HOT $WARM $COLD $SECONDS $CHANGE_AT
sleep 2
limits >$OUT/limits-before
sample
start=$(cut -d. -f1 /proc/uptime)
start_agent $paced
while kill -0 $paced 2>/dev/null; do
    sleep $EVERY
    sample
    damon_statistics &
    # The last answer while the workload was there.
    if [ "${AGENT%-default}" = prairie ] && /in/bin/prairie offload status --json >$OUT/status.new 2>&1 && kill -0 $paced 2>/dev/null; then
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
trouble
exit 0
