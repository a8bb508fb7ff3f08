# What the guests of vm/tests/regions.sh have in common.

blocks=/sys/devices/system/memory
kswapd_nice() { awk '{ print $19 }' /proc/$(pidof kswapd0)/stat; }
# The kernel computes min_free_kbytes again whenever memory goes on- or offline.
settings() { cat /proc/sys/vm/lowmem_reserve_ratio; kswapd_nice; }
# places: each block with its state and zone.
places() {
    for block in $blocks/memory[0-9]*; do
        echo "${block##*/memory} $(cat $block/state) $(cat $block/valid_zones)"
    done | sort -n
}
offline() { places | grep -vc " online " ; }
# The folder of a kernel with Contiguitas. There a block keeps the zone that it had at boot.
contiguitas=/sys/kernel/mm/contiguitas/node0
movable() {
    if [ -d $contiguitas ]; then
        echo $(($(cat $contiguitas/movable_kb) / 131072))
    else
        places | grep -c " online Movable"
    fi
}
# region: a word with the size of the unmovable region, if the kernel has one.
region() { [ ! -d $contiguitas ] || echo "unmovable_mib=$(($(cat $contiguitas/unmovable_kb) / 1024))"; }
count() { sed -n "s/^$1 //p" /proc/vmstat; }
kernel_stalls() { awk '/^allocstall_(dma32|normal) / { sum += $2 } END { print sum }' /proc/vmstat; }
psi() { sed -n 's/^some.*total=//p' /proc/pressure/memory; }
# figure KEY: a figure of the daemon's status.
figure() { /in/bin/prairie regions status --json 2>/dev/null | sed -n "s/^ *\"$1\": \([0-9a-z]*\).*/\1/p" | head -n 1; }
start_daemon() {
    /in/bin/prairie regions run --config ${1:-/in/fast.toml} >>$OUT/daemon 2>&1 &
    daemon=$!
}
# until_true SECONDS COMMAND...: waits for it.
until_true() {
    patience=$1
    shift
    while ! "$@"; do
        patience=$((patience - 1))
        [ $patience -gt 0 ] || return 1
        sleep 1
    done
}
is_set_up() { [ "$(figure set_up)" = true ]; }
has_moved() { [ $(movable) -le $1 ]; }
has_returned() { [ $(movable) -gt $1 ]; }
is_whole() { [ $(offline) -eq 0 ]; }
has_undone() { [ $(movable) -eq 0 ]; }
# is_online BLOCK: one block.
is_online() { [ "$(cat $blocks/memory$1/state)" = online ]; }
is_gone() { ! kill -0 $1 2>/dev/null; }
complain() { echo "$*" >>$OUT/failed; }
# trouble: what the kernel complains of.
trouble() { dmesg | grep -i -E "oom-kill|BUG:|WARNING:" >$OUT/kernel-trouble; }
