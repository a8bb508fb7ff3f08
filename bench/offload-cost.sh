#!/bin/sh
# What the offload daemon costs by itself, for 200 cgroups: CPU time a second and cgroup, memory.
# The files are ordinary ones in memory, so that no disk's file system is timed; reading them as
# often without a daemon is timed beside it. Exits with 1 beyond 3 us or 20 MiB.
# Usage: bench/offload-cost.sh
set -eu
cd "$(dirname "$0")/.."
[ ! -w /dev/shm ] || export TMPDIR=/dev/shm
exec cargo test --release --quiet -p prairie-offload --test own_cost -- --nocapture
