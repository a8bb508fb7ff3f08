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
sample_for $lasts
cost=$(agent_cost)
met=$(anonymous_mib)
files=$(ls /small | wc -l)
[ $agent != daemon ] || /in/bin/prairie regions status --json >$OUT/status 2>&1
until_true 60 eval '! pidof kernel_load | grep -q " "' || complain "the load does not end"
echo "agent=$agent $(tail -n 1 $OUT/samples) $(judge $agent) files=$files anonymous_mib=$met migrated=$(count pgmigrate_success) $(cat $OUT/pipes | sort -n -t= -k 2 | tail -n 1) $cost $(region)" >$OUT/result
trouble
exit 0
