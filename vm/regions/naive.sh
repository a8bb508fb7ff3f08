# The loop that the daemon is compared with: a second, two thresholds, no look into blocks.
blocks=/sys/devices/system/memory
free() { awk '/^Node/ { zone = $4 } /pages free/ && zone != "Movable" && zone != "DMA" { sum += $3 } END { print int(sum / 256) }' /proc/zoneinfo; }
# move FROM WORD: the first block of a zone that goes.
move() {
    for block in $(ls -d $blocks/memory[0-9]* | sort -t y -k 4 -n $3); do
        [ "$(cat $block/valid_zones)" = $1 ] || continue
        timeout 4 sh -c "echo offline >$block/state" 2>/dev/null || continue
        echo $2 >$block/state
        return
    done
}
for block in $(ls -d $blocks/memory[0-9]* | sort -t y -k 4 -n -r); do
    [ "$(cat $block/valid_zones)" = Normal ] && [ $(free) -gt 900 ] || continue
    echo offline >$block/state 2>/dev/null && echo online_movable >$block/state
done
echo "256 8 12 0 0" >/proc/sys/vm/lowmem_reserve_ratio
while sleep 1; do
    now=$(free)
    if [ $now -lt 96 ]; then
        move Movable online_kernel
    elif [ $now -gt 600 ]; then
        move Normal online_movable -r
    fi
done
