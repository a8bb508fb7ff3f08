# Runs in the guest: one case of kernel/test. Prints and checks; ends with 1 if a check failed.
# Usage: guest.sh CASE SECONDS [quiet]
# quiet: /proc/kpageflags is not read while pages change. stable_page_flags() looks at a folio without
# a reference, and DEBUG_VM_PGFLAGS takes that for a bug once the folio has become a tail page.
case=$1
load=/in/load
sys=/sys/kernel/mm/contiguitas
node=$sys/node0
last_frame=1000000000
failed=0
ulimit -n 100000
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
# Files of 1.3 GiB: the page cache of a block device lies below the border, that of files above.
make_files() {
    device=/dev/pmem0
    [ -e $device ] || device=/dev/vdc
    mke2fs -F $device >/dev/null 2>&1
    mkdir -p /disk
    mount -t ext4 $device /disk
    dd if=/dev/zero of=/disk/file bs=1M count=1300 2>/dev/null
    sync
}
# User memory in the zones below the border, in pages.
users_below() {
    awk '/^Node/ { below = $4 != "Movable" }
         below && /nr_zone_(in)?active_(anon|file)/ { pages += $2 } END { print pages + 0 }' /proc/zoneinfo
}
# Zones below the border of which movable requests may use a part.
lending() {
    awk '/^Node/ { below = $4 != "Movable" } $1 == "spanned" { spanned = $2 }
        below && $1 == "protection:" {
            most = 0
            for (at = 2; at <= NF; at++) { sub(/^\(/, "", $at); if ($at + 0 > most) most = $at + 0 }
            if (most < spanned) zones++
        } END { print zones + 0 }' /proc/zoneinfo
}
# Pages kept free in those zones for requests that cannot wait: their min marks.
kept_below() {
    awk '/^Node/ { below = $4 != "Movable" } below && $1 == "min" { pages += $2 } END { print pages }' /proc/zoneinfo
}
# served ZONE: pages that it ever handed to requests.
served() {
    awk -v zone="$1" '/^Node/ { counts = $4 == zone } counts && $1 == "numa_hit" { print $2 }' /proc/zoneinfo
}
# Free pages of a zone above its low mark.
spare() {
    awk -v zone="$1" '/^Node/ { counts = $4 == zone } counts && $2 == "free" { free = $3 }
        counts && $1 == "low" { print free - $2 }' /proc/zoneinfo
}
# What a zone keeps from requests that may use ZONE_NORMAL, the last but one zone here, in pages.
kept() {
    awk -v zone="$1" '/^Node/ { counts = $4 == zone }
        counts && $1 == "protection:" { gsub(/[(),]/, ""); print $(NF - 1) }' /proc/zoneinfo
}
# Page cache in those zones that has to be written before it can go, in pages.
dirty_below() {
    awk '/^Node/ { below = $4 != "Movable" } below && $1 == "nr_zone_write_pending" { pages += $2 } END { print pages + 0 }' /proc/zoneinfo
}
# A burst of page tables, in MiB, makes the region below the border grow. Then that is free, but kept.
burst() {
    "$load" tables "$1" 3 >/tmp/burst &
    until grep -qs tables_mib /tmp/burst; do sleep 1; done
    cat $node/unmovable_kb >$node/floor_kb
    wait $!
}
border() { cat $node/border_pfn; }
# Pageblocks that changed sides since boot.
moves() { echo $(($(counter pageblocks_grown) + $(counter pageblocks_shrunk))); }
# The border rests, and all loads end. Then page flags are read.
end_of_load() {
    echo 0 >$sys/oscillate_pageblocks
    for job in $(jobs -p); do kill "$job" 2>/dev/null; done
    until ! pidof cat load >/dev/null; do killall -q cat load; sleep 1; done
    "$load" scan 1 >/tmp/values
    check "unmovable frames above the border" "$(value scan_strays)" -eq 0
    check_log
}
# The kernel's own complaints.
complaint='BUG: |WARNING: (CPU|possible|suspicious)|Bad page|INFO: (possible|task|rcu)|Oops'
check_log() {
    complaints=$(dmesg | grep -cE "$complaint" || true)
    [ "$complaints" -eq 0 ] || dmesg | grep -A 30 -E "$complaint" | head -60
    check "warnings in the kernel log" "$complaints" -eq 0
}

boots() {
    check "border" "$(border)" -gt 0
    check "resizer thread" "$(ps | grep -c '[k]contigd0')" -eq 1
    # If all that is confined counted as reserved, 91 % would remain instead of 98.
    check "MemAvailable in percent of MemFree" $(($(meminfo MemAvailable) * 100 / $(meminfo MemFree))) -ge 95
    # Reserve and marks follow from all of memory. Huge pages would ask for a reserve of their own.
    echo never >/sys/kernel/mm/transparent_hugepage/enabled
    check "min_free_kbytes" "$(cat /proc/sys/vm/min_free_kbytes)" -ge 4096
    check "low mark above the border, in pages" "$(awk '/^Node/ { m = $4 == "Movable" } m && $1 == "low" { print $2 }' /proc/zoneinfo)" -le 3000
    "$load" scan 2 >/tmp/values
    # Only what firmware keeps lies above. With DEBUG_PAGEALLOC the initial root file system is not freed,
    # which the boot loader puts there.
    kept=$(dmesg | sed -n 's/.*RAMDISK: \[mem \(0x[0-9a-f]*\)-\(0x[0-9a-f]*\)\].*/\2 \1/p')
    [ -n "${3:-}" ] && kept=$(((${kept% *} - ${kept#* }) / 4096)) || kept=0
    check "reserved frames above the border" "$(value scan_reserved)" -le $((64 + kept))
    check "unmovable frames above the border" "$(value scan_strays)" -eq 0
    # Memory does not go off- or online while the border may move, not where it lies either.
    for block in /sys/devices/system/memory/memory[0-9]*; do echo offline >"$block/state"; done 2>/dev/null
    check "memory blocks offline" "$(grep -l offline /sys/devices/system/memory/memory[0-9]*/state | wc -l)" -eq 0
    check_log
}

# Started by UEFI firmware, whose stub chooses where the kernel's image lies. Firmware keeps memory above
# the border, too, so reserved frames tell nothing.
efi() {
    check "folder of UEFI firmware in /sys" "$(ls -d /sys/firmware/efi | wc -l)" -eq 1
    last=$(sed -n 's/.*-\([0-9a-f]*\) : Kernel bss/\1/p' /proc/iomem)
    check "page at which the kernel's image ends" $((0x$last / 4096)) -le "$(border)"
    "$load" scan 2 >/tmp/values
    check "unmovable frames above the border" "$(value scan_strays)" -eq 0
    check_log
}

# Files of the initial file system need more memory below the border than the first one leaves.
starts() {
    check "pages of the initial file system" $(($(wc -c </zeros) / 4096)) -eq 51200
    check "pages by which the border rose" $(($(counter pageblocks_grown) * 512)) -ge 10000
    "$load" scan 2 >/tmp/values
    check "unmovable frames above the border" "$(value scan_strays)" -eq 0
    # Huge pages ask for more free memory, but not below the border.
    echo always >/sys/kernel/mm/transparent_hugepage/enabled
    check "min_free_kbytes with huge pages" "$(cat /proc/sys/vm/min_free_kbytes)" -ge 20000
    check "pages kept below the border for requests that cannot wait" \
        "$(kept_below)" -le 3000
    check_log
}

# A node that is too small for a border is as without the change: what huge pages ask for is kept free.
tiny() {
    check "borders" "$(ls -d $node 2>/dev/null | wc -l)" -eq 0
    echo always >/sys/kernel/mm/transparent_hugepage/enabled
    least=$(cat /proc/sys/vm/min_free_kbytes)
    check "min_free_kbytes with huge pages" "$least" -ge 10000
    check "percent of it that is kept free" $(($(kept_below) * 400 / least)) -ge 95
    check_log
}

# With more movable memory in use than there is room for, none of it lies below the border, though
# much is free there.
confines() {
    make_files
    burst 300
    check "MiB free below the border" $(($(cat $node/unmovable_available_kb) / 1024)) -ge 250
    "$load" hold $(($(cat $node/movable_available_kb) / 1024 + 200)) 10 0 >/tmp/held &
    until grep -qs held_mib /tmp/held; do sleep 1; done
    cat /disk/file >/dev/null
    check "pages of users below the border" "$(users_below)" -le 2048
    wait
    check "OOM kills" "$(vmstat oom_kill)" -eq 0
}

# What was freed last is first on the lists, and after a burst, or after all movable memory was in
# use, that lies beside the border. New memory lies elsewhere. Bands are wide here, since resizing keeps
# more free beside the border than the usual ones have. Some is used there all the same:
# blocks of smaller orders, which go first wherever they lie.
places() {
    # Per-CPU lists would hand out what was freed last, wherever it lies.
    echo 4096 >/proc/sys/vm/percpu_pagelist_high_fraction
    echo 256 >$sys/band_unmovable_per_1024
    echo 128 >$sys/band_movable_per_1024
    burst 300
    "$load" hold $(($(cat $node/movable_available_kb) / 1024 - 24)) 0 0
    "$load" tables 100 100 >/tmp/tables &
    "$load" hold 300 100 0 >/tmp/held &
    until grep -qs tables_mib /tmp/tables && grep -qs held_mib /tmp/held; do sleep 1; done
    border=$(border)
    "$load" within $((border - border / 4)) "$border" >/tmp/values
    check "percent of new page tables in the quarter below the border" $(($(value within_tables) / 256)) -le 20
    "$load" within "$border" $((border + $(cat $node/movable_kb) / 4 / 8)) >/tmp/values
    check "percent of new user memory in the eighth above the border" $(($(value within_users) / 768)) -le 20
}

# Unmovable memory lies far from the border: ZONE_NORMAL, beside it, serves requests that may use any
# zone once ZONE_DMA32 is down to its low mark, and no sooner.
orders() {
    # As much as without a border: a 256th of what lies above 256 MiB.
    check "pages that ZONE_DMA32 keeps for requests that can use no other zone" "$(kept DMA32)" -ge 2500
    # Boot has used neither up.
    check "free pages of ZONE_NORMAL above its low mark" "$(spare Normal)" -ge 500
    spare=$(spare DMA32)
    check "free pages of ZONE_DMA32 above its low mark" "$spare" -ge 4000
    before=$(served Normal)
    # Each pipe of 64 KiB also takes some pages for itself.
    "$load" pipes $((spare / 4 * 3 / 256)) 1 0 0 1 >/tmp/values
    check "requests that ZONE_NORMAL served beside it" $(($(served Normal) - before)) -le 100
    "$load" pipes $((spare / 256 + 24)) 1 0 0 1 >/tmp/values
    check "requests that it served with 24 MiB more" $(($(served Normal) - before)) -ge 1000
}

# A request that takes part of another kind's pageblock does not wake kswapd, as it does elsewhere. Pipes
# leave unmovable pageblocks with free pages, and then names are cached, which are reclaimable.
mixes() {
    "$load" pipes 24 1 25 0 60 >/tmp/held &
    until grep -qs pipes_ms /tmp/held; do sleep 1; done
    make_files
    events=/sys/kernel/debug/tracing
    echo 1 >$events/events/vmscan/mm_vmscan_wakeup_kswapd/enable
    # Names without a file are cached, too.
    name=$(printf '%0240d' 0) n=0
    until [ $n -eq 20000 ]; do n=$((n + 1)); [ ! -e /disk/$name$n ]; done
    "$load" pipes 300 1 0 0 1 >/tmp/values
    echo 0 >$events/events/enable
    check "wake-ups of kswapd for a raised mark" "$(grep -c 'wakeup_kswapd:.*gfp_flags=none' $events/trace)" -eq 0
}

# A burst far beyond what is free below, at full speed: it waits, and nothing fails. Nor is page cache
# reclaimed while there is free memory above.
grows() {
    make_files
    start=$(border)
    stolen=$(vmstat pgsteal_kswapd)
    "$load" pipes 500 1 100 0 4 >/tmp/values &
    job=$!
    until grep -q pipes_ms /tmp/values; do sleep 1; done
    top=$(border)
    cat /tmp/values $node/counters
    check "pages by which the border rose" $((top - start)) -ge 60000
    check "requests that waited" "$(counter waits)" -ge 1
    check "OOM kills" "$(vmstat oom_kill)" -eq 0
    check "direct reclaims for unmovable requests" $(($(vmstat allocstall_normal) + $(vmstat allocstall_dma32))) -le 20
    check "microseconds stalled, unmovable" "$(total unmovable)" -gt 0
    check "pages that kswapd reclaimed" "$(($(vmstat pgsteal_kswapd) - stolen))" -le 2000
    wait $job
}

# The growth of such a burst comes back within a minute, though a process that stays starts right
# after it: its page tables take the pages that were freed last.
returns() {
    start=$(border)
    "$load" pipes 500 1 100 0 4 >/tmp/values &
    job=$!
    until grep -q pipes_ms /tmp/values; do sleep 1; done
    top=$(border)
    wait $job
    sleep 100 &
    second=0
    while [ $(((top - $(border)) * 100)) -lt $(((top - start) * 90)) ] && [ $second -lt 60 ]; do
        sleep 1
        second=$((second + 1))
    done
    cat $node/counters
    "$load" near "$(border)"
    check "percent of the growth returned within $second s" $(((top - $(border)) * 100 / (top - start))) -ge 90
}

# Pages that only change sides are not cleared, though init_on_alloc is set. Clearing a pageblock takes 4 ms in
# counted time.
clears() {
    returns
    check "moves" $(moves) -ge 200
    check "microseconds for each of them" $(($(counter move_us) / $(moves))) -le 2000
}

# A burst leaves tens of thousands of half empty slabs in retired pageblocks. A request for an object passes by
# some of them, with interrupts off, and then takes a new slab.
walks() {
    "$load" tables 500 120 >/tmp/tables &
    job=$!
    until grep -qs tables_mib /tmp/tables; do sleep 1; done
    "$load" files 1 200000 20 >/tmp/values
    kill -KILL $job
    wait $job
    sleep 5
    check "MiB that are retired" $(($(cat $node/retired_kb) / 1024)) -ge 300
    grep -E '^(dentry|inode_cache) ' /proc/slabinfo
    "$load" files 2 5000 1 >/tmp/values
    check "microseconds for the slowest of 5,000 new files" "$(value files_longest_us)" -le 300
    check "MiB that are retired after them" $(($(cat $node/retired_kb) / 1024)) -ge 300
}

# More is pinned than there is room for below.
pins() {
    before=$(cat $node/unmovable_kb)
    "$load" pins 200 3 >/tmp/values &
    job=$!
    sleep 2
    grown=$((($(cat $node/unmovable_kb) - before) / 1024))
    wait $job
    cat /tmp/values
    check "result of pinning 200 MiB" "$(value pins_result)" -eq 0
    check "waits for room" "$(counter pin_waits)" -ge 1
    check "MiB that the region grew" "$grown" -le 300
    check "OOM kills" "$(vmstat oom_kill)" -eq 0
}

# What a burst leaves beside the border is retired. Pages pinned there are pinned once more, by another
# user; and the kernel's own that it has mapped for a program. Retired pageblocks are marked isolated, from
# where the kernel would migrate both before a pin, and can migrate neither.
repins() {
    "$load" tables 700 4 >/tmp/burst &
    burst=$!
    until grep -qs tables_mib /tmp/burst; do sleep 1; done
    timeout 60 "$load" repins 16 10 >/tmp/values &
    job=$!
    wait $burst
    sleep 4
    check "MiB that are retired" $(($(cat $node/retired_kb) / 1024)) -ge 16
    wait $job
    check "status of the load" $? -eq 0
    check "result of the first pin" "$(value first_result)" -eq 0
    check "result of the second one" "$(value second_result)" -eq 0
    # Linux 6.1 maps a ring in a way that nobody can pin.
    case $(uname -r) in
    6.1.*) ;;
    *) check "result of pinning a ring" "$(value ring_result)" -eq 0 ;;
    esac
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

# Too little on the movable side, with swap on a slow disk: requests stall in reclaim there. Then
# below, where the border is held and has to make room by writing out a slow block device's cache.
presses() {
    mkswap /dev/vdd >/dev/null 2>&1
    swapon /dev/vdd
    each=$((($(cat $node/movable_kb) / 1024 + 200) / 4))
    for number in 1 2 3 4; do "$load" hold $each 10 0 >/dev/null & done
    wait
    grep -E '^(allocstall|pswpout|oom_kill)' /proc/vmstat
    check "microseconds stalled, movable" "$(total movable)" -gt 0
    swapoff /dev/vdd
    before=$(total unmovable)
    cat $node/unmovable_kb >$node/ceiling_kb
    cat $node/unmovable_kb >$node/floor_kb
    available=$(($(cat $node/unmovable_available_kb) / 1024))
    # What is kept for requests that cannot wait is not there for pipes.
    room=$((available - $(cat /proc/sys/vm/min_free_kbytes) / 1024))
    echo 90 >/proc/sys/vm/dirty_background_ratio
    echo 95 >/proc/sys/vm/dirty_ratio
    # The device stays open: the last one to close it would write all of its cache out and drop it.
    (while :; do dd if=/dev/zero of=/dev/vde conv=notrunc bs=1M count=$available 2>/dev/null; done) 8</dev/vde &
    writer=$!
    until [ "$(total unmovable)" -gt "$before" ] || [ $(($(dirty_below) / 256)) -ge $((room / 2)) ]; do sleep 1; done
    echo "region $(cat $node/unmovable_kb) KiB, available $available MiB, dirty $(($(dirty_below) / 256)) MiB"
    "$load" pipes $((room * 3 / 4)) 1 0 0 1 >/tmp/values
    kill $writer
    check "microseconds stalled, unmovable" "$(total unmovable)" -gt "$before"
    check "direct reclaims for unmovable requests" "$(($(vmstat allocstall_normal) + $(vmstat allocstall_dma32)))" -gt 0
    check "OOM kills" "$(vmstat oom_kill)" -eq 0
}

# Free memory full of holes: a huge page needs compaction. A request ends at its first failure, which is
# what half of the stock kernel's boots come to (kernel/holes).
compacts() {
    "$load" holes $(($(cat $node/movable_kb) / 1024 - 100)) 1000000 >/tmp/holes &
    until grep -q holes_mib /tmp/holes; do sleep 1; done
    echo 300 >/proc/sys/vm/nr_hugepages
    check "2 MiB pages" "$(cat /proc/sys/vm/nr_hugepages)" -ge 290
    check "direct compactions" "$(vmstat compact_stall)" -gt 0
    check "microseconds stalled, movable" "$(total movable)" -gt 0
}

# Compaction of memory full of holes takes seconds, and makes way for the border: a hand-over waits for
# its next 32 pages, not for its end.
yields() {
    "$load" holes $(($(cat $node/movable_kb) / 1024 - 100)) 1000000 >/tmp/holes &
    until grep -q holes_mib /tmp/holes; do sleep 1; done
    (while :; do echo 1 >/proc/sys/vm/compact_memory; done) &
    compactor=$!
    moves=$(moves) spent=$(counter move_us)
    echo 1 >$sys/oscillate_pageblocks
    sleep 5
    echo 0 >$sys/oscillate_pageblocks
    kill $compactor
    moves=$(($(moves) - moves))
    cat $node/counters
    grep -E '^compact_(migrate_scanned|stall)' /proc/vmstat
    check "moves in 5 s" $moves -ge 40
    check "ms for a move" $((($(counter move_us) - spent) / (moves + !moves) / 1000)) -le 10
}

# Page cache of which every other page is old: reclaim leaves holes everywhere, and huge pages need
# compaction. All of it becomes huge pages, though the zones below have none to offer and compaction
# fails now and then. Then memory with free frames in its lowest third only, all of them odd: the samples
# that compaction takes of free lists and of every 32nd frame do not find them.
fills() {
    make_files
    "$load" holes $(($(cat $node/movable_kb) / 1024 - 100)) 1000000 >/tmp/holes &
    job=$!
    until grep -q holes_mib /tmp/holes; do sleep 1; done
    cat /disk/file >/dev/null
    kill -KILL $job
    wait $job
    cat /disk/file >/dev/null
    # After the kill, the per-CPU lists hold up to an eighth of the zone. Free pages do not include them.
    could=$(awk '/^Node/ { m = $4 == "Movable" }
        m && ($2 == "free" || $1 == "count:" || /nr_zone_(in)?active_file/) { pages += $NF } END { print int(pages / 512) }' /proc/zoneinfo)
    grep -E '^(MemFree|AnonPages|Inactive\(file|Active\(file)' /proc/meminfo
    echo 2048 >/proc/sys/vm/nr_hugepages
    got=$(cat /proc/sys/vm/nr_hugepages)
    grep -E '^(compact_(stall|fail|success)|allocstall_movable)' /proc/vmstat
    grep -E '^(compactions_skipped|retries)' $node/counters
    check "percent of the $could 2 MiB pages that fit into free memory and page cache" $((got * 100 / could)) -ge 95
    echo 0 >/proc/sys/vm/nr_hugepages
    "$load" odd $(($(cat $node/movable_kb) / 1024 - 100)) 1000000 >/tmp/odd &
    until grep -qs odd_mib /tmp/odd; do sleep 1; done
    echo 200 >/proc/sys/vm/nr_hugepages
    grep -E '^(compactions_skipped|retries)' $node/counters
    check "2 MiB pages from odd free frames" "$(cat /proc/sys/vm/nr_hugepages)" -ge 190
    check "OOM kills" "$(vmstat oom_kill)" -eq 0
}

# Reclaim wakes the resizer at once, long before its own look once a second. Only reclaim that begins
# while the resizer is idle can show that: after pressure or a move it looks ten times a second by itself.
wakes() {
    make_files
    "$load" hold $(($(cat $node/movable_kb) / 1024 - 900)) 300 0 >/tmp/held &
    until grep -q held /tmp/held 2>/dev/null; do sleep 1; done
    cat /disk/file >/dev/null
    events=/sys/kernel/debug/tracing
    echo 1 >$events/events/vmscan/mm_vmscan_wakeup_kswapd/enable
    echo 1 >$events/events/contiguitas/contiguitas_decide/enable
    # Each time what is free is used up, and comes back. The pauses, in which pressure decays, end at
    # different points of the resizer's second.
    for round in 1 2 3 4 5; do
        sleep $((14 + round)).$round
        # What was read last longest ago, or never.
        dd if=/disk/file of=/dev/null bs=1M skip=$((round % 4 * 250)) count=350 2>/dev/null
        "$load" hold 200 0 0 >/dev/null
    done
    sleep 2
    awk '/wakeup_kswapd:|contiguitas_decide:/ {
            for (at = 1; at <= NF; at++) if ($at ~ /^[0-9]+\.[0-9]+:$/) now = $at + 0
        }
        /wakeup_kswapd:/ && !asked && pause > 0.5 { asked = now; count++ }
        /contiguitas_decide:/ { pause = now - decided; decided = now }
        /contiguitas_decide:/ && asked { soon += now - asked < 0.15; print "looked after", now - asked; asked = 0 }
        END { print "reclaims", count + 0; print "soon", soon * 100 / (count + !count) }' $events/trace >/tmp/values
    echo 0 >$events/events/enable
    cat /tmp/values
    grep allocstall_movable /proc/vmstat
    check "times that reclaim began while the resizer was idle" "$(value reclaims)" -ge 3
    # One period of the resizer and some. Without the hook 62: only the first look after an idle time is late.
    check "percent of them that the resizer noticed within 150 ms" "$(value soon | cut -d. -f1)" -ge 90
}

# The border to and fro, beside all that looks for pages by their number.
oscillates() {
    seconds=$2
    make_files
    "$load" anonymous 500 "$seconds" >/dev/null &
    [ "${3:-}" = quiet ] || "$load" scan "$seconds" >/tmp/values &
    scanner=$!
    "$load" pipes 60 "$((seconds / 5 + 1))" 0 20 0 >/dev/null &
    (while :; do cat /disk/file >/dev/null; done) &
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
    started=$(cut -d. -f1 /proc/uptime)
    sleep "$seconds"
    lasted=$(($(cut -d. -f1 /proc/uptime) - started))
    loops=0
    for loop in $reader $compactor $pool; do ! kill -0 $loop || loops=$((loops + 1)); done
    echo 0 >$sys/oscillate_pageblocks
    kill $reader $compactor $pool
    # On a busy host its last scan takes longer than the rest.
    wait $scanner
    # Quiet means that no process of the load is left, not even the last one that a loop started.
    [ "${3:-}" != quiet ] || { wait; until ! pidof cat load >/dev/null; do sleep 1; done; "$load" scan 1 >/tmp/values; }
    cat $node/counters /tmp/values
    # Without memory the kernel kills some of these, and sleep as well.
    check "seconds that it lasted" "$lasted" -ge "$seconds"
    check "loads that still run at the end" "$loops" -eq 3
    check "moves" $(moves) -ge "$seconds"
    check "unmovable frames above the border" "$(value scan_strays)" -eq 0
    check_log
}

# The differences between the free blocks that zones count (/proc/buddyinfo) and those on their lists
# (/proc/pagetypeinfo), by order, added up. A count below zero reads as a huge number. Others allocate between
# the two reads, hence the least of ten.
miscounted() {
    for try in 1 2 3 4 5 6 7 8 9 10; do
        awk 'FILENAME ~ /buddyinfo/ { for (at = 5; at <= NF; at++) blocks[$4 "," (at - 5)] += $at > 1e18 ? -1 : $at }
            FILENAME ~ /pagetypeinfo/ && / type / && /^Node/ { for (at = 7; at <= NF; at++) blocks[$4 (at - 7)] -= $at }
            END { for (each in blocks) sum += blocks[each] < 0 ? -blocks[each] : blocks[each]; print sum + 0 }' \
            /proc/buddyinfo /proc/pagetypeinfo
    done | sort -n | head -n 1
}

# delay_lock FIRST: from now on take_page_off_buddy(), which reads a frame's zone and then takes the zone's
# lock, comes to the lock milliseconds later: probes at the call read memory. A free frame from FIRST on, taken
# off the lists and put back, shows where the call is.
delay_lock() {
    echo 'p:find/lock _raw_spin_lock_irqsave from=$stack0:symbol' >$events/kprobe_events
    echo "common_pid == $$" >$events/events/find/lock/filter
    echo 1 >$events/events/find/lock/enable
    frame=$1 after=
    while [ -z "$after" ] && [ "$frame" -lt $(($1 + 2048)) ]; do
        echo $((frame * 4096)) >/sys/devices/system/memory/soft_offline_page &&
            echo "$frame" >/sys/kernel/debug/hwpoison/unpoison-pfn
        after=$(sed -n 's/.*=take_page_off_buddy+\(0x[0-9a-f]*\).*/\1/p' $events/trace | head -n 1)
        frame=$((frame + 1))
    done
    echo 0 >$events/events/find/lock/enable
    echo >$events/kprobe_events
    memory=; n=0; while [ $n -lt 40 ]; do n=$((n + 1)); memory="$memory @take_page_off_buddy:x8[64]"; done
    # The call takes five bytes.
    for number in 1 2 3 4; do
        echo "p:delay/lock$number take_page_off_buddy+$((after - 5)) $memory" >>$events/kprobe_events
    done
    echo 1 >$events/events/delay/enable
}

# Free frames beside the border are taken off the lists, as memory that begins to fail, while four pageblocks
# go to and fro. A frame that changes zones before the lock is taken is let be.
poisons() {
    events=/sys/kernel/debug/tracing
    # Frames that are in use are lines of the log.
    dmesg -n 1
    size=$(cat $node/unmovable_kb)
    echo "$size" >$node/floor_kb
    echo $((size + 8192)) >$node/ceiling_kb
    first=$(border) moves=$(moves)
    delay_lock "$first"
    echo 4 >$sys/oscillate_pageblocks
    "$load" poisons "$first" 2048 "$2" >/tmp/values
    echo 0 >$sys/oscillate_pageblocks
    awk '{ print $1, $2 }' $events/kprobe_profile >>/tmp/values
    echo 0 >$events/events/delay/enable
    sleep 1
    cat $node/counters /tmp/values
    check "frames taken off the lists" "$(value poisoned)" -ge "$2"
    check "frames that stay poisoned" "$(value poison_kept)" -eq 0
    check "delays before the lock" "$(value lock4)" -ge "$2"
    check "moves" $(($(moves) - moves)) -ge "$2"
    check "free blocks by which the zones' counts differ from their lists" "$(miscounted)" -eq 0
    check_log
}

# More memory of users than the movable region holds, while much is free below the border, which the
# resizer may not move: the OOM notifier does, and no task is killed. At its floor, or if a page stays
# beside the border, the region lends instead, until the region above has room again.
rescues() {
    burst 700
    echo 0 >$sys/step_pageblocks
    for floor in $(cat $node/floor_kb) 0; do
        echo "$floor" >$node/floor_kb
        "$load" hold $(($(cat $node/movable_available_kb) / 1024 + 300)) 0 0 >/tmp/held
        check "status of the load" $? -eq 0
        [ "$floor" -eq 0 ] || check "loans at the floor" "$(counter loans)" -ge 1
        sleep 3
        check "zones that lend after it" "$(lending)" -eq 0
    done
    cat $node/counters
    check "OOM kills" "$(vmstat oom_kill)" -eq 0
    check "rescues by the OOM notifier" "$(counter oom_rescues)" -ge 2
}

# Users wait for memory while much is retired below a border that cannot move: it is lent to them, until
# they do not wait any more.
borrows() {
    make_files
    burst 700
    echo 0 >$sys/step_pageblocks
    echo 0 >$node/floor_kb
    sleep 3
    check "MiB free below the border" $(($(cat $node/unmovable_available_kb) / 1024)) -le 100
    (while :; do cat /disk/file >/dev/null; done) &
    reader=$!
    "$load" hold $(($(cat $node/movable_available_kb) / 1024 + 900)) 20 0 >/tmp/held &
    n=0
    while [ "$(counter loans)" -eq 0 ] && [ $n -lt 15 ]; do sleep 1; n=$((n + 1)); done
    check "loans" "$(counter loans)" -ge 1
    sleep 3
    check "pages of users below the border" "$(users_below)" -ge 20000
    check "rescues by the OOM notifier" "$(counter oom_rescues)" -eq 0
    kill $reader
    wait
    sleep 15
    check "zones that lend after it" "$(lending)" -eq 0
    cat $node/counters
    check "OOM kills" "$(vmstat oom_kill)" -eq 0
}

# Most memory lies below 4 GiB, which ZONE_MOVABLE cannot use, so the border is at its lowest from the start.
# What the kernel does not need there is users' as well: nothing is emptied to shrink a region that cannot, and
# a load that needs a part of it lives. One that needs more than there is at all does not, and ends at once.
lowest() {
    sleep 15
    check "zones that lend" "$(lending)" -ge 1
    check "times that empty slabs were dropped" "$(counter slab_drops)" -eq 0
    "$load" hold $(($(cat $node/movable_available_kb) / 1024 + 1000)) 20 0 >/tmp/held &
    job=$!
    until grep -qs held /tmp/held || ! kill -0 $job 2>/dev/null; do sleep 1; done
    check "pages of users below the border" "$(users_below)" -ge 200000
    before=$(cat $node/unmovable_kb)
    "$load" tables 800 0 >/tmp/values
    check "MiB of page tables beside it" "$(value tables_mib)" -eq 800
    wait $job
    check "status of the load" $? -eq 0
    check "OOM kills" "$(vmstat oom_kill)" -eq 0
    timeout 200 "$load" hold $(($(meminfo MemTotal) / 1024 + 500)) 0 1 >/dev/null
    check "status of a load beyond all memory" $? -eq 137
    check "OOM kills" "$(vmstat oom_kill)" -eq 1
    cat $node/counters
}

# A process that may use one node alone exhausts it, while the other one has memory: it is killed, for
# nothing of what the other node could give is for it.
binds() {
    all=$(awk '$3 == "MemTotal:" { print int($4 / 1024) }' /sys/devices/system/node/node1/meminfo)
    timeout 100 "$load" bound 1 $((all + 200)) >/dev/null
    check "status of the load" $? -eq 137
    check "OOM kills" "$(vmstat oom_kill)" -eq 1
    cat $sys/node*/counters
}

# Page flags do not tell pipes, stacks, and most other memory of the kernel from free frames on per-CPU
# lists. The kernel's own record of who allocated each block does: none above the border is unmovable, after
# the border went to and fro beside such memory.
owners() {
    make_files
    echo 4 >$sys/oscillate_pageblocks
    "$load" pipes 60 4 30 0 1000 >/dev/null &
    "$load" anonymous 300 1000 >/dev/null &
    "$load" pins 16 1000 >/dev/null &
    n=0; while [ $n -lt 200 ]; do n=$((n + 1)); sleep 1000 & done
    mkdir /small
    n=0; while [ $n -lt 2000 ]; do n=$((n + 1)); echo $n >/small/$n; done
    (while :; do cat /disk/file >/dev/null; done) &
    sleep "$2"
    # The border rests while the owners are read, which takes a while.
    echo 0 >$sys/oscillate_pageblocks
    sleep 1
    cat $node/unmovable_kb >$node/floor_kb
    cat $node/unmovable_kb >$node/ceiling_kb
    "$load" owners "$(border)" $last_frame >/tmp/values
    grep -v '^owned' /tmp/values
    cat $node/counters
    check "moves" $(moves) -ge "$2"
    check "blocks of the kernel below the border" "$(value owned_elsewhere)" -ge 10000
    check "movable blocks" "$(value owned_movable)" -ge 100000
    check "unmovable blocks above the border" "$(value owned_above)" -eq 0
}

# Allocations of the kernel for the load and for the resizer's thread fail at random, those that may wait
# included. Needs a kernel of kernel/build --debug.
faults() {
    seconds=$2
    inject=/sys/kernel/debug/fail_page_alloc
    make_files
    echo Y >$inject/task-filter
    echo N >$inject/ignore-gfp-wait
    echo 0 >$inject/min-order
    echo 0 >$inject/verbose
    echo 1 >/proc/"$(ps | awk '/[k]contigd0/ { print $1 }')"/make-it-fail
    # The shells that start the load do not fail, and start it again.
    for each in "anonymous 300 2" "pipes 60 1 0 1 0" "tables 50 1" "pins 16 1"; do
        while :; do sh -c 'echo 1 >/proc/self/make-it-fail; exec "$@"' - "$load" $each; done >/dev/null 2>&1 &
    done
    (while :; do cat /disk/file >/dev/null; done) &
    before=$(moves)
    echo 4 >$sys/oscillate_pageblocks
    echo 5 >$inject/probability
    echo 1000000000 >$inject/times
    sleep "$seconds"
    failures=$((1000000000 - $(cat $inject/times)))
    echo 0 >$inject/probability
    echo 0 >$sys/oscillate_pageblocks
    moves=$(($(moves) - before))
    cat $node/counters
    check "allocations that failed" $failures -ge $((seconds * 5))
    check "moves" $moves -ge "$seconds"
    end_of_load
}

# To memory (S3), from which the clock wakes the machine, while the border moves. From standby (s2idle)
# QEMU's clock does not wake it.
suspends() {
    make_files
    "$load" anonymous 300 100000 >/dev/null &
    (while :; do cat /disk/file >/dev/null; done) &
    echo 4 >$sys/oscillate_pageblocks
    for time in first second; do
        sleep 5
        echo 0 >/sys/class/rtc/rtc0/wakealarm
        echo +5 >/sys/class/rtc/rtc0/wakealarm
        echo mem >/sys/power/state
        check "status of the $time suspend" $? -eq 0
        moves=$(moves)
        sleep 10
        check "moves after the $time suspend" $(($(moves) - moves)) -ge 10
    done
    end_of_load
}

# Hibernation is refused, and nothing else changes. Without the end of the machine, it would also read
# the image back.
hibernates() {
    mkswap /dev/vdc >/dev/null 2>&1
    swapon /dev/vdc
    "$load" anonymous 300 100000 >/dev/null &
    echo 4 >$sys/oscillate_pageblocks
    sleep 5
    echo test_resume >/sys/power/disk
    echo disk >/sys/power/state
    check "status of the hibernation" $? -eq 1
    check "refusals in the kernel log" "$(dmesg | grep -c 'contiguitas: hibernation is refused')" -eq 1
    moves=$(moves)
    sleep 10
    check "moves after it" $(($(moves) - moves)) -ge 10
    end_of_load
}

# The files of this guest, as the initial file system of the next kernel.
pack_initial() {
    (cd / && find . -xdev -path ./in -prune -o -print | cpio -o -H newc | gzip -1) >/in/initrd 2>/dev/null
}

# Into the same kernel by kexec, which the second time finds that it came so.
restarts() {
    if grep -q prairie_again /proc/cmdline; then
        check "border" "$(border)" -gt 0
        "$load" scan 1 >/tmp/values
        check "unmovable frames above the border" "$(value scan_strays)" -eq 0
        check_log
        return
    fi
    pack_initial
    kexec -c -l /in/vmlinuz --initrd=/in/initrd --reuse-cmdline --append=prairie_again
    check "status of kexec -l" $? -eq 0
    kexec -e
    check "seconds since kexec -e" 1 -eq 0
}

# The kernel crashes, and the crash kernel can read all of its memory. What is reserved for that lies below the
# border.
dumps() {
    if [ -e /proc/vmcore ]; then
        size=$(($(stat -c %s /proc/vmcore) / 1048576))
        check "MiB of the dump" $size -ge 2700
        check "MiB of it that can be read at the end" \
            $(($(dd if=/proc/vmcore bs=1M skip=$((size - 100)) count=90 2>/dev/null | wc -c) / 1048576)) -eq 90
        check_log
        return
    fi
    last=$(sed -n 's/.*-\([0-9a-f]*\) : Crash kernel/\1/p' /proc/iomem | tail -n 1)
    check "page at which the crash kernel's memory ends" $((0x$last / 4096)) -le "$(border)"
    pack_initial
    kexec -s -p /in/vmlinuz --initrd=/in/initrd --reuse-cmdline --append=maxcpus=1
    check "status of kexec -p" $? -eq 0
    echo c >/proc/sysrq-trigger
}

# The stressors of stress-ng in its classes memory and vm, one after another, while the border moves.
stress() {
    seconds=$2
    make_files
    echo 4 >$sys/oscillate_pageblocks
    stressors=$({ stress-ng --class memory?; stress-ng --class vm?; } 2>&1 | sed 's/^class .*: //' | tr ' ' '\n' | sort -u | wc -w)
    echo "$stressors stressors"
    stress-ng --class memory,vm --sequential 2 --timeout $((seconds / stressors + 1)) --oomable --temp-path /disk --metrics-brief
    echo "status of stress-ng: $?"
    echo 0 >$sys/oscillate_pageblocks
    cat $node/counters
    check "seconds" "$(cut -d. -f1 /proc/uptime)" -ge "$seconds"
    check "moves" $(moves) -ge "$seconds"
    end_of_load
}

# number FILE PATTERN: the first number behind this text.
number() { sed -n "s/.*$2[^0-9-]*\\([0-9][0-9]*\\).*/\\1/p" "$1" | head -n 1; }

# What prairie says about the border is what the kernel says, while a burst moves it and when it rests.
# The pictures of /out are those of the burst.
observes() {
    PATH=$PATH:/in/bin
    events=/sys/kernel/debug/tracing
    echo 1 >$events/events/contiguitas/enable
    prairie log run /out/log --interval 1s --frames-interval 10s >/out/log.out 2>&1 &
    logger=$!
    prairie record --output /out/record.parquet --for 60s >/out/record.out 2>&1 &
    recorder=$!
    sleep 3
    lowest=$(border) grown=$(counter pageblocks_grown)
    "$load" pipes 500 1 100 0 4 >/tmp/values &
    until grep -q pipes_ms /tmp/values; do sleep 1; done
    highest=$(border)
    wait $!
    sleep 20
    kill $logger
    wait $logger
    check "status of the log" $? -eq 0
    kill $recorder
    wait $recorder
    check "status of the recording" $? -eq 0
    echo 0 >$events/events/contiguitas/enable
    cat $events/trace >/out/border.txt
    # From now on the border rests.
    cat $node/unmovable_kb >$node/floor_kb
    cat $node/unmovable_kb >$node/ceiling_kb
    prairie survey --json >/out/survey.json 2>/dev/null
    check "border in the survey" "$(number /out/survey.json '"border_pfn"')" -eq "$(border)"
    survey_grown=$(number /out/survey.json '"pageblocks_grown"')
    check "pageblocks grown in the survey" "$survey_grown" -eq "$(counter pageblocks_grown)"
    prairie survey --full --svg /out/survey >/out/survey.txt 2>/dev/null
    prairie export --encoding prometheus >/out/metrics
    for region in unmovable movable; do
        kib=$(cat $node/${region}_kb)
        bytes=$(awk -v series="region=\"$region\"" \
            '/^prairie_contiguitas_region_bytes/ && index($0, series) { printf "%.0f", $NF }' /out/metrics)
        check "bytes of the $region region exported" "$bytes" -eq $((kib * 1024))
    done
    exported=$(awk '/^prairie_contiguitas_moved_pageblocks_total/ && /"grow"/ { printf "%.0f", $NF }' /out/metrics)
    check "pageblocks grown exported" "$exported" -eq "$(counter pageblocks_grown)"
    prairie top --once >/out/top.txt
    check "lines of prairie top about the border" "$(grep -ic border /out/top.txt)" -ge 1
    prairie lab explain /out/border.txt --json >/out/decisions.json
    prairie lab explain /out/border.txt --picture /out/border.svg >/out/border.out
    check "decisions to grow in the tracepoints" "$(grep -c '"action": "grow"' /out/decisions.json)" -ge 1
    prairie lab explain /out/record.parquet --json >/out/recorded.json
    check "decisions to grow in the recording" "$(grep -c '"action": "grow"' /out/recorded.json)" -eq \
        "$(grep -c '"action": "grow"' /out/decisions.json)"
    prairie regions explain /out/log --picture /out/log.svg >/out/regions.txt
    prairie log show /out/log --json >/out/log.json
    logged=$(number /out/log.json '"border_grown_pageblocks"')
    check "pageblocks grown in the first row of the log" "$logged" -eq "$grown"
    check "pages by which the border rose" $((highest - lowest)) -ge 60000
    check "OOM kills" "$(vmstat oom_kill)" -eq 0
}

# Pages that requests for the other node took on node 0.
strayed() { awk '$1 == "numa_miss" { print $2 }' /sys/devices/system/node/node0/numastat; }

# Each node has a border. Page tables of a process on the CPU of the second node make that node's region
# grow, and not the other one's; and nothing unmovable lies above either.
nodes() {
    grown=
    for number in 0 1; do
        check "border of node $number" "$(cat $sys/node$number/border_pfn)" -gt 0
        grown="$grown -$(cat $sys/node$number/unmovable_kb)"
    done
    node=$sys/node1
    strayed=$(strayed)
    taskset -c 1 "$load" tables 400 1000 >/tmp/tables &
    until grep -qs tables_mib /tmp/tables; do sleep 1; done
    strayed=$((($(strayed) - strayed) / 256))
    echo "MiB that requests for node 1 took on node 0: $strayed"
    check "MiB that node 1 grew" $((($(cat $sys/node1/unmovable_kb) ${grown##* }) / 1024)) -ge 100
    first=${grown% *}
    check "MiB that node 0 grew beyond what node 1 took" $((($(cat $sys/node0/unmovable_kb) $first) / 1024 - strayed)) -le 20
    for number in 0 1; do
        cat $sys/node$number/unmovable_kb >$sys/node$number/floor_kb
        cat $sys/node$number/unmovable_kb >$sys/node$number/ceiling_kb
    done
    second=$(awk '$1 == "Node" { second = $2 == "1," } second && $1 == "start_pfn:" && $2 > 0 { print $2; exit }' /proc/zoneinfo)
    "$load" owners "$(cat $sys/node0/border_pfn)" "$second" >/tmp/values
    check "unmovable blocks above the border of node 0" "$(value owned_above)" -eq 0
    "$load" owners "$(border)" $last_frame >/tmp/values
    grep -v '^owned' /tmp/values
    check "unmovable blocks above the border of node 1" "$(value owned_above)" -eq 0
    check "OOM kills" "$(vmstat oom_kill)" -eq 0
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
