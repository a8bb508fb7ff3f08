#!/bin/sh
# Times the migration simulator on one core: accesses a second by stream and by cores simulated
# (16, 64 and 256, each with TLBs of its own), the mix of hits and walks, and the memory it takes.
# Accesses are the program's; what page walks read comes on top. CPU time, median of ROUNDS.
# Usage: bench/migrate-sim.sh [ROUNDS]
#   OTHER=PATH   another build of the example, to be run in turn with this one
set -eu
cd "$(dirname "$0")/.."
core="${CORE:-0}"
target="${CARGO_TARGET_DIR:-target}/release/examples"
cargo build --release --quiet -p prairie-migrate --example migrate_rate
if [ -z "${OTHER:-}" ]; then
    exec taskset -c "$core" "$target/migrate_rate" --rounds "${1:-3}"
fi
for round in $(seq "${1:-3}"); do
    for cores in 16 64; do
        for stream in hot random; do
            for build in "$OTHER" "$target/migrate_rate"; do
                printf '%s round %s: ' "$build" "$round"
                taskset -c "$core" "$build" --rounds 1 --cores "$cores" --stream "$stream" |
                    sed -n 2p
            done
        done
    done
done
