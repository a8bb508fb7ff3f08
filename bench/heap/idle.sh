#!/bin/sh
# Measures the resident memory of a program that allocates once, under each allocator.
# Usage: [HEAP_LIBRARY=…] [PEERS_FOLDER=…] [ALLOCATORS="name=/path/lib.so …"] bench/heap/idle.sh [--json FILE] [ROUNDS]
#
# It allocates 100 bytes, frees them, and reads its own smaps_rollup, which is exact. All allocators run
# interleaved; cells are medians ± half the range of the rounds.
set -eu
started=$(date +%s)
command="$0 $*"
json=
if [ "${1:-}" = --json ]; then json=$2; shift 2; fi
cd "$(dirname "$0")/../.."
rounds="${1:-5}"
target="${CARGO_TARGET_DIR:-target}"
heap="${HEAP_LIBRARY:-$target/release/libprairie_heap.so}"
[ -n "${HEAP_LIBRARY:-}" ] || cargo build --release --quiet -p prairie-heap-preload
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/idle.c" <<'C'
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void) {
    char *block = malloc(100);
    block[0] = 1;
    free(block);
    static char text[4096];
    if (read(open("/proc/self/smaps_rollup", O_RDONLY), text, sizeof text - 1) < 0) return 1;
    printf("%d\n", atoi(strstr(text, "Rss:") + 4));
    return 0;
}
C
cc -O1 -fno-builtin -o "$work/idle" "$work/idle.c"
setting() { case $1 in *,*) echo "${1#*,}" ;; *) echo UNUSED= ;; esac; }
# shellcheck disable=SC2046,SC2086
allocators=$(echo "prairie=$heap" $(bench/heap/peers.sh ${PEERS_FOLDER:-}) ${ALLOCATORS:-})
for _ in $(seq "$rounds"); do
    for allocator in $allocators; do
        spec=${allocator#*=}
        echo "idle ${allocator%%=*} $(env "$(setting "$spec")" LD_PRELOAD="${spec%%,*}" "$work/idle")"
    done
    # Another one is first in each round.
    first=${allocators%% *}
    allocators="${allocators#* } $first"
done >"$work/results"
thp="THP $(sed 's/.*\[\(.*\)\].*/\1/' /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null || echo unknown)"
bench/heap/report.py "$work/results" --name heap --table-per-row --json "$json" \
    --command "$command" --started "$started" --columns "resident:KiB" --note "$thp"
