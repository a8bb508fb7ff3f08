#!/bin/sh
# Measures what `prairie export --listen` and `prairie log run` take at their defaults: CPU time as a
# share of one core, resident memory, and the CPU time of a full walk over page flags per TiB.
# Both run for SECONDS, and the exporter is scraped every 15 s, as Prometheus does by default. The
# last row is the first reading of a day, which makes one file of the 24 hours before. The
# table goes to standard output, what was scraped and the full walk to standard error.
# Usage: bench/export.sh [SECONDS] [PRAIRIE]
set -eu
cd "$(dirname "$0")/.."
seconds="${1:-600}"
prairie="${2:-${CARGO_TARGET_DIR:-target}/release/prairie}"
address=127.0.0.1:9759
directory=$(mktemp -d)
pids=
trap 'for pid in $pids; do kill "$pid" 2>/dev/null || true; done; wait; rm -rf "$directory"' EXIT

# CPU seconds and resident kilobytes of a process: utime and stime in ticks, and VmRSS and VmHWM.
usage() {
    ticks=$(getconf CLK_TCK)
    sed 's/.*) //' "/proc/$2/stat" | awk -v name="$1" -v ticks="$ticks" -v seconds="$3" \
        -v rss="$(awk '/^VmRSS/ { print $2 }' "/proc/$2/status")" \
        -v peak="$(awk '/^VmHWM/ { print $2 }' "/proc/$2/status")" '{
        cpu = ($12 + $13) / ticks
        printf "| %s | %d | %.2f | %.3f | %.1f | %.1f |\n",
            name, seconds, cpu, 100 * cpu / seconds, rss * 1024 / 1e6, peak * 1024 / 1e6
    }'
}

# A minute of a reading a second stands for each hour of yesterday.
midnight() {
    timeout --preserve-status -s INT 61 "$prairie" log run "$directory/minute" --interval 1s 2>/dev/null || true
    mkdir "$directory/day"
    for hour in $(seq -w 0 23); do
        cp "$directory/minute"/prairie-*.parquet "$directory/day/prairie-$(date -u -d yesterday +%F)T$hour.parquet"
    done
    /usr/bin/time -f '%U %S %M' -o "$directory/time" "$prairie" log run "$directory/day" --once
    awk '{
        cpu = $1 + $2; peak = $3 * 1024 / 1e6
        printf "| prairie log run, at midnight | 86400 | %.2f | %.4f | %.1f | %.1f |\n", cpu, cpu / 864, peak, peak
    }' "$directory/time"
}

"$prairie" export --listen "$address" 2>"$directory/export.log" &
export_pid=$!
"$prairie" log run "$directory/log" 2>"$directory/log.log" &
log_pid=$!
pids="$export_pid $log_pid"
passed=0
while [ "$passed" -lt "$seconds" ]; do
    sleep 15
    passed=$((passed + 15))
    curl -s -H 'Accept: application/openmetrics-text; version=1.0.0' "http://$address/metrics" \
        >"$directory/metrics" || { cat "$directory/export.log" >&2; exit 1; }
done
echo "| command | time, s | CPU time, s | of a core, % | resident, MB | peak, MB |"
echo "| --- | ---: | ---: | ---: | ---: | ---: |"
usage "prairie export" "$export_pid" "$passed"
usage "prairie log run" "$log_pid" "$passed"
midnight
exec >&2
echo "scrape: $(wc -c <"$directory/metrics") bytes, $(grep -vc '^#' "$directory/metrics") series"
grep -E '^prairie_(walk_read_pageblocks|pageblocks|walk_cpu_seconds) ' "$directory/metrics" || true
"$prairie" export --frames-budget 100 >"$directory/full"
grep -E '^prairie_walk_cpu_(seconds|per_tebibyte_seconds) ' "$directory/full" || true
