#!/bin/sh
# Report on a million rows of hosts: time and memory of `prairie fleet report` and `wc -l`, as a table.
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
rows=$((hosts * days))
echo "| command | rows | input, MiB | time, s | CPU time, s | memory, MiB |"
echo "| --- | ---: | ---: | ---: | ---: | ---: |"
measure() {
    /usr/bin/time -o "$work/time" -f "%e %U %S %M" sh -c "$2 >$work/out"
    awk -v name="$1" -v rows="$rows" -v input="$(du -sm "$work/rows" | cut -f1)" '{
        printf "| %s | %d | %d | %.1f | %.1f | %.0f |\n", name, rows, input, $1, $2 + $3, $4 / 1024
    }' "$work/time"
}
measure "wc -l" "cat $work/rows/*/*.jsonl | wc -l"
measure "fleet report" "$prairie fleet report --strict $work/rows --by kernel,role"
grep -q "$rows rows of $hosts hosts" "$work/out"
measure "fleet report --html" "$prairie fleet report --strict $work/rows --by kernel,rack --html $work/fleet.html"
