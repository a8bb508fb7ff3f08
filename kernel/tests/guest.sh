# Runs in the guest: one case of kernel/test. Prints and checks; ends with 1 if a check failed.
case=$1
load=/in/load
sys=/sys/kernel/mm/contiguitas
node=$sys/node0
failed=0
mount -t debugfs none /sys/kernel/debug 2>/dev/null

# check WHAT LEFT OPERATOR RIGHT: numbers, as test compares them.
check() {
    if [ "$2" "$3" "$4" ]; then
        echo "ok: $1: $2 $3 $4"
    else
        echo "FAILED: $1: $2, expected $3 $4"
        failed=1
    fi
}
vmstat() { awk -v name="$1" '$1 == name { print $2 }' /proc/vmstat; }
counter() { awk -v name="$1" '$1 == name { print $2 }' $node/counters; }
meminfo() { awk -v name="$1:" '$1 == name { print $2 }' /proc/meminfo; }
total() { sed 's/.*total=//' "/proc/pressure/memory_$1"; }
value() { awk -v name="$1" '$1 == name { print $2 }' /tmp/values; }
# User memory in the zones below the border, in pages.
users_below() {
    awk '/^Node/ { below = $4 != "Movable" }
         below && /nr_zone_(in)?active_(anon|file)/ { pages += $2 } END { print pages + 0 }' /proc/zoneinfo
}
border() { cat $node/border_pfn; }
# The kernel's own complaints.
check_log() {
    complaints=$(dmesg | grep -cE 'BUG|WARNING|Bad page|INFO: (possible|task|rcu)|Oops|circular' || true)
    [ "$complaints" -eq 0 ] || dmesg | grep -A 25 -E 'BUG|WARNING|Bad page|INFO: (possible|task|rcu)|circular' | head -60
    check "complaints in the kernel log" "$complaints" -eq 0
}

boots() {
    check "border" "$(border)" -gt 0
    check "resizer thread" "$(ps | grep -c '[k]contigd0')" -eq 1
    check "MemAvailable in percent of MemFree" $(($(meminfo MemAvailable) * 100 / $(meminfo MemFree))) -gt 80
    check "min_free_kbytes" "$(cat /proc/sys/vm/min_free_kbytes)" -ge 4096
    "$load" scan 2 >/tmp/values
    check "reserved frames above the border" "$(value scan_reserved)" -le 64
    check "unmovable frames above the border" "$(value scan_strays)" -eq 0
    # Memory does not go off- or online while the border may move.
    block=$(ls -d /sys/devices/system/memory/memory* | tail -n 1)
    echo offline >"$block/state" 2>/dev/null
    check "memory block still online" "$(grep -c online "$block/state")" -eq 1
}

# With all movable memory in use, none of it lies below the border.
confines() {
    swapless=$(($(cat $node/movable_available_kb) / 1024 - 24))
    "$load" hold $swapless 6 0 >/dev/null &
    sleep 5
    dd if=/dev/vdc of=/dev/null bs=1M count=400 2>/dev/null
    check "pages of users below the border" "$(users_below)" -le 512
    wait
    check "victims" "$(vmstat oom_kill)" -eq 0
}

# A burst far beyond what is free below, at full speed: it waits, and nothing fails.
grows() {
    start=$(border)
    "$load" pipes 500 1 0 0 2 >/tmp/values
    cat /tmp/values $node/counters
    check "pages that the border went up" $(($(border) - start)) -ge 60000
    check "requests that waited" "$(counter waits)" -ge 1
    check "victims" "$(vmstat oom_kill)" -eq 0
    check "pages scanned for unmovable requests" $(($(vmstat allocstall_normal) + $(vmstat allocstall_dma32))) -le 20
    check "microseconds stalled, unmovable" "$(total unmovable)" -gt 0
    # It comes back.
    top=$(border)
    for second in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
        sleep 1
        [ $(((top - $(border)) * 100)) -ge $(((top - start) * 90)) ] && break
    done
    cat $node/counters
    check "percent of the growth that came back in $second s" $(((top - $(border)) * 100 / (top - start))) -ge 90
    check_log
}

