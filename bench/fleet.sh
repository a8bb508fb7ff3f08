#!/bin/sh
# What a day of one server of each kind of a fleet takes, 64 GiB each (docs/src/results/benchmarks.md, "A fleet").
#
#   bench/fleet.sh [DAYS] [SYSTEMS]
set -eu
cd "$(dirname "$0")/.."
rate=$(bench/built prairie-fleet fleet_rate)
"$rate" 4 64 "${1:-1}" "${2:-linux,contiguitas}" whole
