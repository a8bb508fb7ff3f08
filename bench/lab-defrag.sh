#!/bin/sh
# Plays bench/lab-defrag-vm.toml on real kernels, for `lab_on_kernels`: Linux 6.1, 7.3, and 7.3 with
# vm.defrag_mode, each with as many seeds. Runs that are there already stay. A run takes three
# minutes of CPU time.
# Usage: bench/lab-defrag.sh [SEEDS [FOLDER]]
set -eu
cd "$(dirname "$0")/.."
seeds="${1:-3}" runs="${2:-target/lab-runs}"
for seed in $(seq 1 "$seeds"); do
    for setup in 6.1 7.3 7.3,defrag_mode=1; do
        folder=$runs/$setup/seed-$seed
        [ ! -f "$folder/vmstat.after" ] || continue
        case $setup in *,*) setting="--set ${setup#*,}" ;; *) setting= ;; esac
        echo "$setup, seed $seed" >&2
        # shellcheck disable=SC2086 # an option and its value
        vm/lab --kernel "${setup%%,*}" --seed "$seed" $setting bench/lab-defrag-vm.toml "$folder"
    done
done
