# What the comparisons of this folder have in common; to be sourced first, with the script's arguments:
# [--json FILE] [ROUNDS [MORE…]]. Works in sh and bash.
#
# Sets `started`, `command`, `json`, `rounds` (else `default_rounds`), `heap` (the library, built if
# HEAP_LIBRARY does not name one), and `work`, an empty folder with `warm`; goes to the project's
# root, and leaves the arguments behind ROUNDS.
#
# all_allocators [MODE]   NAME=LIBRARY[,SETTING] of the heap, its peers, and ALLOCATORS
# preloaded SPEC          what `env` sets to run a command under one: one or two words
# next_first              puts another one of `allocators` first
# thp_note                the present mode of transparent huge pages
started=$(date +%s)
command="$0 $*"
json=
if [ "${1:-}" = --json ]; then json=$2; shift 2; fi
cd "$(dirname "$0")/../.."
rounds=${1:-${default_rounds:-5}}
[ $# -eq 0 ] || shift
[ -n "${HEAP_LIBRARY:-}" ] || cargo build --release --quiet -p prairie-heap-preload
heap=$(realpath "${HEAP_LIBRARY:-${CARGO_TARGET_DIR:-target}/release/libprairie_heap.so}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
cc -O1 -o "$work/warm" bench/heap/warm.c

all_allocators() {
    # shellcheck disable=SC2046,SC2086
    echo "prairie=$heap" $(THP=${1:-} bench/heap/peers.sh ${PEERS_FOLDER:-}) ${ALLOCATORS:-}
}

preloaded() { case $1 in *,*) echo "LD_PRELOAD=${1%%,*} ${1#*,}" ;; *) echo "LD_PRELOAD=$1" ;; esac; }

next_first() { allocators="${allocators#* } ${allocators%% *}"; }

thp_note() {
    echo "THP $(sed 's/.*\[\(.*\)\].*/\1/' /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null || echo unknown)"
}
