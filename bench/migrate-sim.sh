#!/bin/sh
# Times the migration simulator on one core: accesses a second by stream and by cores simulated,
# in turn with bare look-ups of the same streams in the same caches and TLBs (crates/migrate/
# benches/bare_lookups.rs), which are what this host reaches at that minute; then once for all
# streams and up to 256 cores, with the memory it takes.
# Accesses are the program's; what page walks read comes on top. CPU time of one thread.
# Usage: bench/migrate-sim.sh [ROUNDS]
#   OTHER=PATH   another build of the simulator's program, run in turn in place of the look-ups
set -eu
cd "$(dirname "$0")/.."
core="${CORE:-0}"
target="${CARGO_TARGET_DIR:-target}/release"
cargo build --release --quiet -p experiments --bin migrate_rate
lookups=$(bench/built prairie-migrate bare_lookups)
for round in $(seq "${1:-3}"); do
    for cores in 16 64; do
        for stream in hot random; do
            for build in "${OTHER:-$lookups}" "$target/migrate_rate"; do
                taskset -c "$core" "$build" --rounds 1 --cores "$cores" --stream "$stream" |
                    sed -n "s|^ *$cores |$build round $round: &|p"
            done
        done
    done
done
[ -n "${OTHER:-}" ] || taskset -c "$core" "$target/migrate_rate" --rounds 1
