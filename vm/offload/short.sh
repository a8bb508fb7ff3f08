# Runs in the guest: all that the short form of vm/tests/offload.sh looks at, one after the other
# in one machine. Arguments: sizes of hot, warm and cold memory, in MiB.
. /in/common.sh
set_up

# A container that cannot be written to, though the configuration names it.
mkdir r
mount --bind r/memory.reclaim r/memory.reclaim && mount -o remount,bind,ro r/memory.reclaim

# 1. A container alone, then with the daemon, then with another phase.
start_workload "$@" 390 300
sleep 2
limits >$OUT/limits-before
sample
start=$(cut -d. -f1 /proc/uptime)
seconds() { echo $(($(cut -d. -f1 /proc/uptime) - start)); }
while [ $(seconds) -lt 100 ]; do sleep 10; sample; done
start_daemon /in/fast.toml
while kill -0 $paced 2>/dev/null; do
    sleep 2
    sample
    [ $(seconds) -ne 290 ] || /in/bin/prairie offload status --json >$OUT/status 2>&1
done
mv $OUT/paced $OUT/paced-long
# 2. The cgroup goes and comes again while the daemon runs.
kill -0 $agent && echo yes >$OUT/alive-before
rmdir w
sleep 12
mkdir w
start_workload 8 4 24 300
sleep 24
kill -0 $agent && echo yes >$OUT/alive-after
/in/bin/prairie offload status --json >$OUT/status-again 2>&1
# 3. It ends as it is told to.
kill -15 $agent
sleep 2
limits >$OUT/limits-ended
kill -0 $agent 2>/dev/null && echo yes >$OUT/not-ended
# 4. It holds a limit when it is killed, in either way.
for with in 9 15; do
    start_daemon /in/device.toml
    sleep 15
    limits >$OUT/limits-during-$with
    kill -$with $agent
    sleep 2
    limits >$OUT/limits-after-$with
done
# 5. Swap becomes full: the daemon stops before, nobody is killed.
echo 1M >w/memory.swap.max
start_daemon /in/fast.toml
sleep 120
/in/bin/prairie offload status --json >$OUT/status-full 2>&1
cat w/memory.swap.current >$OUT/swap-full
kill -15 $agent
sleep 1
[ "$(cat w/memory.swap.max)" = 1048576 ] && echo yes >$OUT/limit-kept
trouble
kill $paced
exit 0
