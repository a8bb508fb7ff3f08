# What the tests of daemons in virtual machines have in common. To be sourced in the repository's
# root, with $self, the test's file, and $short, which is yes for a form that may be left out.

work=${VM_KEEP:-$(mktemp -d)}
mkdir -p "$work/bin"
[ -n "${VM_KEEP:-}" ] || trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# skip WHY: nothing can be said here. Only the short form may be left out.
skip() {
    echo "$self: skipped: $1" >&2
    [ -n "$short" ] && [ -z "${PRAIRIE_NO_SKIPS:-}" ] || exit 1
    [ -z "${PRAIRIE_SKIPS:-}" ] || echo "$self --short: $1" >>"$PRAIRIE_SKIPS"
    exit 0
}

[ "$(uname -m)" = x86_64 ] || skip "the guests are x86-64, and take this host's programs"
PATH=$PATH:/sbin:/usr/sbin
for tool in qemu-system-x86_64 cpio busybox modprobe depmod xz strip; do
    command -v $tool >/dev/null 2>&1 || skip "there is no $tool; scripts/need qemu says what to install"
done
! ldd "$(command -v busybox)" >/dev/null 2>&1 || skip "busybox is not static; install busybox-static"

# program NAME GIVEN PACKAGE: $work/bin/NAME from the binary GIVEN, or else from that of the profile
# of tests.
program() {
    binary=$2
    if [ -z "$binary" ]; then
        ${CARGO:-cargo} build --quiet --locked --profile test -p "$3" --bin "$1"
        binary=${CARGO_TARGET_DIR:-target}/debug/$1
    fi
    strip -o "$work/bin/$1" "$binary"
}

failed=0
fail() {
    echo "$self: $1" >&2
    failed=1
}
