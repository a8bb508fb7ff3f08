#!/bin/bash
# Races the heap with its peers under Redis: load, half of the keys deleted, flush, in both THP modes.
# Usage: [HEAP_LIBRARY=…] [PEERS_FOLDER=…] [ALLOCATORS="name=/path/lib.so …"] [REQUESTS=600000] bench/heap/redis.sh [ROUNDS [MODE…]]
#
# The server runs on core 0, redis-benchmark on core 1. Pushes of 5 elements to random keys, then
# ranges of 5. All take turns, each after warm.c; cells are medians of the rounds, with the spread behind CPU time. MODE
# is `always` or `madvise`; setting it needs root, and the mode that was there comes back at the end.
# Without root the present mode is measured.
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds=${1:-5}
[ $# -eq 0 ] || shift
target=${CARGO_TARGET_DIR:-target}
heap=${HEAP_LIBRARY:-$target/release/libprairie_heap.so}
[ -n "${HEAP_LIBRARY:-}" ] || cargo build --release --quiet -p prairie-heap-preload
requests=${REQUESTS:-600000}
for tool in redis-server redis-benchmark redis-cli taskset cc; do
    command -v $tool >/dev/null || { echo "$tool is needed (Debian: redis, util-linux, gcc)" >&2; exit 1; }
done
switch=/sys/kernel/mm/transparent_hugepage/enabled
before=$(sed 's/.*\[\(.*\)\].*/\1/' $switch)
modes=${*:-always madvise}
[ -w $switch ] || { modes=$before; echo "THP stays $before: no right to set it" >&2; }
allocators="prairie=$heap $(bench/heap/peers.sh ${PEERS_FOLDER:-}) ${ALLOCATORS:-}"
work=$(mktemp -d)
server=
clean_up() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    [ ! -w $switch ] || echo "$before" >$switch
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

cc -O1 -o "$work/warm" bench/heap/warm.c

cli() { redis-cli -s "$work/socket" "$@"; }
load() {
    taskset -c 1 redis-benchmark -s "$work/socket" -n "$requests" -P 16 -r 1000000 --csv "$@" |
        tail -n 1 | cut -d, -f2- | cut -d'"' -f2
}
cpu_ms() { awk -v tick="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print ($12 + $13) * 1000 / tick }' "/proc/$server/stat"; }
# Resident MB, and the share of anonymous memory on huge pages.
memory() {
    awk '/^Rss/ { rss = $2 } /^Anonymous/ { anonymous = $2 } /^AnonHuge/ { huge = $2 }
        END { printf "%.1f %.1f", rss / 1024, anonymous ? 100 * huge / anonymous : 0 }' \
        "/proc/$server/smaps_rollup"
}
half_of_the_keys() { cli --scan | awk 'BEGIN { srand(1) } rand() < 0.5 { print "DEL", $1 }' | cli >/dev/null; }

run() {
    "$work/warm" 512
    LD_PRELOAD=${2#*=} taskset -c 0 redis-server --port 0 --unixsocket "$work/socket" --dir "$work" \
        --save '' --appendonly no --disable-thp no >/dev/null 2>&1 &
    server=$!
    until cli ping >/dev/null 2>&1; do sleep 0.1; kill -0 $server; done
    local idle push range
    idle=$(cpu_ms)
    load lpush key:__rand_int__ alpha beta gamma delta epsilon >"$work/push"
    push=$(cpu_ms)
    load lrange key:__rand_int__ 0 4 >"$work/range"
    range=$(cpu_ms)
    read -r rss coverage < <(memory; echo)
    half_of_the_keys
    sleep 3
    read -r half _ < <(memory; echo)
    cli flushall >/dev/null
    sleep 3
    read -r flushed _ < <(memory; echo)
    awk -v n="$requests" -v idle="$idle" -v push="$push" -v range="$range" -v key="$1 ${2%%=*}" \
        -v rates="$(cat "$work/push") $(cat "$work/range")" -v memory="$rss $coverage $half $flushed" '
        BEGIN { print key, rates, (push - idle) * 1000 / n, (range - push) * 1000 / n, memory }' >>"$work/results"
    cli shutdown nosave >/dev/null 2>&1 || true
    wait $server || true
    server=
}

for round in $(seq "$rounds"); do
    for mode in $modes; do
        [ ! -w $switch ] || echo "$mode" >$switch
        for allocator in $allocators; do run "$mode" "$allocator"; done
    done
    echo "round $round of $rounds" >&2
done

uname -sr
for mode in $modes; do
    echo "== THP $mode: medians of $rounds rounds, $requests requests each"
    printf '%-12s %9s %9s %16s %16s %8s %7s %8s %8s\n' '' push/s range/s 'CPU µs push' 'CPU µs range' \
        'RSS MB' 'huge %' 'half MB' 'flush MB'
    for allocator in $allocators; do
        grep "^$mode ${allocator%%=*} " "$work/results" | awk -v name="${allocator%%=*}" '
            { for (i = 3; i <= 10; i++) value[i, NR] = $i }
            function sort(i,    a, b, t) {
                for (a = 2; a <= NR; a++)
                    for (b = a; b > 1 && value[i, b - 1] + 0 > value[i, b] + 0; b--) {
                        t = value[i, b]; value[i, b] = value[i, b - 1]; value[i, b - 1] = t
                    }
            }
            function median(i) { sort(i); return (value[i, int((NR + 1) / 2)] + value[i, int(NR / 2) + 1]) / 2 }
            function spread(i,    m) { m = median(i); return m ? (value[i, NR] - value[i, 1]) / m * 100 : 0 }
            END {
                printf "%-12s %8.0fk %8.0fk %9.2f %4.0f %% %9.2f %4.0f %% %8.1f %7.1f %8.1f %8.1f\n", name,
                    median(3) / 1000, median(4) / 1000, median(5), spread(5), median(6), spread(6),
                    median(7), median(8), median(9), median(10)
            }'
    done
done
