# Runs in the guest: what the daemon itself costs for 200 containers, reading real kernel files.
# Its own CPU time and memory, apart from reclaim, which the workers do.
SWAP=zswap
. /in/common.sh
set_up
echo "+memory +io" >w/cgroup.subtree_control
for at in $(seq 1 200); do
    mkdir w/$at
    (echo 0 >w/$at/cgroup.procs && exec sleep 1000) &
done
start_daemon /in/many.toml --log=text
# figure KEY: a figure of the daemon's status.
figure() { /in/bin/prairie offload status --json | sed -n "s/^ *\"$1\": \([0-9]*\).*/\1/p" | head -n 1; }
sleep 60
first=$(figure own_cpu_us)
sleep 300
echo "$(($(figure own_cpu_us) - first)) us of CPU time in 300 s" >$OUT/cost
/in/bin/prairie offload status --json >$OUT/status
grep -E "^(user|system)_usec" agent/cpu.stat >>$OUT/cost
grep VmRSS /proc/$agent/status >>$OUT/cost
echo "$(grep -c '"path"' $OUT/status) containers" >>$OUT/cost
trouble
exit 0
