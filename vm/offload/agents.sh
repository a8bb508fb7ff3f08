# Starts the agent that $AGENT names beside the container w. An agent of DAMON's carries its setting
# in its name, so that a table says what ran:
#
#   damos-OPERATIONS-SAMPLEms-AGEs-REGIONS[-quota]
#   damon_reclaim-SAMPLEms-AGEs-REGIONS[-quota | -stock]
#
# OPERATIONS is vaddr (the address space of the process) or paddr (all physical memory, with a filter
# for the container). A region counts as cold after AGE seconds without an access. It is sampled every
# SAMPLE ms, twenty times in an aggregation interval; REGIONS is the smallest number of regions, 1,000
# the largest, or four times REGIONS if that is more. `quota` is a hundredth of the container in six
# seconds, counted over an aggregation interval if that is longer, as DAMON acts once in it; `stock` is
# DAMON_RECLAIM's own quota: 10 ms and 128 MiB a second.

# put VALUE FILE: into a file of DAMON's.
put() { echo "$1" >"$2" || echo "vm: $2 does not take $1"; }

# setting WORD...: the parts of a setting that DAMOS and DAMON_RECLAIM share.
setting() {
    sample_us=$((${1%ms} * 1000)) age_s=${2%s} regions=$3 quota=${4:-none}
    most_regions=$((regions * 4))
    [ $most_regions -gt 1000 ] || most_regions=1000
    quota_ms=$((sample_us * 20 / 1000))
    [ $quota_ms -gt 6000 ] || quota_ms=6000
    quota_bytes=$(($(cat w/memory.current) / 100 * quota_ms / 6000))
}

# damos PID OPERATIONS SETTING...: pages out what has not been accessed for a while.
damos() {
    pid=$1 operations=$2
    shift 2
    setting "$@"
    admin=/sys/kernel/mm/damon/admin/kdamonds
    put 1 $admin/nr_kdamonds
    put 1 $admin/0/contexts/nr_contexts
    context=$admin/0/contexts/0
    put $operations $context/operations
    put $sample_us $context/monitoring_attrs/intervals/sample_us
    put $((sample_us * 20)) $context/monitoring_attrs/intervals/aggr_us
    # The smaller first: the kernel refuses a minimum above the maximum.
    put $most_regions $context/monitoring_attrs/nr_regions/max
    put $regions $context/monitoring_attrs/nr_regions/min
    put 1 $context/targets/nr_targets
    if [ $operations = vaddr ]; then
        put $pid $context/targets/0/pid_target
    else
        set -- $(system_ram)
        put 1 $context/targets/0/regions/nr_regions
        put $1 $context/targets/0/regions/0/start
        put $2 $context/targets/0/regions/0/end
    fi
    put 1 $context/schemes/nr_schemes
    scheme=$context/schemes/0
    put pageout $scheme/action
    put 4096 $scheme/access_pattern/sz/min
    put 18446744073709551615 $scheme/access_pattern/sz/max
    put 0 $scheme/access_pattern/nr_accesses/min
    put 0 $scheme/access_pattern/nr_accesses/max
    # In aggregation intervals.
    put $((age_s * 1000000 / (sample_us * 20))) $scheme/access_pattern/age/min
    put 4294967295 $scheme/access_pattern/age/max
    if [ $operations = paddr ]; then
        # Leaves out what does not belong to the container.
        put 1 $scheme/filters/nr_filters
        put memcg $scheme/filters/0/type
        put /w $scheme/filters/0/memcg_path
        put N $scheme/filters/0/matching
    fi
    if [ $quota = quota ]; then
        put $quota_bytes $scheme/quotas/bytes
        put $quota_ms $scheme/quotas/reset_interval_ms
        # The oldest first.
        put 1000 $scheme/quotas/weights/age_permil
    fi
    put on $admin/0/state
}

# system_ram: start and end of the largest piece of memory.
system_ram() {
    grep "System RAM" /proc/iomem | sed 's/ .*//; s/-/ /' | while read -r from to; do
        echo $((0x$from)) $((0x$to + 1))
    done | awk '$2 - $1 > size { size = $2 - $1; found = $0 } END { print found }'
}

# damon_reclaim SETTING...: the kernel's own scheme, for all memory of the machine.
damon_reclaim() {
    setting "$@"
    parameters=/sys/module/damon_reclaim/parameters
    put $sample_us $parameters/sample_interval
    put $((sample_us * 20)) $parameters/aggr_interval
    put $most_regions $parameters/max_nr_regions
    put $regions $parameters/min_nr_regions
    put $((age_s * 1000000)) $parameters/min_age
    # Awake however much memory is free: the stock marks let it sleep while half of memory is.
    put 1000 $parameters/wmarks_high
    put 999 $parameters/wmarks_mid
    put 0 $parameters/wmarks_low
    case $quota in
    quota)
        put 0 $parameters/quota_ms
        put $quota_bytes $parameters/quota_sz
        put $quota_ms $parameters/quota_reset_interval_ms
        ;;
    none)
        put 0 $parameters/quota_ms
        put 0 $parameters/quota_sz
        ;;
    esac
    put Y $parameters/enabled
}

# start_agent PID: $AGENT, for the container of that process.
start_agent() {
    # Linux 6.17 and later monitor by themselves, and then DAMON_RECLAIM does not start.
    stat=/sys/module/damon_stat/parameters/enabled
    [ ! -e $stat ] || put N $stat
    case $AGENT in
    prairie) start_daemon $CONFIG $LOG ;;
    prairie-default) start_daemon /in/paper.toml $LOG ;;
    published-*)
        (echo 0 >agent/cgroup.procs && exec /in/bin/published /sys/fs/cgroup/w ${AGENT#published-}) >$OUT/agent 2>&1 &
        ;;
    senpai)
        export PYTHONHOME=/in/python
        (echo 0 >agent/cgroup.procs && exec python3.11 /in/senpai.py /sys/fs/cgroup/w) >$OUT/agent 2>&1 &
        ;;
    damos-*) damos $1 $(echo ${AGENT#damos-} | tr - ' ') >$OUT/agent 2>&1 ;;
    damon_reclaim-*) damon_reclaim $(echo ${AGENT#damon_reclaim-} | tr - ' ') >$OUT/agent 2>&1 ;;
    esac
}

# damon_statistics: what DAMON says of what it tried and applied. It answers after an aggregation
# interval, and not at all once the process is gone.
damon_statistics() {
    case $AGENT in
    damos-*)
        put update_schemes_stats $admin/0/state
        grep -H . $scheme/stats/* | sed 's/.*stats.//' >$OUT/damon
        ;;
    damon_reclaim-*) grep -H . $parameters/* | sed 's/.*parameters.//' >$OUT/damon ;;
    esac 2>/dev/null
}
