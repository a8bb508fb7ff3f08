# Runs in the guest: one kind of unmovable memory after the other while page cache fills memory, under
# one agent; each is measured while it is there and a minute after it has gone. Then pins come
# again, and pages of 1 GiB are requested beside them: page flags do not show what is pinned. Argument:
# AGENT.
agent=$1 round=1
. /in/common.sh
. /in/agent.sh
make_disks
start_agent $agent
dd if=/dev/zero of=/disk/first bs=1M count=3300 2>/dev/null
sync
# with PREFIX: words from standard input, each with the prefix.
with() { tr ' ' '\n' | sed -n "s/^./$1_&/p" | tr '\n' ' '; }
# start LOG LOAD ARGUMENT...: a load; returns when all of it is there.
start() {
    log=$1
    shift
    /in/bin/kernel_load "$@" >$log 2>&1 &
    load=$!
    until_true 300 grep -q -E 'ready|kernel_load' $log || complain "$*: not ready"
    ! grep -q kernel_load $log || complain "$*: $(cat $log)"
}
# What the kernel counts, to tell who waited for what.
counts() { cat /proc/vmstat /proc/pressure/memory* $contiguitas/counters 2>/dev/null >$OUT/$name/$1; }
# kind NAME LOAD ARGUMENT...: one load.
kind() {
    name=$1
    shift
    mkdir $OUT/$name
    psi_before=$(psi) stalls_before=$(kernel_stalls) kills_before=$(count oom_kill)
    users_before=$(count allocstall_movable) waited_before=$(waited)
    counts before
    began=$(seconds)
    start $OUT/$name/log "$@"
    took=$(($(seconds) - began))
    counts during
    sleep 2
    during=$(echo "$(/in/bin/kernel_load areas) $(region) movable=$(movable)" | with with)
    is_gone $load && complain "$name: gone too early"
    # A storm has children.
    kill $(pidof kernel_load) 2>/dev/null
    wait $load
    sleep 60
    after=$(echo "$(/in/bin/kernel_load areas) $(region) movable=$(movable)" | with after)
    counts after
    echo "agent=$agent took=$took stalls=$(($(kernel_stalls) - stalls_before)) psi_us=$(($(psi) - psi_before))" \
        "user_stalls=$(($(count allocstall_movable) - users_before))${waited_before:+ border_us=$(($(waited) - waited_before))}" \
        "oom=$(($(count oom_kill) - kills_before)) $during$after" >$OUT/$name/result
}
# waited: microseconds that requests waited for the border so far, if the kernel has one.
waited() { sed -n 's/^wait_us //p' $contiguitas/counters 2>/dev/null; }
# judge NAME LOAD ARGUMENT...: 1 GiB pages while the load is there again, without page cache.
judge() {
    name=$1
    shift
    start $OUT/$name/log-again "$@"
    sync
    echo 1 >/proc/sys/vm/drop_caches
    beside=$(gigantic $agent 3)
    is_gone $load && complain "$name: gone too early again"
    kill $(pidof kernel_load) 2>/dev/null
    wait $load
    sed -i "s/\$/ with_hugetlb_1g=$beside after_hugetlb_1g=$(gigantic $agent 3)/" $OUT/$name/result
}
kind tables tables 300 3600
kind dentries dentries /disk 1000000 3600
# What these leave behind would otherwise be the next load's.
echo 2 >/proc/sys/vm/drop_caches
dd if=/disk/first of=/dev/null bs=1M 2>/dev/null
kind forks forks 400 2 3600
kind pins pins 256 3600
kind splices splices 64 3600
judge pins pins 256 3600
judge splices splices 64 3600
echo "agent=$agent $(agent_cost)" >$OUT/result
trouble
exit 0
