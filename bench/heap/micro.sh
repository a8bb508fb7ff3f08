#!/bin/sh
# Races the heap with installed allocators on micro workloads: CPU seconds and peak memory.
# Usage: [HEAP_LIBRARY=…] [ALLOCATORS="name=/path/lib.so …"] bench/heap/micro.sh [ROUNDS [WORKLOAD…]]
#
# All are preloaded and take turns. Cells are medians, and behind them the spread of the rounds in
# per cent; the last lines are geometric means over each row's best.
set -eu
cd "$(dirname "$0")/../.."
rounds="${1:-5}"
[ $# -eq 0 ] || shift
target="${CARGO_TARGET_DIR:-target}"
heap="${HEAP_LIBRARY:-$target/release/libprairie_heap.so}"
[ -n "${HEAP_LIBRARY:-}" ] || cargo build --release --quiet -p prairie-heap-preload
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc -O2 -fno-builtin -w -o "$work/micro" bench/heap/micro.c -lpthread

libraries=/usr/lib/$(uname -m)-linux-gnu
allocators="prairie=$heap glibc="
for candidate in jemalloc=libjemalloc.so.2 mimalloc=libmimalloc.so.2.0 \
    gperftools=libtcmalloc_minimal.so.4; do
    [ ! -e "$libraries/${candidate#*=}" ] ||
        allocators="$allocators ${candidate%%=*}=$libraries/${candidate#*=}"
done
allocators="$allocators ${ALLOCATORS:-}"
workloads="${*:-$("$work/micro")}"

for round in $(seq "$rounds"); do
    for workload in $workloads; do
        for allocator in $allocators; do
            result=$(LD_PRELOAD="${allocator#*=}" "$work/micro" "$workload") || result="nan nan nan"
            echo "$workload ${allocator%%=*} $result" >>"$work/results"
        done
    done
    echo "round $round of $rounds" >&2
done

uname -sr
echo "THP: $(cat /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null || echo unknown)"
for column in 3 4 5; do
    case $column in
    3) echo "== CPU seconds, user and system" ;;
    4) echo "== wall seconds" ;;
    5) echo "== peak resident memory, KiB" ;;
    esac
    sort -k1,1 -k2,2 -k"$column","$column"n "$work/results" | awk -v column="$column" \
        -v order="$(echo "$allocators" | tr ' ' '\n' | sed 's/=.*//' | tr '\n' ' ')" \
        -v rows="$(echo "$workloads" | tr '\n' ' ')" '
        { key = $1 " " $2; values[key, ++count[key]] = $column }
        END {
            names = split(order, name, " "); lines = split(rows, row, " ")
            printf "%-14s", ""
            for (n = 1; n <= names; n++) printf " %16s", name[n]
            print ""
            for (r = 1; r <= lines; r++) {
                best = 0
                for (n = 1; n <= names; n++) {
                    key = row[r] " " name[n]; c = count[key]
                    median[n] = (values[key, int((c + 1) / 2)] + values[key, int(c / 2) + 1]) / 2
                    spread[n] = median[n] ? (values[key, c] - values[key, 1]) / median[n] * 100 : 0
                    if (!best || median[n] < best) best = median[n]
                }
                printf "%-14s", row[r]
                for (n = 1; n <= names; n++) {
                    printf " %10.3f %3.0f %%", median[n], spread[n]
                    sum[n] += log((median[n] + 1e-9) / (best + 1e-9))
                }
                print ""
            }
            printf "%-14s", "over the best"
            for (n = 1; n <= names; n++) printf " %10.3f      ", exp(sum[n] / lines)
            print ""
        }'
done
