#!/bin/sh
# The heap on aarch64: per-CPU and per-thread caches in an emulated machine of two CPUs and, if it is
# installed, in qemu-aarch64, which has no restartable sequences of its own.
# Usage: vm/tests/heap-aarch64.sh
#
# Time is counted in instructions, so a loaded host changes nothing and a timer interrupts any
# instruction. One thread emulates both CPUs, and sees all loads and stores in order: what only a
# weaker order would show is not tested. VM_KERNELS names the kernels, VM_KEEP a folder to keep what
# runs printed.
set -eu
cd "$(dirname "$0")/../.."
self=vm/tests/heap-aarch64.sh
target=aarch64-unknown-linux-gnu
libc=/usr/aarch64-linux-gnu/lib
work=${VM_KEEP:-$(mktemp -d)}
[ -n "${VM_KEEP:-}" ] || trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

skip() {
    echo "$self: skipped: $1" >&2
    [ -z "${PRAIRIE_SKIPS:-}" ] || echo "$self: $1" >>"$PRAIRIE_SKIPS"
    exit 0
}
fail() {
    echo "$self: $1" >&2
    exit 1
}

PATH=$PATH:/sbin:/usr/sbin
while read -r tool package; do
    command -v "$tool" >/dev/null 2>&1 || skip "there is no $tool; install $package"
done <<END
qemu-system-aarch64 qemu-system-arm
aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
aarch64-linux-gnu-g++ g++-aarch64-linux-gnu
cpio cpio
depmod kmod
apt-get apt
END
[ -d "$(rustc --print target-libdir --target $target)" ] ||
    skip "Rust lacks the target; rustup target add $target"

# busybox, static, of Debian for arm64: fetched once.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/prairie/vm
busybox=$cache/busybox-arm64
if [ ! -f "$busybox" ]; then
    mkdir -p "$cache" "$work/busybox"
    APT_CONFIG=$(PRAIRIE_DEBIAN_ARCHITECTURE=arm64 scripts/debian-apt "$cache/apt/arm64" debian/bookworm) ||
        skip "no package lists could be fetched"
    (cd "$work/busybox" && APT_CONFIG=$APT_CONFIG apt-get download -qq busybox-static >/dev/null) ||
        skip "busybox could not be fetched"
    dpkg-deb -x "$work"/busybox/*.deb "$work/busybox"
    mv "$work/busybox/bin/busybox" "$busybox"
fi

export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
${CARGO:-cargo} build --quiet --locked --profile test -p prairie-heap-preload --target $target
built=${CARGO_TARGET_DIR:-target}/$target/debug
root=$work/root
rm -rf "$root"
mkdir -p "$root/bin" "$root/lib" "$root/dev" "$root/proc" "$root/sys" "$root/tmp"
cp "$built/libprairie_heap.so" "$root/lib/"
programs=crates/heap-preload/tests/programs
aarch64-linux-gnu-gcc -g -O1 -w -o "$root/bin/traps" $programs/traps.c -lpthread -ldl
aarch64-linux-gnu-gcc -g -O1 -w -shared -fPIC -o "$root/lib/plugin.so" $programs/plugin.c
aarch64-linux-gnu-g++ -std=c++17 -g -O1 -w -fsized-deallocation -o "$root/bin/operators" \
    $programs/operators.cpp -lpthread
# The heap as the allocator of a Rust program: its own test.
${CARGO:-cargo} test --quiet --locked -p prairie-heap --test rust_program --target $target --no-run \
    --message-format json | sed -n 's/.*"executable":"\([^"]*rust_program[^"]*\)".*/\1/p' |
    while read -r program; do cp "$program" "$root/bin/rust_program"; done
[ -f "$root/bin/rust_program" ] || fail "the Rust program was not built"

for library in ld-linux-aarch64.so.1 libc.so.6 libm.so.6 libpthread.so.0 libdl.so.2 libgcc_s.so.1 \
    libstdc++.so.6; do
    cp -L "$libc/$library" "$root/lib/"
done
# Without a machine, if qemu-aarch64 is installed: per-thread caches, and per-CPU caches where a signal
# handler restarts sections as the kernel does, at any instruction.
if command -v qemu-aarch64 >/dev/null 2>&1; then
    emulated=$work/emulated_rseq
    aarch64-linux-gnu-gcc -g -O1 -no-pie -rdynamic -o "$emulated" $programs/emulated_rseq.c
    alone() {
        qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_PRELOAD="$root/lib/libprairie_heap.so" "$@"
    }
    alone "$emulated" || fail "qemu-aarch64: emulated sections failed"
    step=-singlestep
    ! qemu-aarch64 --help | grep -q one-insn-per-tb || step=-one-insn-per-tb
    alone $step "$emulated" || fail "qemu-aarch64: emulated sections failed, each instruction a step"
    for size in 1 64 1000 1025 4096 5000 30000; do
        alone "$emulated" $size 2>&1 | grep -q "double free of" ||
            fail "qemu-aarch64: no double free of $size bytes detected"
    done
    for program in "traps errors" "traps restarted" operators; do
        # shellcheck disable=SC2086 # a program and its argument
        alone "$root/bin/"$program || fail "qemu-aarch64: $program failed"
    done
    echo "qemu-aarch64: per-thread caches and emulated sections work"
fi

aarch64-linux-gnu-strip "$root"/lib/* "$root"/bin/*
cp "$busybox" "$root/bin/busybox"
cp vm/heap/aarch64-init "$root/init"
(cd "$root" && find . | sort | cpio -o -H newc --quiet --owner=0:0) | gzip -1n >"$work/initrd.gz"

for kernel in ${VM_KERNELS:-6.1}; do
    image=$(vm/kernel "$kernel" arm64) || skip "no kernel could be fetched"
    timeout --kill-after=5 "${VM_TIMEOUT:-1800}" qemu-system-aarch64 -accel tcg -icount shift=0,sleep=off \
        -machine virt -cpu max,pauth-impdef=on -smp 2 -m 1G -nodefaults -no-reboot -display none -monitor none \
        -serial stdio -kernel "$image/vmlinuz" -initrd "$work/initrd.gz" \
        -append "console=ttyAMA0 panic=-1 nowatchdog quiet" </dev/null >"$work/console-$kernel.log" 2>&1 ||
        fail "$kernel: the machine did not end by itself: $(tail -n 5 "$work/console-$kernel.log")"
    ! grep -A 5 ^failed "$work/console-$kernel.log" >&2 || fail "$kernel: a program failed"
    grep -q "^done on" "$work/console-$kernel.log" ||
        fail "$kernel: not done: $(tail -n 5 "$work/console-$kernel.log")"
    echo "$kernel: $(grep -c ^ok "$work/console-$kernel.log") programs ended as expected"
done
