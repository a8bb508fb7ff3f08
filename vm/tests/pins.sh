#!/bin/sh
# `prairie record --pins` on real kernels: a program that pins a known number of pages for long, and
# others for a moment. The recording has to name each page that it pins for long once, and its end once,
# also where the kernel first migrates the page out of ZONE_MOVABLE. Usage: vm/tests/pins.sh
#
# VM_KERNELS names the kernels, VM_KEEP a folder to keep what runs said, PRAIRIE a binary to use.
set -eu
cd "$(dirname "$0")/../.."
self=vm/tests/pins.sh short=
. vm/common.sh
program prairie "${PRAIRIE:-}" prairie
rustc --edition 2024 -O -C target-feature=+crt-static -C panic=abort -C strip=symbols \
    -o "$work/bin/pinned" vm/pins/pinned.rs

# count FILE NAME: a number of the replay's report.
count() {
    sed -n "s/^ *\"$2\": \([0-9]*\),*$/\1/p" "$1" | head -n 1
}
# expect WHAT FOUND TEST VALUE
expect() {
    if test "${2:-none}" "$3" "$4" 2>/dev/null; then
        echo "ok: $1: $2"
    else
        fail "$1: $2, expected $3 $4"
    fi
}

# recorded KERNEL ZONES OPTION...: a recording with the kernel's usual zones, or with ZONE_MOVABLE.
recorded() {
    name=$1-$2 kernel=$1
    out=$work/$name
    shift 2
    vm/run --kernel "$kernel" --memory 768M --disk 64M --module ext4 --program mke2fs --timeout 300 "$@" \
        --program "$work/bin/prairie" --file "$work/bin:bin" --out "$out" vm/pins/guest.sh ||
        { fail "$name: $(cat "$out/said" 2>/dev/null)"; return; }
    "$work/bin/prairie" replay "$out/trace.parquet" --systems linux --json >"$out/replay.json"
    grep -q "^small 1024 huge 1$" "$out/own" || fail "$name: the program: $(cat "$out/own")"
    expect "$name: probes of a killed recorder" "$(wc -l <"$out/probes.killed")" -ge 3
    expect "$name: probes left" "$(wc -l <"$out/probes.after")" -eq 0
    pins=$(count "$out/replay.json" pins) unpins=$(count "$out/replay.json" unpins)
    freed=$(count "$out/replay.json" pins_ended_by_free)
    # Memory that is migrated for a pin is pinned where it lies, and again as unmovable memory. The
    # kernel tries each buffer without success before; that pin ends when the memory is freed.
    case $name in
    *-movable) twice=2 unmovable=1025 ;;
    *) twice=1 unmovable=0 ;;
    esac
    expect "$name: pins" "$pins" -eq $((twice * 1025))
    expect "$name: pins that end" "$((unpins + freed))" -eq "$pins"
    expect "$name: of these, before their memory is freed" "$unpins" -ge $((twice * 1025 - 2 * (twice - 1)))
    grep -q "$pins allocations pinned long-term; at the end 0 of them still were" "$out/said" ||
        fail "$name: the recorder: $(cat "$out/said")"
    expect "$name: pins of memory that was not recorded" "$(count "$out/replay.json" pins_of_unknown)" -eq 0
    expect "$name: pins of unmovable memory" "$(count "$out/replay.json" pins_of_unmovable)" -eq "$unmovable"
}

for kernel in ${VM_KERNELS:-6.1 6.12 6.18 7.3}; do
    recorded "$kernel" usual
    recorded "$kernel" movable --append kernelcore=50%
done
[ "$failed" = 0 ]
