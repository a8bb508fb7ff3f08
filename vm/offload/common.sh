# What the guests of vm/tests/offload.sh have in common. $SWAP is zswap or disk.

set_up() {
    mount -t debugfs debug /sys/kernel/debug
    echo "${HUGE:-never}" >/sys/kernel/mm/transparent_hugepage/enabled
    mkswap ${SWAP_DEVICE:-/dev/vdc} >/dev/null
    [ "${SWAP_LATE:-}" = yes ] || swapon ${SWAP_DEVICE:-/dev/vdc}
    if [ "${SWAP:-zswap}" = zswap ]; then
        for pair in compressor=${COMPRESSOR:-zstd} zpool=zsmalloc enabled=1; do
            echo ${pair#*=} >/sys/module/zswap/parameters/${pair%=*} 2>/dev/null
        done
    fi
    cd /sys/fs/cgroup
    echo "+memory +io +cpu" >cgroup.subtree_control
    mkdir w agent
}

# late_device NAME MICROSECONDS MIB KEEPS: a device that answers each request after that time, by a timer
# of the kernel; prints its path. What it holds takes memory of the machine, not of a container. If KEEPS
# is 0 it loses what is written. Needs configfs.
late_device() {
    device=/sys/kernel/config/nullb/$1
    mkdir $device
    echo $3 >$device/size
    echo $4 >$device/memory_backed
    echo 2 >$device/irqmode
    echo ${2}000 >$device/completion_nsec
    echo 1 >$device/power
    [ -b /dev/$1 ] && echo /dev/$1 || echo /dev/nullb$(cat $device/index)
}

# kdamond: milliseconds of CPU time of DAMON's threads.
kdamond() {
    for comm in $(grep -l "^kdamond" /proc/[0-9]*/comm 2>/dev/null); do cat ${comm%comm}schedstat; done |
        awk '{ ns += $1 } END { printf "%d\n", ns / 1000000 }'
}

# sample: a line of what the kernel says.
sample() {
    set -- $(grep -E "^(anon|file|kernel|pagetables|percpu|slab|zswap|zswapped|swapcached|workingset_refault_anon|workingset_refault_file|pgsteal|pgscan|pgmajfault|zswpin|zswpout) " w/memory.stat | sed "s/ /=/")
    read up rest </proc/uptime
    echo "at=$up current=$(cat w/memory.current) swap=$(cat w/memory.swap.current) high=$(cat w/memory.high)" \
        "stall=$(sed -n 's/^some.*total=//p' w/memory.pressure) io=$(sed -n 's/^some.*total=//p' w/io.pressure)" \
        "free=$(sed -n 's/^MemFree: *\([0-9]*\) kB/\1/p' /proc/meminfo)" \
        "pool=$(sed -n 's/^Zswap: *\([0-9]*\) kB/\1/p' /proc/meminfo)" \
        "agent=$(sed -n 's/^usage_usec //p' agent/cpu.stat) agent_user=$(sed -n 's/^user_usec //p' agent/cpu.stat)" \
        "kdamond=$(kdamond) cpu=$(sed -n 's/^usage_usec //p' w/cpu.stat) $*" >>$OUT/samples
}

# limits: what the daemon might have changed, of the container and of the host.
limits() {
    for limit in memory.high memory.max memory.swap.max memory.zswap.max; do echo $limit $(cat w/$limit); done
    echo swappiness $(cat /proc/sys/vm/swappiness)
    grep -H . /sys/module/zswap/parameters/* /sys/kernel/mm/lru_gen/* 2>/dev/null
}

# start_workload HOT WARM COLD SECONDS [CHANGE_AT]: in the cgroup w; returns once memory is filled.
start_workload() {
    : >$OUT/paced
    (echo 0 >w/cgroup.procs && exec /in/bin/paced "$@") >$OUT/paced &
    paced=$!
    while [ ! -s $OUT/paced ]; do sleep 1; done
}

# start_daemon CONFIG [OPTION]: --verbose unless something else is said.
start_daemon() {
    (echo 0 >agent/cgroup.procs && exec /in/bin/prairie offload run --config $1 ${2:---verbose}) >>$OUT/agent 2>&1 &
    agent=$!
}

# trouble: what the kernel and the cgroups complain of.
trouble() {
    cat w/memory.events | grep -h oom_kill >$OUT/oom
    dmesg | grep -i -E "oom|BUG:|WARNING:" >$OUT/kernel-trouble
}