# More is pinned than there is room for below.
pins() {
    "$load" pins 200 3 >/tmp/values &
    job=$!
    sleep 2
    wait $job
    cat /tmp/values
    check "result of pinning 200 MiB" "$(value pins_result)" -eq 0
    check "waits for room" "$(counter pin_waits)" -ge 1
    check "victims" "$(vmstat oom_kill)" -eq 0
}

# Gigantic pages lie above the border.
gigantic() {
    echo 1 >/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages
    check "1 GiB pages" "$(cat /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages)" -ge 1
    echo 0 >/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages
    echo 0 >$sys/gigantic_movable
    echo 1 >/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages
    check "1 GiB pages that may be pinned for long" "$(cat /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages)" -eq 0
    echo 600 >/proc/sys/vm/nr_hugepages
    check "2 MiB pages" "$(cat /proc/sys/vm/nr_hugepages)" -ge 600
}

# Too little on the movable side: requests stall in reclaim there, and in compaction.
presses() {
    dd if=/dev/vdc of=/dev/null bs=1M count=1200 2>/dev/null
    "$load" hold $(($(cat $node/movable_kb) / 1024 - 100)) 3 0 >/dev/null &
    dd if=/dev/vdc of=/dev/null bs=1M count=600 2>/dev/null
    wait
    check "microseconds stalled, movable" "$(total movable)" -gt 0
    # Nothing to be had from the border: unmovable requests reclaim, and that counts, too.
    cat $node/unmovable_kb >$node/ceiling_kb
    "$load" pipes 300 1 0 0 1 >/tmp/values
    check "microseconds stalled, unmovable" "$(total unmovable)" -gt 0
    check_log
}

# The kernel wakes the resizer long before its own look once a second.
wakes() {
    wake_ups=$(counter wake_ups)
    dd if=/dev/vdc of=/dev/null bs=1M count=1900 2>/dev/null &
    job=$!
    sleep 8
    kill $job 2>/dev/null
    check "wake-ups in 8 s of reclaim" $(($(counter wake_ups) - wake_ups)) -ge 16
}

# The border to and fro, beside all that looks for pages by their number.
oscillates() {
    seconds=$2
    "$load" anonymous 500 "$seconds" >/dev/null &
    "$load" scan "$seconds" >/tmp/values &
    "$load" pipes 60 "$((seconds / 5 + 1))" 0 20 0 >/dev/null &
    (while :; do dd if=/dev/vdc of=/dev/null bs=1M count=1200; done) 2>/dev/null &
    reader=$!
    (while :; do echo 1 >/proc/sys/vm/compact_memory; done) &
    compactor=$!
    (while :; do
        echo 300 >/proc/sys/vm/nr_hugepages
        echo 1 >/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages
        cat /proc/pagetypeinfo /proc/buddyinfo >/dev/null
        echo 0 >/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages
        echo 0 >/proc/sys/vm/nr_hugepages
    done) 2>/dev/null &
    pool=$!
    "$load" pins 16 "$seconds" >/dev/null &
    echo 4 >$sys/oscillate_pageblocks
    sleep "$seconds"
    echo 0 >$sys/oscillate_pageblocks
    kill $reader $compactor $pool
    sleep 2
    cat $node/counters /tmp/values
    check "moves" $(($(counter pageblocks_grown) + $(counter pageblocks_shrunk))) -ge "$seconds"
    check "unmovable frames above the border" "$(value scan_strays)" -eq 0
    check_log
}

# Disabled on the command line, there is no border.
off() {
    check "folder in /sys" "$(ls $sys 2>/dev/null | wc -l)" -eq 0
    check "managed pages of ZONE_MOVABLE" "$(awk '/^Node/ { m = $4 == "Movable" } m && $1 == "managed" { print $2 }' /proc/zoneinfo)" -eq 0
}

"$case" "$@"
dmesg | grep -i contiguitas
check_log >/tmp/log 2>&1
grep -q FAILED /tmp/log && { cat /tmp/log; failed=1; }
exit $failed
