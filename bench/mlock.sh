#!/bin/sh
# Times wiring a virtual machine's memory page by page, in batches and by higher orders, on one core
# (docs/src/results/freebsd.md, Table 2).
# Usage: bench/mlock.sh [ROUNDS] [MIB]
set -eu
cd "$(dirname "$0")/.."
cargo build --release --quiet -p experiments --bin mlock_rate
taskset -c "${CORE:-0}" "${CARGO_TARGET_DIR:-target}/release/mlock_rate" "${1:-9}" "${2:-1024}"
