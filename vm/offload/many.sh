# Runs in the guest: what the daemon itself costs for CONTAINERS containers, reading real kernel
# files. Its own CPU time and memory, apart from reclaim, which the workers do.
# many.sh CONTAINERS MIB CONFIG: each holds MIB of memory that it does not touch.
containers=$1 mib=$2 bytes=$(($2 * 1048576 + 1)) config=$3
SWAP=zswap
. /in/common.sh
set_up
echo "+memory +io" >w/cgroup.subtree_control
for at in $(seq 1 $containers); do
    mkdir w/$at
    # What reads on and has not come to the end holds all that it is to print.
    (echo 0 >w/$at/cgroup.procs && (dd if=/dev/zero bs=1M count=$mib; exec sleep 1000) | tail -c $bytes) >/dev/null 2>&1 &
done
start_daemon $config --log=text
# figure KEY: a figure of the daemon's status.
figure() { /in/bin/prairie offload status --json | sed -n "s/^ *\"$1\": \([0-9]*\).*/\1/p" | head -n 1; }
# By then all memory is written, and idle for as long as the configuration asks.
sleep 90
first=$(figure own_cpu_us)
sleep 300
echo "$(($(figure own_cpu_us) - first)) us of CPU time in 300 s" >$OUT/cost
/in/bin/prairie offload status --json >$OUT/status
grep -E "^(user|system)_usec" agent/cpu.stat >>$OUT/cost
grep VmRSS /proc/$agent/status >>$OUT/cost
echo "$(grep -c '"path"' $OUT/status) containers" >>$OUT/cost
trouble
exit 0
