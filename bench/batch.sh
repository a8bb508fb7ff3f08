#!/bin/sh
# Times batches of single frames against the same frames one by one, for N = 1 to 65,536, on one
# core (docs/src/results/freebsd.md, Figure 10).
# Usage: bench/batch.sh [ROUNDS]
set -eu
cd "$(dirname "$0")/.."
cargo build --release --quiet -p experiments --bin batch_rate
taskset -c "${CORE:-0}" "${CARGO_TARGET_DIR:-target}/release/batch_rate" "${1:-9}"
