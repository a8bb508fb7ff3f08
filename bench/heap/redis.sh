#!/bin/bash
# Compares the heap with other allocators under Redis in both THP modes: load, delete half, flush.
# Usage: [HEAP_LIBRARY=…] [PEERS_FOLDER=…] [ALLOCATORS="name=/path/lib.so …"] [REQUESTS=600000] bench/heap/redis.sh [--json FILE] [ROUNDS [MODE…]]
#
# The server runs on core 0, redis-benchmark on core 1. Pushes of 5 elements to random keys, then
# ranges of 5. All run interleaved, each after warm.c; cells are medians of the rounds, with the spread behind CPU time. MODE
# is `always` or `madvise`; setting it needs root, and the mode before is restored at the end.
# Without root the present mode is measured.
set -euo pipefail
. "$(dirname "$0")/common.sh"
requests=${REQUESTS:-600000}
for tool in redis-server redis-benchmark redis-cli taskset cc; do
    command -v $tool >/dev/null || { echo "$tool is needed (Debian: redis, util-linux, gcc)" >&2; exit 1; }
done
switch=/sys/kernel/mm/transparent_hugepage/enabled
before=$(sed 's/.*\[\(.*\)\].*/\1/' $switch)
modes=${*:-always madvise}
[ -w $switch ] || { modes=$before; echo "THP stays $before: no right to set it" >&2; }
server=
clean_up() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    [ ! -w $switch ] || echo "$before" >$switch
    rm -rf "$work"
}
trap clean_up EXIT

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
    # shellcheck disable=SC2046
    env $(preloaded "${2#*=}") taskset -c 0 redis-server --port 0 --unixsocket "$work/socket" --dir "$work" \
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
        BEGIN { split(rates, rate); print key, rate[1] / 1000, rate[2] / 1000, (push - idle) * 1000 / n, (range - push) * 1000 / n, memory }' >>"$work/results"
    cli shutdown nosave >/dev/null 2>&1 || true
    wait $server || true
    server=
}

for round in $(seq "$rounds"); do
    for mode in $modes; do
        [ ! -w $switch ] || echo "$mode" >$switch
        # Those that request huge pages run in mode `madvise` alone: in the other all memory may have them.
        for allocator in $(all_allocators "$mode"); do run "$mode" "$allocator"; done
    done
    echo "round $round of $rounds" >&2
done

bench/heap/report.py "$work/results" --name heap-redis --table-per-row --json "$json" \
    --command "$command" --started "$started" --note "$requests requests" \
    --columns "push:1000/s,range:1000/s,CPU of a push:µs,CPU of a range:µs,resident:MB,on huge pages:%,half deleted:MB,after the flush:MB"
