#!/bin/sh
# Times the survey of this host's frames against a bare read loop over /proc/kpageflags.
# Root is needed, for the kernel shows that file to nobody else.
# Usage: bench/survey.sh [ROUNDS]
set -eu
cd "$(dirname "$0")/.."
if [ "$(id -u)" -ne 0 ]; then
    echo "bench/survey.sh: run as root: /proc/kpageflags is not readable otherwise" >&2
    exit 1
fi
exec cargo run --release --quiet -p experiments --bin survey_rate -- "${1:-11}"
