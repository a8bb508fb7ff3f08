# The agents that are compared, and what they cost. To be sourced after common.sh.

# start_agent NAME: stock does nothing, kernelcore is a boot parameter, contiguitas a kernel, kswapd the priority
# that the daemon gives it, alone.
start_agent() {
    case $1 in
    contiguitas) daemon=$(ps | sed -n 's/^ *\([0-9]*\) .*[k]contigd0.*/\1/p'); [ -n "$daemon" ] || complain "no resizer" ;;
    daemon) start_daemon /in/measured.toml; until_true 90 is_set_up || complain "not set up" ;;
    kswapd) renice -n -10 -p $(pidof kswapd0) && [ $(kswapd_nice) = -10 ] || complain "kswapd has its old priority" ;;
    naive) sh /in/naive.sh >$OUT/daemon 2>&1 & naive=$!; sleep 20 ;;
    esac
    cpu_before=$(ticks)
    agent_since=$(seconds)
}
seconds() { cut -d. -f1 /proc/uptime; }
# ticks: hundredths of a second of CPU time: all of the daemon's, then its main thread's.
ticks() {
    [ -n "${daemon:-}" ] || { echo 0 0; return; }
    own() { sed 's/.*) //' "$1" | awk '{ print $12 + $13 }'; }
    echo $(own /proc/$daemon/stat) $(own /proc/$daemon/task/$daemon/stat)
}
# reads: full samples, glances, and blocks whose page flags were read, so far.
reads() { echo $(figure samples) $(figure glances) $(figure blocks_read); }
# converted WHERE: conversions so far.
converted() { grep -c "convert block.* to $1: done" $OUT/daemon 2>/dev/null; }
# agent_cost: words of the agent's cost since its start.
agent_cost() {
    [ -n "${daemon:-}" ] || return 0
    set -- $cpu_before $(ticks)
    lasted=$(($(seconds) - agent_since))
    echo "cpu_ppm=$((($3 - $1) * 10000 / lasted)) own_cpu_ppm=$((($4 - $2) * 10000 / lasted))" \
        "rss_kib=$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' /proc/$daemon/status)" \
        "to_kernel=$(converted kernel) to_movable=$(converted movable)" \
        "$([ ! -d $contiguitas ] || sed 's/ /=/' $contiguitas/counters | tr '\n' ' ')"
}
# later PARTS: waits up to a second, another time in each round: counted runs repeat otherwise.
later() { usleep $(($1 * $round * 90901 % 1000000)); }
# times: how many times 4 GiB of memory the machine has, at least once. Loads grow with it.
times=$(awk '/^MemTotal/ { n = int($2 / 4194304 + 0.5); print (n > 1 ? n : 1) }' /proc/meminfo)
# make_disk ARGUMENT...: ext4 in /disk, on persistent memory ($empty, or the first) where the kernel has a
# driver for it.
make_disk() {
    device=${empty:-/dev/pmem0}
    [ -e $device ] || device=/dev/vdc
    echo never >/sys/kernel/mm/transparent_hugepage/enabled
    format -q -t ext4 "$@" $device && mkdir /disk && mount -t ext4 $device /disk || complain "no disk"
}
# make_disks: /disk and a tmpfs in /small, without huge pages in either. Free frames on per-CPU lists
# look like kernel memory: with one CPU the lists would hold thousands.
make_disks() {
    make_disk -N 200000
    echo 4096 >/proc/sys/vm/percpu_pagelist_high_fraction
    mkdir /small && mount -t tmpfs -o size=$((600 * times))M none /small
}
# huge_pages: available 2 MiB pages; they are taken and returned.
huge_pages() {
    echo $((2048 * times)) >/proc/sys/vm/nr_hugepages
    cat /proc/sys/vm/nr_hugepages
    echo 0 >/proc/sys/vm/nr_hugepages
}
# gigantic_after_load AGENT: available 1 GiB pages, of three (in 4 GiB), without page cache and agent.
gigantic_after_load() {
    sync
    echo 1 >/proc/sys/vm/drop_caches
    [ $1 != naive ] || kill $naive
    gigantic $1 $((3 * times))
}
# gigantic AGENT COUNT: available 1 GiB pages; they are taken and returned.
gigantic() {
    pool=/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages
    if [ "$1" = daemon ]; then
        # The daemon carries out both.
        /in/bin/prairie regions reserve --size 1G --count $2 >>$OUT/reserve 2>&1
        cat $pool
        /in/bin/prairie regions reserve --size 1G --count 0 >>$OUT/reserve 2>&1
    else
        [ ! -e /proc/sys/vm/movable_gigantic_pages ] || echo 1 >/proc/sys/vm/movable_gigantic_pages
        echo $2 >$pool
        cat $pool
        echo 0 >$pool
    fi
}
# format ARGUMENT...: the host's mke2fs; busybox has one of that name that knows no ext4.
format() { for each in /usr/sbin/mke2fs /sbin/mke2fs; do [ ! -x $each ] || { $each "$@"; return; }; done; }
# passed: seconds since the load began, at $start.
passed() { echo $(($(seconds) - start)); }
# sample_for SECONDS: a sample every ten seconds until the load has lasted so long.
sample_for() {
    while [ $(passed) -lt $1 ]; do
        sleep 10
        echo "at=$(passed) $(/in/bin/kernel_load areas) movable=$(movable) $(region) stalls=$(kernel_stalls)" \
            "psi_us=$(($(psi) - psi_before)) oom=$(count oom_kill)" >>$OUT/samples
    done
}
anonymous_mib() { awk '/^AnonPages/ { print int($2 / 1024) }' /proc/meminfo; }
# judge AGENT: words of the huge pages of 2 MiB that are available beside 700 MiB (in 4 GiB) of anonymous
# memory and once it is gone, and of those of 1 GiB once page cache is dropped, too. The load has ended:
# whether its own anonymous memory, which comes and goes, met the count would be chance.
judge() {
    /in/bin/kernel_load anon $((700 * times)) 3600 >/dev/null &
    anonymous=$!
    until_true 30 eval '[ $(anonymous_mib) -ge $((700 * times)) ]' || complain "no anonymous memory"
    pages=$(huge_pages)
    kill $anonymous
    wait $anonymous
    after=$(huge_pages)
    echo "hugetlb_2m=$pages after_2m=$after hugetlb_1g=$(gigantic_after_load $1)"
}
