#!/bin/sh
# The regions daemon on real kernels: grows, shrinks, undoes, and leaves the machine whole however
# it ends. Usage: vm/tests/regions.sh [--short]
#
# VM_KERNELS names the kernels, or folders that have one, VM_KEEP a folder to keep what runs said,
# PRAIRIE, KERNEL_LOAD, and KILL_OFFLINE binaries to use. KILLS is how often the daemon is killed at
# any moment; four times more it is killed while a block is offline. BLOCKS=2G tests memory blocks of
# 2 GiB, in a machine of 12 GiB. --short is one machine with one kernel, about a minute and a half; where
# none is available, it is skipped.
set -eu
cd "$(dirname "$0")/../.."
short=
[ "${1:-}" != --short ] || short=yes
kernels=${VM_KERNELS:-6.1 6.12}
self=vm/tests/regions.sh
. vm/common.sh
program prairie "${PRAIRIE:-}" prairie
program kernel_load "${KERNEL_LOAD:-}" experiments
program kill_offline "${KILL_OFFLINE:-}" experiments

# The machine, most of whose memory is in ZONE_NORMAL, and what its guest expects. Of few blocks, the
# kernel's own image must not take one.
case ${BLOCKS:-128M} in
128M) memory="--memory 2G --low 256M" expected="6 800 40 7" ;;
2G) memory="--memory 12G --low 2G --high --append nokaslr" expected="3 4000 200 2" ;;
*) fail "BLOCKS=$BLOCKS: expected 128M or 2G"; exit 2 ;;
esac

# one KERNEL KILLS
one() {
    out=$work/$(basename "$1")
    rm -rf "$out"
    # shellcheck disable=SC2086 # lists of words
    vm/run --kernel "$1" --counted $memory --timeout $((900 + $2 * 20)) \
        --file "$work/bin:bin" --program "$work/bin/prairie" --file vm/regions/common.sh \
        --file vm/regions/fast.toml --out "$out" vm/regions/short.sh "$2" $expected || fail "$1: the guest ended with $?"
    [ ! -s "$out/failed" ] || fail "$1: $(cat "$out/failed")"
    [ ! -s "$out/kernel-trouble" ] || fail "$1: $(cat "$out/kernel-trouble")"
    grep -q "operation: \|convert block" "$out/daemon" || fail "$1: no operation was logged"
    echo "$1: $(grep -c "convert block.*: done" "$out/daemon") conversions, $2 kills, $(cat "$out/rescued") with a block offline, $(cat "$out/returned" "$out/pipes" 2>/dev/null | tr '\n' ' ')"
}

if [ -n "$short" ]; then
    for kernel in ${VM_KERNELS:-6.1}; do
        # The kernel comes from Debian's archive the first time.
        case $kernel in
        */*) ;;
        *) vm/kernel "$kernel" >/dev/null || skip "no kernel could be fetched" ;;
        esac
        one "$kernel" "${KILLS:-3}"
    done
else
    for kernel in $kernels; do one "$kernel" "${KILLS:-100}"; done
fi
[ "$failed" = 0 ]
