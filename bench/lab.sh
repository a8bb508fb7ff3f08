#!/bin/sh
# How fast simulated machines live: events a second of CPU time under Highalloc-Stress for each
# system, what an event costs as memory grows, bytes a frame, and a simulated day of a server of
# 64 GiB (two minutes at most).
# Usage: bench/lab.sh [LARGEST_GIB]
set -eu
cd "$(dirname "$0")/.."
largest="${1:-64}"
core="${CORE:-0}"
target="${CARGO_TARGET_DIR:-target}/release"
cargo build --release --quiet -p experiments --bin machine_rate
run() {
    taskset -c "$core" "$target/machine_rate" "$@"
}
echo "== Highalloc-Stress, the 32-bit machine of 2006"
run stress
echo "== growth, linux"
run growth linux "$largest"
echo "== a day of 64 GiB"
run scenario bench/lab-day.toml linux
