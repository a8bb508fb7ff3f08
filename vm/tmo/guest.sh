# Runs in the guest: an application in the cgroup w, an agent in the cgroup agent, and samples of what
# the kernel says. Settings come as arguments NAME=VALUE and go to $OUT/setting.
#
# BACKEND  zswap; MICROSECONDSus, a swap device that answers each request after that time; or none
# AGENT    published (with RATIO and THRESHOLD), promotions, or none
# FILES    microseconds after which the device of the files answers
APPLICATION=Feed MIB=512 SECONDS=3600 SEED=1 BACKEND=zswap AGENT=published RATIO=0.0005 THRESHOLD=0.001
FILES=470 EVERY=300
for setting in "$@"; do
    # Names of applications have spaces.
    eval "${setting%%=*}='${setting#*=}'"
    echo "$setting" >>$OUT/setting
done
. /in/common.sh

mount -t configfs none /sys/kernel/config
echo n >/sys/kernel/mm/lru_gen/enabled
case $BACKEND in
*us) late=${BACKEND%us} SWAP=device ;;
*) late=0 SWAP=zswap ;;
esac
# What files hold does not matter, and takes no memory.
files=$(late_device files $FILES $MIB 0)
SWAP_DEVICE=$(late_device swapped $late $MIB 1)
echo 0 >/sys/block/${files#/dev/}/queue/read_ahead_kb
[ $BACKEND != none ] || SWAP_LATE=yes
set_up
# Pages are read and mapped one at a time, as in the simulation.
echo 0 >/proc/sys/vm/page-cluster
echo 4096 >/sys/kernel/debug/fault_around_bytes

# The tasks of the simulation are always busy. A process that its limit of 1 ms a second holds back is
# runnable all the time. Without it the kernel loses stalls: it weighs them by the time in which
# the container is not idle, in whole jiffies of two seconds.
echo +cpu >w/cgroup.subtree_control
mkdir w/application w/busy
echo "1000 1000000" >w/busy/cpu.max
(echo 0 >w/busy/cgroup.procs && exec sh -c 'while :; do :; done') &
busy=$!

/in/bin/application /sys/fs/cgroup/w $files "$APPLICATION" $MIB $SECONDS $SEED >$OUT/touches 2>$OUT/application &
application=$!
while [ ! -s $OUT/touches ]; do
    kill -0 $application || exit 1
    sleep 1
done
sample
case $AGENT in
published) (echo 0 >agent/cgroup.procs && exec /in/bin/published /sys/fs/cgroup/w $RATIO $THRESHOLD) >$OUT/agent 2>&1 & ;;
promotions) (echo 0 >agent/cgroup.procs && exec /in/bin/promotions /sys/fs/cgroup/w) >$OUT/agent 2>&1 & ;;
esac
read begun rest </proc/uptime
begun=${begun%.*} at=$EVERY
# The last sample is taken while the memory is there.
while [ $at -lt $SECONDS ]; do
    read now rest </proc/uptime
    sleep $((begun + at - ${now%.*}))
    sample
    at=$((at + EVERY))
done
read now rest </proc/uptime
sleep $((begun + SECONDS - 5 - ${now%.*}))
sample
grep -h . /proc/vmstat >$OUT/vmstat
wait $application
kill $busy
trouble
exit 0
