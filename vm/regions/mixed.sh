# Runs in the guest: the mixed load under one agent, then what is left. Arguments: AGENT SECONDS.
agent=$1 seconds=$2
. /in/common.sh
echo never >/sys/kernel/mm/transparent_hugepage/enabled
mke2fs -q -t ext4 /dev/vdc && mkdir /disk && mount -t ext4 /dev/vdc /disk || complain "no disk"
mkdir /small && mount -t tmpfs -o size=600M none /small
case $agent in
daemon) start_daemon /in/measured.toml; until_true 60 is_set_up || complain "not set up" ;;
naive) sh /in/naive.sh >$OUT/daemon 2>&1 & sleep 20 ;;
esac
stalls() { cat /proc/vmstat | sed -n 's/^allocstall_normal //p'; }
psi_before=$(psi)
start=$(cut -d. -f1 /proc/uptime)
passed() { echo $(($(cut -d. -f1 /proc/uptime) - start)); }
# Page cache, small files, processes, anonymous memory that comes and goes, pipes of which some stay.
dd if=/dev/zero of=/disk/first bs=1M count=1900 2>/dev/null
(n=0; while [ $(passed) -lt $seconds ]; do n=$((n + 1)); dd if=/dev/zero of=/disk/f$((n % 8)) bs=1M count=64 2>/dev/null; done) &
(n=0; while [ $n -lt 60000 ]; do n=$((n + 1)); echo $n >/small/$n; done) &
(while [ $(passed) -lt $seconds ]; do true | cat; /bin/true; done) &
(while [ $(passed) -lt $seconds ]; do /in/bin/kernel_load anon 350 4; sleep 2; /in/bin/kernel_load anon 700 3; done) &
(while [ $(passed) -lt $((seconds - 20)) ]; do /in/bin/kernel_load pipes 380 60 0 5 >>$OUT/pipes; done) &
/in/bin/kernel_load pipes 126 3 126 1 >>$OUT/pipes &
while [ $(passed) -lt $seconds ]; do
    sleep 10
    echo "at=$(passed) $(/in/bin/kernel_load areas) movable=$(movable) stalls=$(stalls) psi_us=$(($(psi) - psi_before))" >>$OUT/samples
done
# The judge: hugetlb pages while all of it still stands.
echo 2048 >/proc/sys/vm/nr_hugepages
pages=$(cat /proc/sys/vm/nr_hugepages)
echo 0 >/proc/sys/vm/nr_hugepages
files=$(ls /small | wc -l)
echo "agent=$agent $(tail -n 1 $OUT/samples) hugetlb_2m=$pages oom=$(count oom_kill) files=$files" >$OUT/result
[ $agent != daemon ] || /in/bin/prairie regions status --json >$OUT/status 2>&1
dmesg | grep -i -E "oom-kill|BUG:|WARNING:" >$OUT/kernel-trouble
exit 0
