# Runs in the guest, in counted time: what an agent uses while nothing happens. Arguments: AGENT
# SECONDS.
. /in/common.sh
. /in/agent.sh
start_agent $1
# What the setup changed is no rest.
sleep 20
set -- $1 $2 $(reads)
cpu_before=$(ticks) agent_since=$(seconds)
sleep $2
cost=$(agent_cost)
set -- $* $(reads)
echo "agent=$1 seconds=$2 samples=$(($6 - $3)) glances=$(($7 - $4)) blocks_read=$(($8 - $5)) $cost" >$OUT/result
