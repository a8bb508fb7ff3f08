#!/bin/sh
# Records a stock kernel from boot on, now, and holds the `linux` system against it: every frame at
# the buddy level, 99.99 % of all allocations where the record is followed, 99.9 % simulated.
set -eu
vm=$(cd "$(dirname "$0")/.." && pwd)
prairie=${PRAIRIE:-$vm/../target/release/prairie}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Shares of frames right, in parts per million, by name: one line each.
shares() {
    awk '
        /"(zone_locked|followed|corrected|free_running)": \{/ { name = $1; gsub(/[":]/, "", name) }
        /"right":/ { right = $2 + 0 }
        /"total":/ { if (name != "") printf "%s %d %d\n", name, right * 1000000 / ($2 + 0), $2 + 0; name = "" }
    ' "$1"
}

# Usage: hold CPUS FOLLOWED SIMULATED, shares in parts per million.
hold() {
    PRAIRIE=$prairie "$vm/record" --cpus "$1" processes "$work/$1"
    "$prairie" replay "$work/$1/trace.parquet" --against "$work/$1" --json >"$work/answer"
    shares "$work/answer" >"$work/shares"
    [ "$(wc -l <"$work/shares")" -eq 4 ] || { cat "$work/answer" >&2; exit 1; }
    while read -r name share total; do
        case $name in
        zone_locked) least=1000000 ;;
        followed) least=$2 ;;
        *) least=$3 ;;
        esac
        echo "$1 CPUs, $name: $share of 1,000,000 of $total"
        [ "$total" -gt 5000 ] && [ "$share" -ge "$least" ] || {
            "$prairie" replay "$work/$1/trace.parquet" --against "$work/$1" >&2
            echo "vm/tests/exact.sh: $1 CPUs, $name: $share, at least $least expected" >&2
            exit 1
        }
    done <"$work/shares"
}

hold 1 999900 999000
# With more CPUs the order of events is not always the order of what happened.
hold 2 999000 0
