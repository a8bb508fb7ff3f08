#!/bin/sh
# vm/run itself: files go in and come out, statuses are told apart, a stuck guest is ended.
set -eu
run=$(cd "$(dirname "$0")/.." && pwd)/run
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "vm/tests/run.sh: $1" >&2
    exit 1
}

# Runs a script given as text; prints its status.
status_of() {
    text=$1
    shift
    printf '%s\n' "$text" >script
    status=0
    "$run" --memory 192M "$@" 2>messages || status=$?
    echo "$status"
}

echo "from the host" >given
for kernel in ${VM_KERNELS:-6.1}; do
    # shellcheck disable=SC2016 # expanded by the guest
    [ "$(status_of 'cat note >"$OUT/note"; uname -r >"$OUT/release"; printf %s "$1" >"$OUT/word"
        trace-cmd >"$OUT/usage"; mkswap /dev/vdc && swapon /dev/vdc && free >"$OUT/free"
        [ -e /sys/block/zram0 ] && exit 7' \
        --kernel "$kernel" --file given:note --program trace-cmd --disk 32M --module zram \
        --out "out-$kernel" script "it's \$HOME")" = 7 ] || fail "status 7 expected: $(cat messages)"
    cmp given "out-$kernel/note"
    grep -q "^$kernel\." "out-$kernel/release" || fail "kernel $(cat "out-$kernel/release")"
    [ "$(cat "out-$kernel/word")" = "it's \$HOME" ] || fail "argument $(cat "out-$kernel/word")"
    grep -q "trace-cmd version" "out-$kernel/usage" || fail "trace-cmd does not run"
    grep -q "^Swap: *3276[0-9]" "out-$kernel/free" || fail "swap: $(cat "out-$kernel/free")"
done

[ "$(status_of 'sleep 1000' --timeout 12 script)" = 124 ] || fail "the guest was not ended"
[ "$(status_of 'echo c >/proc/sysrq-trigger' script)" = 125 ] || fail "a panic passed as a result"
grep -q "Kernel panic.*sysrq triggered crash" messages || fail "the panic is not shown: $(cat messages)"
[ "$(status_of 'date' --counted script)" = 0 ] || fail "counted time: $(cat messages)"
[ "$(status_of 'date' --module no_such_module script)" = 2 ] || fail "an unknown module passed"
