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
    case " $* " in
        *" --random "*) ;;
        *) set -- --max-states "$most" "$@" ;;
    esac
    "$target/prairie" migrate check "$@" || echo "exit code $?"
}

check
check --pages 2
check --lines 2
check --lines 2 --pages 2
check --model message
check --model message --with aborts,again
check --coarse --cores 3 --lines 2 --threads 2
check --coarse --model message --devices 0 --lines 2 --threads 2
check --coarse --model message --cores 1 --lines 2 --threads 2
check --coarse --model message --lines 2 --threads 2
for seed in 1 2 3; do
    check --random 60000000 --seed "$seed"
    check --random 60000000 --seed "$seed" --caching noncacheable
done
check --cores 3 --lines 2 --threads 2
check --model message --lines 2 --threads 2
