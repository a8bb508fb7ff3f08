#!/bin/sh
# Measures the resident memory of a program that allocates once, under each allocator.
# Usage: [HEAP_LIBRARY=…] [PEERS_FOLDER=…] [ALLOCATORS="name=/path/lib.so …"] bench/heap/idle.sh [--json FILE] [ROUNDS]
#
# It allocates 100 bytes, frees them, and reads its own smaps_rollup, which is exact. All allocators run
# interleaved; cells are medians ± half the range of the rounds.
set -eu
. "$(dirname "$0")/common.sh"
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
allocators=$(all_allocators)
for _ in $(seq "$rounds"); do
    for allocator in $allocators; do
        # shellcheck disable=SC2046
        echo "idle ${allocator%%=*} $(env $(preloaded "${allocator#*=}") "$work/idle")"
    done
    next_first
done >"$work/results"
bench/heap/report.py "$work/results" --name heap --table-per-row --json "$json" \
    --command "$command" --started "$started" --columns "resident:KiB" --note "$(thp_note)"
