#!/bin/sh
# Measures how fast page-heap calls play back: those of the driver at 64 GiB, and of a trace file.
# Usage: bench/heap/playback.sh [ROUNDS]
set -eu
cd "$(dirname "$0")/../.."
rounds="${1:-5}"
core="${CORE:-0}"
target="${CARGO_TARGET_DIR:-target}"
rate=$(bench/built prairie-heap playback_rate --features tools)
cargo build --release --quiet -p prairie
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

echo "== the driver's calls around a heap of 64 GiB, from memory (calls a second of CPU time)"
taskset -c "$core" "$rate" "" "$rounds"
echo "== the same kind of calls around 1 GiB, decoded from a file"
"$target/release/prairie" heap driver --sizes figure-5 --heap 1G --time 200s \
    --out "$directory/heap.parquet" --json >/dev/null 2>&1
taskset -c "$core" "$rate" "$directory/heap.parquet" "$rounds"
