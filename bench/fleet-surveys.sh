#!/bin/sh
# Report on 2,000 saved surveys: time, CPU time, and memory of `prairie fleet report`, as a table.
# The surveys are links to one file, by default the shipped recording, which begins with a survey.
# Usage: bench/fleet-surveys.sh [PRAIRIE] [SURVEYS] [SURVEY.parquet]
set -eu
cd "$(dirname "$0")/.."
prairie=${1:-target/release/prairie} surveys=${2:-2000} survey=$(realpath "${3:-data/mixed.parquet}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/surveys"
for host in $(seq -w "$surveys"); do
    ln -s "$survey" "$work/surveys/host-$host.parquet"
done
echo "| CPUs | surveys | time, s | CPU time, s | CPU time of a survey, ms | memory, MiB |"
echo "| ---: | ---: | ---: | ---: | ---: | ---: |"
for cpus in 1 $(nproc); do
    /usr/bin/time -o "$work/time" -f "%e %U %S %M" taskset --cpu-list "0-$((cpus - 1))" \
        "$prairie" fleet report --strict "$work/surveys" >"$work/out"
    grep -q ", $surveys servers" "$work/out"
    awk -v cpus="$cpus" -v surveys="$surveys" '{
        cpu = $2 + $3
        printf "| %d | %d | %.1f | %.1f | %.1f | %.0f |\n", cpus, surveys, $1, cpu, 1000 * cpu / surveys, $4 / 1024
    }' "$work/time"
done
