#!/bin/sh
# The offloader on real kernels: it takes cold pages and nothing else, stops at a phase change,
# leaves nothing behind. Usage: vm/tests/offload.sh [--short]
#
# The workload (crates/offload/examples/paced.rs) has hot memory, memory touched once a minute, and
# cold memory that is written once: 128, 64 and 256 MiB, a quarter of that with --short. Time is
# counted, so runs repeat. VM_KERNELS names the kernels, VM_KEEP a folder to keep what runs said.
set -eu
cd "$(dirname "$0")/../.."
short=
[ "${1:-}" != --short ] || short=yes
kernels=${VM_KERNELS:-6.1 6.12}
work=${VM_KEEP:-$(mktemp -d)}
mkdir -p "$work/bin"
[ -n "${VM_KEEP:-}" ] || trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

for tool in qemu-system-x86_64 cpio busybox; do
    command -v $tool >/dev/null 2>&1 && continue
    echo "vm/tests/offload.sh: skipped: there is no $tool; scripts/need qemu says what to install" >&2
    [ -z "$short" ] || exit 0
    exit 1
done

# The profile of tests, since `make test` has built that already.
target=${CARGO_TARGET_DIR:-target}
${CARGO:-cargo} build --quiet --locked --profile test -p prairie --bin prairie
${CARGO:-cargo} build --quiet --locked --profile test -p prairie-offload --example paced
strip -o "$work/bin/prairie" "$target/debug/prairie"
strip -o "$work/bin/paced" "$target/debug/examples/paced"

if [ -n "$short" ]; then
    kernels=${VM_KERNELS:-6.1}
    memory=512M cold_mib=64 sizes="HOT=32 WARM=16 COLD=64"
else
    memory=1G cold_mib=256 sizes="HOT=128 WARM=64 COLD=256"
fi
cold=$((cold_mib * 256))

failed=0
fail() {
    echo "vm/tests/offload.sh: $1" >&2
    failed=1
}

# run NAME KERNEL SETTING...: a run of vm/offload/guest.sh; what it says is in $work/NAME.
run() {
    name=$1 kernel=$2
    shift 2
    modules="--module zstd"
    [ "$kernel" != 6.1 ] || modules="--module zsmalloc --module zstd"
    # shellcheck disable=SC2086 # lists of words
    vm/run --kernel "$kernel" --counted --memory "$memory" --disk "$memory" --timeout 3000 \
        --file "$work/bin:bin" --program "$work/bin/prairie" --file vm/offload/offload.toml \
        --file vm/offload/device.toml $modules --out "$work/$name" vm/offload/guest.sh $sizes "$@" ||
        fail "$name: the guest ended with $?"
    [ "$(cat "$work/$name/oom")" = "oom_kill 0" ] || fail "$name: $(cat "$work/$name/oom")"
}

# field NAME KEY first|last|most: a figure of the samples, taken while the workload ran.
field() {
    awk -v key="$2" -v which="$3" '{
        for (i = 1; i <= NF; i++) { split($i, pair, "="); values[pair[1]] = pair[2] }
        if (values["anon"] < 1048576) exit
        value = values[key] + 0
        if (which != "most" || value > found) found = value
        if (which == "first") exit
    } END { print found + 0 }' "$work/$1/samples"
}

grown() { echo $(($(field "$1" "$2" last) - $(field "$1" "$2" first))); }

# at_least WHAT FOUND WANTED, at_most the same: integers.
at_least() { [ "$2" -ge "$3" ] || fail "$1: $2, at least $3 expected"; }
at_most() { [ "$2" -le "$3" ] || fail "$1: $2, at most $3 expected"; }

# worst NAME COLUMN: the largest value of a column of the workload's report, in nanoseconds,
# leaving out the first minute, in which the workload itself settles.
worst() {
    awk -v name="$2" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) column = i; next }
        $1 > 60 && $column > most { most = $column } END { print most + 0 }' "$work/$1/paced"
}

# returned NAME: pages that came back, by the counter that saw most of them.
returned() {
    refaults=$(grown "$1" workingset_refault_anon)
    loads=$(grown "$1" zswpin)
    [ "$loads" -gt "$refaults" ] && echo "$loads" || echo "$refaults"
}

# look NAME: the figures of a run, in one line.
look() {
    echo "$1: $((($(field "$1" anon first) - $(field "$1" anon last)) / 4096)) of $cold cold pages" \
        "offloaded, $((($(field "$1" current first) - $(field "$1" current last)) / 1048576)) MiB saved;" \
        "$(grown "$1" pgsteal) pages taken, $(returned "$1") came back, $(grown "$1" pgmajfault) major" \
        "faults, $(grown "$1" pgscan) scanned; stall $(grown "$1" stall) us; hot p99.9" \
        "$(worst "$1" hot999) ns, warm p99 $(worst "$1" warm99) ns; agent $(grown "$1" agent) us"
}

# precise NAME BASELINE: what is taken stays away, and the container does not notice.
precise() {
    at_most "$1: pages that came back" "$(returned "$1")" $(($(grown "$1" pgsteal) / 100))
    for column in hot999 warm99; do
        at_most "$1: $column in ns" "$(worst "$1" $column)" $(($(worst "$2" $column) * 110 / 100))
    done
}

# left_nothing NAME: limits are as they were before the daemon came, though they were others.
left_nothing() {
    grep -qx "memory.zswap.max 0" "$work/$1/limits-during" || fail "$1: nothing was on lease"
    cmp -s "$work/$1/limits-before" "$work/$1/limits-after" ||
        fail "$1: $(diff "$work/$1/limits-before" "$work/$1/limits-after" | tr '\n' ' ')"
}

for kernel in $kernels; do
    run "nothing-$kernel" "$kernel" AGENT=none SECONDS=130
    run "fast-$kernel" "$kernel" AGENT=prairie SECONDS=620
    look "fast-$kernel"
    precise "fast-$kernel" "nothing-$kernel"
    at_least "fast-$kernel: pages offloaded" \
        $((($(field "fast-$kernel" anon first) - $(field "fast-$kernel" anon last)) / 4096)) $((cold * 80 / 100))

    run "killed-$kernel" "$kernel" AGENT=prairie CONFIG=/in/device.toml SECONDS=40 EVERY=5 KILL_AT=15
    left_nothing "killed-$kernel"
    [ -z "$short" ] || continue

    run "ended-$kernel" "$kernel" AGENT=prairie CONFIG=/in/device.toml SECONDS=40 EVERY=5 KILL_AT=15 KILL_WITH=15
    left_nothing "ended-$kernel"

    # The cold memory is read within a minute, from the 420th second on.
    run "change-$kernel" "$kernel" AGENT=prairie SECONDS=620 CHANGE_AT=420
    look "change-$kernel"
    echo "change-$kernel: at most $(($(field "change-$kernel" current most) / 1048576)) MiB," \
        "$(($(field "change-$kernel" current first) / 1048576)) at first"
done

[ "$failed" = 0 ]
