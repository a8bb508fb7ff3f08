#!/bin/sh
# Times the migration simulator on one core: accesses a second by stream and by cores simulated.
# Usage: bench/migrate-sim.sh [ROUNDS]
set -eu
cd "$(dirname "$0")/.."
core="${CORE:-0}"
target="${CARGO_TARGET_DIR:-target}/release/examples"
cargo build --release --quiet -p prairie-migrate --example migrate_rate
taskset -c "$core" "$target/migrate_rate" --rounds "${1:-3}"
