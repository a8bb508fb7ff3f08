# Runs in the guest of vm/lab. Arguments: SEED SWAP SECONDS [NAME=VALUE]...
set -eu
seed=$1 swap=$2 seconds=$3
shift 3
mkdir /disk
for device in /dev/pmem*; do
    mount -t ext4 "$device" /disk 2>/dev/null && continue
    case $swap in
    *G) mkswap "$device" $((${swap%G} << 20)) >/dev/null; swapon "$device" ;;
    *M) mkswap "$device" $((${swap%M} << 10)) >/dev/null; swapon "$device" ;;
    esac
done
cd /in/lab
for setting in "$@"; do echo "${setting#*=}" >"/proc/sys/vm/${setting%%=*}"; done
# Who waits for compaction and reclaim.
tracing=/sys/kernel/tracing
echo 20000 >$tracing/buffer_size_kb
for event in compaction/mm_compaction_try_to_compact_pages vmscan/mm_vmscan_direct_reclaim_begin; do
    echo 1 >$tracing/events/$event/enable
done
cat /proc/vmstat >"$OUT/vmstat.before"
cat /proc/meminfo >"$OUT/meminfo.before"
end=$(($(cut -d. -f1 /proc/uptime) + seconds))
{
    while [ $(($(cut -d. -f1 /proc/uptime) + 12)) -lt $end ]; do
        sed "s/^/$(cut -d' ' -f1 /proc/uptime) /" /proc/buddyinfo
        sleep 10
    done
    ./prairie survey --json >"$OUT/survey.json" || true
} >"$OUT/buddyinfo" 2>"$OUT/errors" &
./play_scenario run scenario.toml /disk "$seed" >"$OUT/played.json"
cat /proc/vmstat >"$OUT/vmstat.after"
sed -n 's/^.* \(mm_[a-z_]*\): /\1 /p' $tracing/trace | sort | uniq -c | sort -rn >"$OUT/waits"
wait
