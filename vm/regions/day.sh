# Runs in the guest: a load that comes and goes once an hour, under one agent. Each hour begins with a
# busy phase that fills memory with page cache, pipes, small files, processes, and anonymous memory;
# then nearly all of it is freed, and the machine is quiet until the hour ends. A service keeps 24 MiB
# of pipes and 2,000 files of each hour for two hours more. Arguments: AGENT HOURS.
agent=$1 hours=$2
. /in/common.sh
. /in/agent.sh
make_disks
start_agent $agent
psi_before=$(psi) stalls_before=$(kernel_stalls)
start=$(seconds)
# look PHASE: a sample.
look() {
    echo "hour=$hour minute=$((($(seconds) - start) / 60)) phase=$1 $(/in/bin/kernel_load areas) movable=$(movable) $(region)" \
        "stalls=$(($(kernel_stalls) - stalls_before)) psi_us=$(($(psi) - psi_before)) oom=$(count oom_kill)" \
        "to_kernel=$(converted kernel) to_movable=$(converted movable)" >>$OUT/samples
}
# Between the samples: where the border is, if the kernel has one.
(while sleep 10; do echo "second=$(($(seconds) - start)) $(region)"; done >>$OUT/border) &
# files FOLDER COUNT: small files.
files() {
    mkdir -p $1
    n=0
    while [ $n -lt $2 ]; do n=$((n + 1)); echo $n >$1/$n; done
}
hour=0
look start
dd if=/dev/zero of=/disk/first bs=1M count=1900 2>/dev/null
while [ $hour -lt $hours ]; do
    hour=$((hour + 1))
    /in/bin/kernel_load pipes 380 20 0 30 >>$OUT/pipes &
    pipes=$!
    /in/bin/kernel_load pipes 120 6 24 10800 >/dev/null &
    echo "$! $hour" >>/tmp/services
    (n=0; while [ $n -lt 12 ]; do n=$((n + 1)); dd if=/dev/zero of=/disk/f$((n % 8)) bs=1M count=64 2>/dev/null; done) &
    (n=0; while [ $n -lt 400 ]; do n=$((n + 1)); true | cat; /bin/true; done) &
    files /small/$hour 20000 &
    files /disk/$hour 4000 &
    /in/bin/kernel_load anon 350 20
    /in/bin/kernel_load anon 700 10
    wait $pipes
    look busy
    # Everything is freed but what the service keeps.
    for number in $(seq 1 20000); do [ $number -le 2000 ] || echo /small/$hour/$number; done | xargs rm -f
    rm -rf /disk/$hour
    [ $hour -le 2 ] || rm -rf /small/$((hour - 2))
    while read pid born; do [ $((hour - born)) -ne 2 ] || kill $pid; done </tmp/services
    for part in 1 2 3; do
        until=$((start + (hour - 1) * 3600 + part * 1200))
        left=$((until - $(seconds)))
        [ $left -le 0 ] || sleep $left
        look quiet
    done
done
cost=$(agent_cost)
[ $agent != daemon ] || /in/bin/prairie regions status --json >$OUT/status 2>&1
pages=$(huge_pages)
gigantic_after_load $agent >$OUT/gigantic
echo "agent=$agent $(tail -n 1 $OUT/samples) hugetlb_2m=$pages hugetlb_1g=$(cat $OUT/gigantic) migrated=$(count pgmigrate_success) $cost $(region)" >$OUT/result
trouble
exit 0
