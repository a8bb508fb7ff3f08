#!/bin/sh
# Runs the checker's large configurations, one after the other: states, depth, time, memory. For a
# quiet machine with 20 GB free; hours. Those not known to end do so at MAX_STATES.
# Usage: bench/checker-configurations.sh [MAX_STATES]
set -eu
cd "$(dirname "$0")/.."
most="${1:-1000000000}"
target="${CARGO_TARGET_DIR:-target}/release"
cargo build --release --quiet -p prairie

check() {
    echo "== prairie migrate check $*"
    "$target/prairie" migrate check --max-states "$most" "$@" || echo "exit code $?"
}

check
check --pages 2
check --lines 2
check --lines 2 --pages 2
check --model message
check --model message --with aborts,again
check --cores 3 --lines 2
check --model message --cores 1 --lines 2
check --model message --lines 2
check --random 200000000 --seed 1
check --random 200000000 --seed 2 --caching noncacheable
