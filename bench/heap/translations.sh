#!/bin/bash
# Models the address translations of whole programs on the page heaps `temeraire` and `legacy` of one
# library, for machines whose counters cannot be read (bench/heap/ab.sh counts where they can).
# Usage: [HEAP_LIBRARY=… MODEL=…] bench/heap/translations.sh [--json FILE] [ROUNDS [PROGRAM…]]
#
# Each round runs each program on both page heaps under QEMU's user mode, in turns first. A plugin
# records windows of the program's loads and stores, and which addresses the kernel backs with huge
# pages at that moment; another one gives the kernel the heap's advice, which QEMU drops. The program
# `heap_translations` (MODEL; built if not given) feeds the accesses to the TLBs and page walks of
# `crates/sim/src/translation`. Only the program that allocates is emulated, not its clients.
# Needs QEMU's user mode 7 (Debian: qemu-user) and Linux 6.7; programs that are not installed are
# left out, with a message.
set -euo pipefail
default_rounds=3
. "$(dirname "$0")/common.sh"
if ! command -v qemu-x86_64 >/dev/null; then
    echo "qemu-x86_64 is not installed (Debian: qemu-user)" >&2
    exit 1
fi
[ -n "${MODEL:-}" ] || cargo build --release --quiet -p experiments --bin heap_translations
model=$(realpath "${MODEL:-${CARGO_TARGET_DIR:-target}/release/heap_translations}")
cp "$heap" "$work/heap.so"
for plugin in accesses advice; do
    cc -O2 -shared -fPIC -o "$work/$plugin.so" "crates/migrate/plugin/$plugin.c"
done

# Of each 16 Mi accesses of a thread 1 Mi are recorded, and a quarter of these fills the TLBs and is
# not counted (chosen).
WINDOW=1048576 EVERY=16777216 WARM_UP=262144

. bench/heap/programs.sh
prepare_programs
mapfile -t present < <(present_programs ${*:-python cpython sqlite memcached redis})

# QEMU emulates a program, not the script that stands for it in PATH.
executable() {
    case $1 in
    python3) python3 -c 'import sys; print(sys.executable)' ;;
    rustfmt) rustup which rustfmt 2>/dev/null || command -v rustfmt ;;
    *) command -v "$1" ;;
    esac
}
measured() {
    local program trace="$work/trace"
    program=$(executable "$1")
    shift
    rm -f "$trace".*
    qemu-x86_64 -E "LD_PRELOAD=$work/heap.so" -E "PRAIRIE_PAGE_HEAP=$arm" -plugin "$work/advice.so" \
        -plugin "$work/accesses.so,to=$trace,window=$WINDOW,every=$EVERY" "$program" "$@"
    # Threads with fewer accesses than a buffer holds write no file.
    find "$work" -name 'trace.*' ! -name '*.huge' -print0 | sort -z | xargs -0 "$model" "$WARM_UP" |
        sed "s/^{/{\"program\": \"$name\", \"page heap\": \"$arm\", /" >>"$work/runs"
    rm -f "$trace".*
}
run_rounds legacy temeraire
python3 bench/heap/translations.py "$work/runs" --json "$json" --command "$command" \
    --started "$started" --note "$(thp_note)"
