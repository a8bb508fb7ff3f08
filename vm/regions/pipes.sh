# Runs in the guest: 900 MiB of pipes (in 4 GiB) at a rate while page cache fills memory, under one
# agent. The pipes end, and it is counted what has returned two and a half minutes later and after WAIT
# seconds more. Arguments: AGENT ROUND RATE [WAIT], the rate in MiB/s or full.
agent=$1 round=$2 rate=$3 wait=${4:-0}
# What no machine reaches.
most_rate=1000000
. /in/common.sh
. /in/agent.sh
make_disk
start_agent $agent
dd if=/dev/zero of=/disk/first bs=1M count=$((3300 * times)) 2>/dev/null
sync
later 1
# free_mib: free in the kernel zones, in MiB.
free_mib() { awk '/^Node/ { zone = $4 } /pages free/ && zone != "Movable" && zone != "DMA" { sum += $3 } END { print int(sum / 256) }' /proc/zoneinfo; }
# user_mib: user memory in the kernel zones, page cache and anonymous, in MiB.
user_mib() { awk '/^Node/ { zone = $4 } /nr_zone_(in)?active_(file|anon)/ && zone != "Movable" && zone != "DMA" { sum[$1 ~ /file/] += $2 } END { printf "cache_mib=%d anon_mib=%d", sum[1] / 256, sum[0] / 256 }' /proc/zoneinfo; }
# reclaimed: compactions, and frames that reclaim scanned, took, and skipped (in zones that a request
# cannot use), since boot.
reclaimed() { awk '/^pgscan_kswapd/ { k = $2 } /^pgscan_direct / { d = $2 } /^pgsteal_kswapd/ { t += $2 } /^pgsteal_direct / { t += $2 } /^compact_(stall|fail|daemon_wake|isolated)/ { c = c " " $1 "=" $2 } /^pgskip_/ { s += $2 } END { print c, "scan_kswapd=" k, "scan_direct=" d, "steal=" t, "skip=" s }' /proc/vmstat; }
# most: the largest size of the unmovable region, if the kernel has one.
most() { sed -n 's/.*unmovable_mib=\([0-9]*\).*/\1/p' $OUT/samples | sort -n | tail -n 1; }
psi_before=$(psi) stalls_before=$(kernel_stalls) ready=$(movable) size_before=$(region)
user_before=$(count allocstall_movable)
/in/bin/kernel_load pipes $((900 * times)) $(echo $rate | sed "s/full/$most_rate/") 0 5 >$OUT/pipes 2>&1 &
load=$!
least=$(free_mib)
while ! is_gone $load; do
    now=$(free_mib)
    [ $now -ge $least ] || least=$now
    echo "at=$(seconds) free_mib=$now $(user_mib) movable=$(movable) $(region) stalls=$(kernel_stalls) psi_us=$(($(psi) - psi_before)) $(reclaimed)" >>$OUT/samples
    usleep 500000
done
grown=$(movable)
during="least_free_mib=$least stalls=$(($(kernel_stalls) - stalls_before)) psi_us=$(($(psi) - psi_before)) oom=$(count oom_kill)"
# Pipes that could not be filled, and requests that the kernel refused.
failed=$(($(dmesg | grep -c "page allocation failure") + $(grep -c "kernel_load:" $OUT/pipes)))
during="$during failed=$failed user_stalls=$(($(count allocstall_movable) - user_before))"
sleep 60
size_after=$(region)
# What keeps the border up, if it has not come down.
/in/bin/kernel_load beside >$OUT/beside 2>/dev/null
sleep 90
returned=$(($(movable) - grown))
sleep $wait
/in/bin/kernel_load blocks >$OUT/blocks
echo "agent=$agent rate=$rate $during $(cat $OUT/pipes) grown=$((ready - grown)) returned=$returned returned_later=$(($(movable) - grown)) $(agent_cost)${size_before:+ unmovable_start=${size_before#*=} unmovable_most=$(most) unmovable_minute=${size_after#*=}}" >$OUT/result
[ $agent != daemon ] || /in/bin/prairie regions status --json >$OUT/status 2>&1
trouble
exit 0
