# Runs in the guest, in counted time: what the daemon uses while nothing happens. Argument: SECONDS.
. /in/common.sh
. /in/agent.sh
start_agent daemon
sleep $1
echo "seconds=$1 $(agent_cost)" >$OUT/result
