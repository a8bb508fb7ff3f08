# Runs in the guest: the mixed load under one agent, then what is left. Arguments: AGENT ROUND
# SECONDS.
agent=$1 round=$2 lasts=$3
. /in/common.sh
. /in/agent.sh
make_disks
start_agent $agent
psi_before=$(psi)
passed() { echo $(($(seconds) - start)); }
# Page cache, small files, processes, anonymous memory that comes and goes, pipes of which some stay.
# All at rates that a CPU keeps up with, so that every agent meets the same work.
dd if=/dev/zero of=/disk/first bs=1M count=1900 2>/dev/null
start=$(seconds)
(later 2; n=0; while [ $(passed) -lt $lasts ]; do n=$((n + 1)); dd if=/dev/zero of=/disk/f$((n % 8)) bs=1M count=64 2>/dev/null; sleep 1; done) &
(later 3; n=0; while [ $n -lt 60000 ]; do n=$((n + 1)); echo $n >/small/$n; [ $((n % 500)) -ne 0 ] || sleep 1; done) &
(later 5; while [ $(passed) -lt $lasts ]; do true | cat; /bin/true; usleep 100000; done) &
(later 7; while [ $(passed) -lt $lasts ]; do /in/bin/kernel_load anon 350 4; sleep 2; /in/bin/kernel_load anon 700 3; done) &
(later 11; while [ $(passed) -lt $((lasts - 20)) ]; do /in/bin/kernel_load pipes 380 60 0 5 >>$OUT/pipes; done) &
/in/bin/kernel_load pipes 126 3 126 1 >>$OUT/pipes &
while [ $(passed) -lt $lasts ]; do
    sleep 10
    echo "at=$(passed) $(/in/bin/kernel_load areas) movable=$(movable) $(region) stalls=$(kernel_stalls)" \
        "psi_us=$(($(psi) - psi_before)) oom=$(count oom_kill)" >>$OUT/samples
done
cost=$(agent_cost)
anonymous_mib() { awk '/^AnonPages/ { print int($2 / 1024) }' /proc/meminfo; }
met=$(anonymous_mib)
# The judge: huge pages of 2 MiB beside all the anonymous memory that the load ever has and once it is
# gone, those of 1 GiB once page cache is dropped, too. The load's own anonymous memory comes and goes:
# whether the count met it would be chance, hence it ends first.
files=$(ls /small | wc -l)
[ $agent != daemon ] || /in/bin/prairie regions status --json >$OUT/status 2>&1
until_true 60 eval '! pidof kernel_load | grep -q " "' || complain "the load does not end"
/in/bin/kernel_load anon 700 3600 &
anonymous=$!
until_true 30 eval '[ $(anonymous_mib) -ge 700 ]' || complain "no anonymous memory"
pages=$(huge_pages)
kill $anonymous
wait $anonymous
after=$(huge_pages)
gigantic_after_load $agent >$OUT/gigantic
echo "agent=$agent $(tail -n 1 $OUT/samples) hugetlb_2m=$pages after_2m=$after hugetlb_1g=$(cat $OUT/gigantic) files=$files anonymous_mib=$met migrated=$(count pgmigrate_success) $(cat $OUT/pipes | sort -n -t= -k 2 | tail -n 1) $cost $(region)" >$OUT/result
trouble
exit 0
