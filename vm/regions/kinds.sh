# Runs in the guest: one kind of unmovable memory after the other while page cache fills memory, under
# one agent; each is measured while it is there and a minute after it has gone. Argument: AGENT.
agent=$1 round=1
. /in/common.sh
. /in/agent.sh
make_disks
start_agent $agent
dd if=/dev/zero of=/disk/first bs=1M count=3300 2>/dev/null
sync
# with PREFIX: words from standard input, each with the prefix.
with() { tr ' ' '\n' | sed -n "s/^./$1_&/p" | tr '\n' ' '; }
# kind NAME LOAD ARGUMENT...: one load.
kind() {
    name=$1
    shift
    mkdir $OUT/$name
    psi_before=$(psi) stalls_before=$(kernel_stalls) kills_before=$(count oom_kill)
    began=$(seconds)
    /in/bin/kernel_load "$@" >$OUT/$name/log 2>&1 &
    load=$!
    until_true 300 grep -q -E 'ready|kernel_load' $OUT/$name/log || complain "$name: not ready"
    ! grep -q kernel_load $OUT/$name/log || complain "$name: $(cat $OUT/$name/log)"
    took=$(($(seconds) - began))
    sleep 2
    during=$(echo "$(/in/bin/kernel_load areas) $(region) movable=$(movable)" | with with)
    is_gone $load && complain "$name: gone too early"
    # A storm has children.
    kill $(pidof kernel_load) 2>/dev/null
    wait $load
    sleep 60
    after=$(echo "$(/in/bin/kernel_load areas) $(region) movable=$(movable)" | with after)
    echo "agent=$agent took=$took stalls=$(($(kernel_stalls) - stalls_before)) psi_us=$(($(psi) - psi_before))" \
        "oom=$(($(count oom_kill) - kills_before)) $during$after" >$OUT/$name/result
}
kind tables tables 300 3600
kind dentries dentries /disk 1000000 3600
# What these leave behind would otherwise be the next load's.
echo 2 >/proc/sys/vm/drop_caches
dd if=/disk/first of=/dev/null bs=1M 2>/dev/null
kind forks forks 400 2 3600
kind pins pins 256 3600
kind splices splices 64 3600
echo "agent=$agent $(agent_cost)" >$OUT/result
trouble
exit 0
