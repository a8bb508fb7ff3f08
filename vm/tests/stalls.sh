#!/bin/sh
# `prairie stalls` on a real kernel: the sum of stalls that it reports for a program that compacts
# at every huge page fault, against the clock inside that program. Both live and from a recording
# they have to agree within 10 %. Usage: vm/tests/stalls.sh
#
# VM_KERNELS names the kernels, VM_KEEP a folder to keep what runs said, PRAIRIE a binary to use.
set -eu
cd "$(dirname "$0")/../.."
work=${VM_KEEP:-$(mktemp -d)}
mkdir -p "$work/bin"
[ -n "${VM_KEEP:-}" ] || trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

target=${CARGO_TARGET_DIR:-target}
if [ -z "${PRAIRIE:-}" ]; then
    ${CARGO:-cargo} build --quiet --locked --profile test -p prairie --bin prairie
    PRAIRIE=$target/debug/prairie
fi
strip -o "$work/bin/prairie" "$PRAIRIE"
rustc --edition 2024 -O -C target-feature=+crt-static -C panic=abort -C strip=symbols \
    -o "$work/bin/stalled" vm/stalls/stalled.rs

failed=0
# waited FILE: nanoseconds that the program `stalled` waited, by the report.
waited() {
    awk '/"processes": \[/ { inside = 1 } inside && /"name": "stalled"/ { found = 1 }
        found && /"waited_ns"/ { gsub(/[^0-9]/, ""); print; exit }' "$1"
}
# compare KERNEL WAY OWN REPORT
compare() {
    own=$(sed -n 's/^waited_ns //p' "$3")
    reported=$(waited "$4")
    awk -v own="${own:-0}" -v reported="${reported:-0}" -v what="$1, $2" 'BEGIN {
        printf "%s: the program waited %.3f s, %.3f s were reported: %+.1f %%\n", what, own / 1e9,
            reported / 1e9, own ? (reported / own - 1) * 100 : 0
        exit !(own > 0 && reported > own * 0.9 && reported < own * 1.1)
    }' || failed=1
}

for kernel in ${VM_KERNELS:-6.1}; do
    out=$work/$kernel
    # Counted time: on a busy host, emulated clearing of a huge page varies by more than it waits.
    vm/run --kernel "$kernel" --memory 512M --counted --timeout 900 --file "$work/bin:bin" \
        --program "$work/bin/prairie" --out "$out" \
        vm/stalls/guest.sh 40 75
    [ ! -s "$out/failed" ] || { cat "$out/failed" >&2; failed=1; }
    compare "$kernel" live "$out/own-live" "$out/live.json"
    compare "$kernel" recorded "$out/own-recorded" "$out/recorded.json"
    grep -q '"lost_events": 0' "$out/live.json" || { echo "$kernel: events were lost" >&2; failed=1; }
done
[ "$failed" = 0 ]
