#!/bin/sh
# Times the checker on German's protocol beside Rumur and SPIN, where they are installed; rounds
# are interleaved, so that a busy machine slows all alike. Stateright, a library, is timed by a
# program with the same model. User CPU time and wall time of the process, states, states a second
# of CPU time, peak memory; Prairie also with two threads.
# Usage: bench/checker.sh [ROUNDS]
set -eu
cd "$(dirname "$0")/.."
rounds="${1:-3}"
target="${CARGO_TARGET_DIR:-target}/release"
cargo build --release --quiet -p experiments --bin checker_rate
stateright=$(bench/built prairie-migrate stateright_rate)
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

if command -v rumur >/dev/null; then
    rumur --deadlock-detection off --threads 1 --output "$directory/rumur.c" bench/checker/german.m
    cc -O3 -march=native -std=c11 -mcx16 -o "$directory/rumur" "$directory/rumur.c" -lpthread
fi
if command -v spin >/dev/null; then
    cp bench/checker/german.pml "$directory"
    (cd "$directory" && spin -a german.pml >spin.log && cc -O3 -DSAFETY -DNOREDUCE -o pan pan.c)
fi

# Name, then the command; its output is searched for the number of states.
timed() {
    name=$1
    shift
    /usr/bin/time -f '%U %e %M' -o "$directory/time" "$@" >"$directory/out" 2>&1 ||
        { tail -n 3 "$directory/out" >&2; return; }
    states=$(grep -v matched "$directory/out" | grep -oE '[0-9]+ states' |
        grep -oE '^[0-9]+' | sort -n | tail -n 1)
    read -r seconds wall kilobytes <"$directory/time"
    awk -v name="$name" -v states="$states" -v seconds="$seconds" -v wall="$wall" \
        -v kilobytes="$kilobytes" 'BEGIN {
        printf "%-12s %8d states %6.2f s CPU %6.2f s wall %6.2f M/s %7.1f MB %6.1f bytes a state\n",
            name, states, seconds, wall, states / seconds / 1e6, kilobytes / 1e3,
            kilobytes * 1024 / states
    }'
}

for round in $(seq "$rounds"); do
    echo "== round $round, load $(cut -d ' ' -f 1 /proc/loadavg)"
    timed prairie "$target/checker_rate" 1 1
    timed "prairie, two" "$target/checker_rate" 1 2
    timed stateright "$stateright"
    [ ! -x "$directory/rumur" ] || timed rumur "$directory/rumur"
    [ ! -x "$directory/pan" ] || timed spin "$directory/pan" -m100000
done
