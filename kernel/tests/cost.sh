# Runs in the guest of kernel/bench: what operations cost with free memory, then while the mixed load
# runs. Arguments: AGENT ROUND.
agent=$1 round=$2
. /in/common.sh
. /in/agent.sh
. /in/mixed-load.sh
make_disks
# Per-CPU lists as they come: what they cost depends on it.
echo 0 >/proc/sys/vm/percpu_pagelist_high_fraction
start_agent $agent
# costs WHEN: words WHEN_NAME=INSTRUCTIONS, the mean of three turns.
costs() {
    for turn in 1 2 3; do
        for name in faults forks pipes files; do /in/bin/cost $name /small || complain "$name failed"; done
    done | awk -v when=$1 '{ sum[$1] += $2 } END { for (name in sum) printf "%s_%s=%d ", when, name, sum[name] / 3 }'
}
free=$(costs free)
fill_cache
start_mixed_load 90
sleep 30
# Memory is full by now, and kernel memory came and went.
mixed=$(costs mixed)
echo "agent=$agent $free$mixed" >$OUT/result
trouble
exit 0
