#!/bin/sh
# What a day of one server of each kind of a fleet takes, 64 GiB each (docs/src/results/benchmarks.md, "A fleet").
#
#   bench/fleet.sh [DAYS] [SYSTEMS]
set -eu
cd "$(dirname "$0")/.."
cargo build --release --quiet -p prairie-fleet --example fleet_rate
"${CARGO_TARGET_DIR:-target}/release/examples/fleet_rate" 4 64 "${1:-1}" "${2:-linux,contiguitas}" whole
