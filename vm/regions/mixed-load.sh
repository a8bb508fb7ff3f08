# The mixed load, in the guest. To be sourced after common.sh and agent.sh, with $round.

# fill_cache: the page cache that the load meets.
fill_cache() { dd if=/dev/zero of=/disk/first bs=1M count=$((1900 * times)) 2>/dev/null; }
# start_mixed_load SECONDS: page cache, small files, processes, anonymous memory that comes and goes,
# pipes of which some stay. Anonymous memory and pipes grow with the machine. All at rates that a CPU
# keeps up with, so that every agent meets the same work.
start_mixed_load() {
    lasts=$1
    start=$(seconds)
    (later 2; n=0; while [ $(passed) -lt $lasts ]; do n=$((n + 1)); dd if=/dev/zero of=/disk/f$((n % 8)) bs=1M count=64 2>/dev/null; sleep 1; done) &
    (later 3; n=0; while [ $n -lt 60000 ]; do n=$((n + 1)); echo $n >/small/$n; [ $((n % 500)) -ne 0 ] || sleep 1; done) &
    (later 5; while [ $(passed) -lt $lasts ]; do true | cat; /bin/true; usleep 100000; done) &
    (later 7; while [ $(passed) -lt $lasts ]; do /in/bin/kernel_load anon $((350 * times)) 4; sleep 2; /in/bin/kernel_load anon $((700 * times)) 3; done) &
    (later 11; while [ $(passed) -lt $((lasts - 20)) ]; do /in/bin/kernel_load pipes $((380 * times)) $((60 * times)) 0 5 >>$OUT/pipes; done) &
    /in/bin/kernel_load pipes $((126 * times)) $((3 * times)) $((126 * times)) 1 >>$OUT/pipes &
}
