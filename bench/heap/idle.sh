#!/bin/sh
# Shows what a program that does nothing much has resident under each allocator, in KB.
# Usage: [HEAP_LIBRARY=…] [PEERS_FOLDER=…] [ALLOCATORS="name=/path/lib.so …"] bench/heap/idle.sh [ROUNDS]
#
# It allocates once, frees that, and reads its own smaps_rollup, which is exact. Cells are medians.
set -eu
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
uname -sr
for allocator in "prairie=$heap" $(bench/heap/peers.sh ${PEERS_FOLDER:-}) ${ALLOCATORS:-}; do
    for _ in $(seq "$rounds"); do LD_PRELOAD="${allocator#*=}" "$work/idle"; done |
        sort -n | awk -v name="${allocator%%=*}" '{ all[NR] = $1 }
            END { printf "%-12s %6d\n", name, all[int((NR + 1) / 2)] }'
done
