# Runs in the guest: all that the short form of vm/tests/regions.sh looks at. Arguments: how often the
# daemon is killed, how many blocks are movable after the setup, MiB of pipes and MiB/s that the kernel
# region has to grow for, and how many blocks a later setup converts at least, when kernel memory is
# scattered.
kills=$1 least=$2 pipes_mib=$3 pipes_rate=$4 later=$5
. /in/common.sh
echo never >/sys/kernel/mm/transparent_hugepage/enabled
places >$OUT/places-before
settings >$OUT/settings-before

# 1. The check writes nothing, and finds that this machine qualifies.
/in/bin/prairie regions check >$OUT/check 2>&1 || complain "check: $(cat $OUT/check)"
places | cmp -s - $OUT/places-before || complain "check changed blocks"
/in/bin/prairie regions run --config /in/fast.toml --dry-run >$OUT/dry-run 2>&1 &
dry=$!
sleep 3
kill -15 $dry
places | cmp -s - $OUT/places-before || complain "a dry run changed blocks"
grep -q "would convert" $OUT/dry-run || complain "dry run: $(cat $OUT/dry-run)"

# 2. A block that is offline comes back first; then the regions are set up. Any block will do, from
# the fourth last down: a kernel page may keep a block online.
last=
for block in $(places | sort -rn | sed -n '4,10s/ .*//p'); do
    echo offline >$blocks/memory$block/state && last=$block && break
done
[ -n "$last" ] || complain "no block goes offline"
start_daemon
until_true 40 is_set_up || complain "not set up: $(tail -n 3 $OUT/daemon)"
is_whole || complain "block $last is still offline"
ready=$(movable)
[ $ready -ge $least ] || complain "$ready movable blocks after the setup"
settings | cmp -s - $OUT/settings-before && complain "lowmem_reserve_ratio was not leased"
[ $(kswapd_nice) = -10 ] || complain "kswapd's nice value is $(kswapd_nice)"

# Huge pages while it runs: it carries the request out.
for pages in 64 0; do
    /in/bin/prairie regions reserve --count $pages >>$OUT/reserve 2>&1 || complain "reserve: $(tail -n 1 $OUT/reserve)"
    [ $(cat /proc/sys/vm/nr_hugepages) -eq $pages ] || complain "$(cat /proc/sys/vm/nr_hugepages) of $pages huge pages"
done
grep -q "^reserve: node 0: 64 of 64" $OUT/daemon || complain "reserve: the daemon did not do it"

# 3. Kernel memory, more than the region has: blocks grow.
/in/bin/kernel_load pipes $pipes_mib $pipes_rate 0 4 >$OUT/pipes 2>&1 &
pipes=$!
until_true 60 is_gone $pipes || complain "pipes did not end"
grown=$(movable)
[ $grown -lt $ready ] || complain "no growth: $grown of $ready blocks movable"
[ "$(count oom_kill)" = 0 ] || complain "oom_kill $(count oom_kill)"

# 4. It was idle for a while: a block returns. Those that were in use while processes started may keep
# some of their pages: what could return has to.
until_true 90 has_returned $grown
/in/bin/kernel_load blocks >$OUT/blocks
echo "$(($(movable) - grown)) of $((ready - grown)) blocks returned" >$OUT/returned
kept='Slab|PageTable|KernelOther|Reserved|DriverMapped|ZeroPage'
has_returned $grown || ! grep Normal $OUT/blocks | grep -q -v -E "$kept" || complain "nothing returned: $grown movable"
/in/bin/prairie regions status >$OUT/status 2>&1
grep -E "VmRSS|VmLck" /proc/$daemon/status >$OUT/cost
/in/bin/prairie regions status --json | grep cpu_seconds >>$OUT/cost
cut -d' ' -f1 /proc/uptime >>$OUT/cost

# empty_pools: gives all huge pages back.
empty_pools() {
    for pool in /sys/kernel/mm/hugepages/*/nr_hugepages; do echo 0 >$pool; done
}
# 5. Killed at any moment, the machine is whole. Most moments lie in the second after a start, in which
# block after block is converted.
reserving=
for time in $(seq 1 $kills); do
    kill -9 $daemon
    wait $daemon 2>/dev/null
    until_true 8 is_whole || complain "kill $time: $(places | grep -v ' online ')"
    # A request whose daemon died is not carried out by anybody else. Blocks with huge pages would stay.
    [ -z "$reserving" ] || wait $reserving
    empty_pools
    /in/bin/prairie regions undo >>$OUT/undo 2>&1 || complain "undo $time: $(tail -n 1 $OUT/undo)"
    start_daemon
    # Some die while they fill a pool.
    if [ $((time % 4)) -eq 0 ] && until_true 20 is_set_up; then
        /in/bin/prairie regions reserve --count 200 >>$OUT/reserve 2>&1 &
        reserving=$!
    fi
    usleep $((20000 + time * 137000 % 900000))
done
[ -z "$reserving" ] || wait $reserving
empty_pools
until_true 40 is_set_up || complain "not set up again"
# The guardian ends by itself after another daemon came.
kill -9 $daemon
sleep 1
is_whole || complain "offline after the last kill"
# Nobody comes: it undoes everything after its grace.
until_true 60 has_undone || complain "the guardian left $(movable) blocks"
settings | cmp -s - $OUT/settings-before || complain "settings after the guardian: $(settings)"

# 6. Killed while a block is offline. The guardian brings it online, with no other daemon to come.
run_daemon="exec /in/bin/prairie regions run --config /in/fast.toml >>$OUT/daemon 2>&1"
# kill_offline WHOM COUNT: starts a daemon, which is killed with its COUNTth block offline; $block.
kill_offline() {
    rescues=$(rescued)
    timeout 120 /in/bin/kill_offline $1 $2 /bin/sh -c "$run_daemon" >$OUT/offline 2>&1
    block=$(sed -n 's/^block \([0-9]*\) offline$/\1/p' $OUT/offline)
    [ -n "$block" ] || complain "no block was offline: $(cat $OUT/offline)"
}
# rescued: how often a block was found offline and brought online.
rescued() { grep -c "^online: block .*: done" $OUT/daemon; }
is_rescued() { is_online $block && [ $(rescued) -gt $rescues ]; }
for count in $(echo "1 2 $later" | tr " " "\n" | sort -n -u); do
    kill_offline daemon $count
    until_true 8 is_rescued || complain "the guardian left block $block $(cat $blocks/memory$block/state)"
    until_true 60 has_undone || complain "the guardian of block $block left $(movable) blocks"
    is_whole || complain "after block $block: $(places | grep -v ' online ')"
done
# Without a guardian the block stays offline until the next daemon comes.
kill_offline all 2
sleep 4
! is_online $block || complain "block $block came back without a guardian"
start_daemon
until_true 8 is_rescued || complain "the next daemon left block $block $(cat $blocks/memory$block/state)"
rescued >$OUT/rescued

# 7. Told to end, it undoes what it did, and what the daemon before it did.
until_true 40 is_set_up || complain "not set up at last"
kill -15 $daemon
until_true 60 is_gone $daemon || complain "SIGTERM did not end it"
places >$OUT/places-after
cmp -s $OUT/places-before $OUT/places-after || complain "places: $(diff $OUT/places-before $OUT/places-after | tr '\n' ' ')"
settings | cmp -s - $OUT/settings-before || complain "settings: $(settings)"
trouble
exit 0
