# Runs in the guest: the mixed load under one agent, then what is left. Arguments: AGENT ROUND
# SECONDS.
agent=$1 round=$2 lasts=$3
. /in/common.sh
. /in/agent.sh
. /in/mixed-load.sh
make_disks
start_agent $agent
psi_before=$(psi)
fill_cache
start_mixed_load $lasts
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
[ $agent != daemon ] || cp $OUT/daemon $OUT/daemon-before-judge
pages=$(huge_pages)
[ $agent != daemon ] || cp $OUT/daemon $OUT/daemon-after-judge
kill $anonymous
wait $anonymous
after=$(huge_pages)
gigantic_after_load $agent >$OUT/gigantic
echo "agent=$agent $(tail -n 1 $OUT/samples) hugetlb_2m=$pages after_2m=$after hugetlb_1g=$(cat $OUT/gigantic) files=$files anonymous_mib=$met migrated=$(count pgmigrate_success) $(cat $OUT/pipes | sort -n -t= -k 2 | tail -n 1) $cost $(region)" >$OUT/result
trouble
exit 0
