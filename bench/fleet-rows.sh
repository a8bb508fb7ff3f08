#!/bin/sh
# Report on a million rows of hosts: CPU time and memory of `prairie fleet report`, beside `wc -l`.
# Usage: bench/fleet-rows.sh [PRAIRIE] [HOSTS] [DAYS]
set -eu
cd "$(dirname "$0")/.."
prairie=${1:-target/release/prairie} hosts=${2:-50000} days=${3:-20}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Rows as prairie-survey.timer writes them, one file for each day. Values drift and differ by rack.
for day in $(seq 1 "$days"); do
    mkdir -p "$work/rows/date=$day"
    awk -v hosts="$hosts" -v day="$day" 'BEGIN {
        srand(day)
        for (host = 0; host < hosts; host++) {
            rack = host % 200; bad = (rack % 40) / 80 + day / 200 + rand() / 10
            printf "{\"schema\":\"prairie-host-row\",\"schema_version\":1,\"taken_at_unix_ns\":%d000000000,", 1790000000 + day * 86400 + host % 3600
            printf "\"host\":\"host-%05d\",\"machine_id\":\"%016x\",\"kernel\":\"6.%d.0\",", host, host * 40503 + 7, host % 3 ? 12 : 1
            printf "\"memory_bytes\":274877906944,\"uptime_s\":%d.5,\"labels\":{\"rack\":\"r%03d\",\"role\":\"%s\"},", day * 86400, rack, host % 2 ? "web" : "cache"
            printf "\"free_share\":%.6f,\"unusable_2_mib\":%.6f,\"free_1_gib\":%.6f,\"initialized\":1.0,", rand(), bad, rand() / 9
            printf "\"unmovable_min\":%.6f,\"unmovable_max\":%.6f,\"polluted_min\":%.6f,\"polluted_max\":%.6f,", bad / 4, bad / 3, bad / 2, bad
            printf "\"potential_2_mib_min\":%.6f,\"potential_2_mib_max\":%.6f,\"potential_1_gib_min\":0.0,\"potential_1_gib_max\":%.6f,", 1 - bad, 1 - bad / 2, rand() / 3
            printf "\"coverage\":%.6f,\"fallback\":%.6f,\"stalls_per_s\":%.6f}\n", rand(), rand() / 5, rand()
        }
    }' >"$work/rows/date=$day/rows.jsonl"
done
du -sh "$work/rows" | cut -f1 | sed 's/^/rows: /'
measure() {
    /usr/bin/time -f "$1: %e s, CPU %U + %S s, %M KiB" sh -c "$2 >$work/out" 2>"$work/time"
    tail -n 1 "$work/time"
}
measure "wc -l" "cat $work/rows/*/*.jsonl | wc -l"
measure "fleet report" "$prairie fleet report $work/rows --by kernel,role"
grep -m 1 "rows of" "$work/out"
measure "fleet report --html" "$prairie fleet report $work/rows --by kernel,rack --html $work/fleet.html"
