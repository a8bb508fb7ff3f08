#!/bin/bash
# Compares the page heaps `temeraire` and `legacy` of one library under whole programs, as Tables 1
# and 2 of the paper do.
# Usage: [HEAP_LIBRARY=…] [RELEASE=10M [COMPARE=release]] bench/heap/ab.sh [--json FILE]
#     [ROUNDS [PROGRAM…]]
#
# With RELEASE a thread in each program returns that many bytes a second to the kernel. With
# COMPARE=release all programs are on `temeraire`, without and with that thread.
#
# Each round runs each program in both arms, in turns first. `perf` (Debian: linux-perf) adds
# the share of time in the heap, and hardware counters where the machine has them; the report names
# those that it does not have. Programs that are not installed are left out, with a message.
set -euo pipefail
default_rounds=10
. "$(dirname "$0")/common.sh"
# A server may run as a user who cannot read the build's folder.
chmod 711 "$work"
cp "$heap" "$work/heap.so"

command="${RELEASE:+RELEASE=$RELEASE }${COMPARE:+COMPARE=$COMPARE }$command"
. bench/heap/programs.sh
prepare_programs
mapfile -t present < <(present_programs ${*:-python cpython gcc rustfmt sqlite threads memcached redis nginx postgres})
case ${COMPARE:-page-heaps},${RELEASE:+on} in
page-heaps,) arms=(legacy temeraire) table=temeraire-ab base= ;;
page-heaps,on) arms=(legacy temeraire) table=temeraire-ab-release base= ;;
release,on) arms=(off on) table=heap-release base='without release' ;;
*)
    echo "COMPARE=$COMPARE: expected release, and a rate in RELEASE" >&2
    exit 1
    ;;
esac
# The settings of an arm.
settings() {
    case $1 in
    off | on) echo "PRAIRIE_PAGE_HEAP=temeraire" ;;
    *) echo "PRAIRIE_PAGE_HEAP=$1" ;;
    esac
    if [ "$1" != off ] && [ -n "${RELEASE:-}" ]; then echo "PRAIRIE_HEAP_RELEASE=$RELEASE"; fi
}
measured() {
    # shellcheck disable=SC2046
    env $(settings "$arm") python3 bench/heap/ab.py measure --library "$work/heap.so" \
        --label "$name $arm" --out "$work/runs" ${profile:+--profile} -- "$@"
}
# One run of each under the profiler, which slows it down.
for name in "${present[@]}"; do
    for arm in "${arms[@]}"; do profile=1 program "$name"; done
done
run_rounds "${arms[@]}"
python3 bench/heap/ab.py report "$work/runs" --json "$json" --command "$command" \
    --started "$started" --note "$(thp_note)" ${RELEASE:+--note "release of $RELEASE a second"} \
    --arms "$(IFS=,; echo "${arms[*]}")" --base "$base" --name "$table"
