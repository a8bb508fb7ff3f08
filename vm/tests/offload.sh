#!/bin/sh
# The offloader on real kernels: it takes cold pages and nothing else, stops at a phase change,
# leaves nothing behind. Usage: vm/tests/offload.sh [--short | --paper]
#
# The workload (crates/experiments/src/bin/paced.rs) has hot memory, memory touched once a minute, and
# cold memory that is written once: 128, 64 and 256 MiB, a quarter of that with --short. Time is
# counted, so runs repeat. VM_KERNELS names the kernels, VM_KEEP a folder to keep what runs said,
# PRAIRIE and PACED binaries to use.
# --short is one machine with one kernel, for `make test`: if it is not available, it is skipped.
# --paper is two hours and a half with the paper's constants, which take the host most of an hour.
set -eu
cd "$(dirname "$0")/../.."
short= paper=
case ${1:-} in
--short) short=yes ;;
--paper) paper=yes ;;
esac
kernels=${VM_KERNELS:-6.1 6.12 6.18}
self=vm/tests/offload.sh
. vm/common.sh
program prairie "${PRAIRIE:-}" prairie
program paced "${PACED:-}" experiments

if [ -n "$short" ]; then
    memory=512M cold_mib=64
else
    memory=1G cold_mib=256
fi
cold=$((cold_mib * 256))

# run NAME KERNEL SCRIPT ARGUMENT...: a run of a guest; what it says is in $work/NAME. $speed and
# $disk are the machine's, $with more for vm/run.
speed=--counted disk=$memory with= limit=3000
run() {
    name=$1 kernel=$2
    shift 2
    modules="--module zstd"
    [ "$kernel" != 6.1 ] || modules="--module zsmalloc --module zstd"
    # shellcheck disable=SC2086 # lists of words
    vm/run --kernel "$kernel" $speed --memory "$memory" --disk "$disk" --timeout $limit $with \
        --file "$work/bin:bin" --program "$work/bin/prairie" --file vm/offload/common.sh --file vm/offload/agents.sh \
        --file vm/offload/offload.toml --file vm/offload/fast.toml --file vm/offload/device.toml \
        $modules --out "$work/$name" "$@" || fail "$name: the guest ended with $?"
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

# left_nothing NAME [SUFFIX]: limits are as they were before the daemon came, though they were others.
left_nothing() {
    grep -qx "memory.zswap.max 0" "$work/$1/limits-during${2:-}" || fail "$1${2:-}: nothing was leased"
    cmp -s "$work/$1/limits-before" "$work/$1/limits-after${2:-}" ||
        fail "$1${2:-}: $(diff "$work/$1/limits-before" "$work/$1/limits-after${2:-}" | tr '\n' ' ')"
}

# part NAME FROM TO: makes NAME-part of the samples between two seconds of a run.
part() {
    mkdir -p "$work/$1-$2"
    awk -v from="$2" -v to="$3" '{
        split($1, pair, "=")
        if (NR == 1) start = pair[2]
        if (pair[2] - start >= from && pair[2] - start < to) print
    }' "$work/$1/samples" >"$work/$1-$2/samples"
    awk -v from="$2" -v to="$3" 'NR == 1 || $1 > from && $1 <= to' "$work/$1/paced-long" >"$work/$1-$2/paced"
}

# in_one_machine KERNEL: the short form. The daemon comes at 100 s, the cold memory is read from
# 300 s on by the workload's clock, which is some seconds ahead, and the workload ends at 390 s.
in_one_machine() {
    run short "$1" vm/offload/short.sh 32 16 $cold_mib
    here=$work/short
    # The first minute is the workload's own, and shows nothing.
    part short 60 100
    part short 100 292
    part short 306 380
    look short-100
    precise short-100 short-60
    at_least "pages offloaded within 192 s" \
        $((($(field short-100 anon first) - $(field short-100 anon last)) / 4096)) $((cold * 80 / 100))

    # A period has passed since the change: nothing more is taken, though all of it comes back.
    at_most "phase change: pages taken" "$(grown short-306 pgsteal)" 0
    at_least "phase change: pages that came back" "$(returned short-306)" $((cold / 2))
    before=$(field short-60 current first)
    at_most "phase change: MiB in the end" $(($(field short-306 current last) / 1048576)) \
        $((before * 101 / 100 / 1048576))
    echo "phase change: $(($(field short-306 current last) / 1048576)) MiB, $((before / 1048576)) at first"

    for file in alive-before alive-after limit-kept; do
        [ -s "$here/$file" ] || fail "$file: no"
    done
    # What cannot be written to is left alone, with the reason, and holds up nobody.
    grep -q "r: left alone: memory.reclaim: .*[Rr]ead-only" "$here/agent" || fail "a read-only memory.reclaim was not told"
    grep -q '"path": "w"' "$here/status-again" || fail "a cgroup that came again was not found"
    [ ! -e "$here/not-ended" ] || fail "SIGTERM did not end the daemon"
    cmp -s "$here/limits-before" "$here/limits-ended" ||
        fail "after SIGTERM: $(diff "$here/limits-before" "$here/limits-ended" | tr '\n' ' ')"
    for with in 9 15; do left_nothing short "-$with"; done

    # Swap of 1 MiB: some is used, a tenth stays free but for the last request's surplus.
    grep -q '"guard": "no-room"' "$here/status-full" || fail "swap full: $(cat "$here/status-full")"
    at_least "swap full: bytes swapped" "$(cat "$here/swap-full")" 500000
    at_most "swap full: bytes swapped" "$(cat "$here/swap-full")" 1048576
}

if [ -n "$short" ]; then
    # The kernel comes from Debian's archive the first time.
    vm/kernel "${VM_KERNELS:-6.1}" >/dev/null || skip "no kernel could be fetched"
    in_one_machine "${VM_KERNELS:-6.1}"
    [ "$failed" = 0 ]
    exit
fi

# slow KERNEL: swap on a disk that answers 40 requests a second and is added after 20 s. In real
# time: what is measured depends on this host, what is asked for does not.
slow() {
    speed= disk=512M:40 memory=512M cold=$((64 * 256))
    run "slow-$1" "$1" vm/offload/slow.sh 16 8 64
    here=$work/slow-$1
    grep -q '"requests": 0' "$here/status-without" || fail "slow-$1: without swap: $(cat "$here/status-without")"
    at_least "slow-$1: pages taken once there is swap" "$(grown "slow-$1" pgsteal)" 200
    # Beyond what starting a program takes this host at that moment.
    at_most "slow-$1: longest answer in ms" \
        "$(awk '{ print $1 - $2 }' "$here/answers" | sort -n | tail -n 1)" 2000
    [ ! -e "$here/not-ended" ] || fail "slow-$1: SIGTERM did not end the daemon within 5 s"
    cmp -s "$here/limits-before" "$here/limits-after" || fail "slow-$1: limits differ"
    look "slow-$1"
    speed=--counted disk=1G memory=1G cold=$((cold_mib * 256))
}

# redis KERNEL: a Redis whose keys are asked for by Zipf's law. Hardly any page is cold for good, so
# that the daemon has to find out, and stop.
redis() {
    command -v redis-server >/dev/null 2>&1 || { echo "redis-$1: left out, there is no redis-server" >&2; return 0; }
    [ -x "$work/bin/skewed" ] || program skewed "" experiments --bin
    with="--program redis-server" memory=512M disk=512M
    run "redis-$1" "$1" vm/offload/redis.sh 40000 1024 100 400 CONFIG=/in/fast.toml
    with= memory=1G disk=1G
    echo "redis-$1: $(grown "redis-$1" pgsteal) pages taken, $(returned "redis-$1") came back"
    at_least "redis-$1: pages taken" "$(grown "redis-$1" pgsteal)" 64
    at_most "redis-$1: pages taken" "$(grown "redis-$1" pgsteal)" 4000
    at_most "redis-$1: pages that came back" "$(returned "redis-$1")" $(($(grown "redis-$1" pgsteal) / 2))
}

# many KERNEL NAME CONTAINERS MIB LIMIT: what the daemon costs itself, in counted time, where an
# instruction is a nanosecond: at most LIMIT us a second and container. A processor does three or
# four instructions in that time (docs/src/guide/offload.md), and the profile of tests takes more of them.
many() {
    with="--file vm/offload/many.toml --file vm/offload/taking.toml" memory=1536M
    run "$2-$1" "$1" vm/offload/many.sh "$3" "$4" "/in/$2.toml"
    with= memory=1G
    us=$(sed -n 's/ us of .*//p' "$work/$2-$1/cost")
    echo "$2-$1: $((us * 100 / 300 / $3)) hundredths of a us a second and container," \
        "$(sed -n 's/VmRSS:[^0-9]*//p' "$work/$2-$1/cost") resident"
    at_most "$2-$1: us of CPU time in 300 s" "$us" $((300 * $3 * $5))
    at_most "$2-$1: KiB resident" "$(sed -n 's/VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "$work/$2-$1/cost")" 20480
}

# taking KERNEL: the same of containers that give memory all the while.
taking() {
    many "$1" taking 64 13 12
    asked=$(sed -n 's/.*"requests": \([0-9]*\).*/\1/p' "$work/taking-$1/status" | sort -n | head -n 1)
    # Every 24 seconds, but for what the kernel took too much, which is worked off.
    at_least "taking-$1: requests to each container" "${asked:-0}" 6
}

# by_the_paper KERNEL: 0.0005 of the container each six seconds, threshold 0.1 %.
by_the_paper() {
    run "nothing-$1" "$1" vm/offload/guest.sh AGENT=none SECONDS=130
    with="--file vm/offload/paper.toml" limit=10000
    run "paper-$1" "$1" vm/offload/guest.sh AGENT=prairie CONFIG=/in/paper.toml SECONDS=9020 EVERY=60
    look "paper-$1"
    precise "paper-$1" "nothing-$1"
    at_least "paper-$1: pages offloaded within two hours and a half" \
        $((($(field "paper-$1" anon first) - $(field "paper-$1" anon last)) / 4096)) $((cold * 80 / 100))
}

if [ -n "$paper" ]; then
    for kernel in $kernels; do by_the_paper "$kernel"; done
    [ "$failed" = 0 ]
    exit
fi

for kernel in $kernels; do
    many "$kernel" many 200 0 15
    taking "$kernel"
    slow "$kernel"
    [ "$kernel" != 6.1 ] || redis "$kernel"
    run "nothing-$kernel" "$kernel" vm/offload/guest.sh AGENT=none SECONDS=130
    run "fast-$kernel" "$kernel" vm/offload/guest.sh AGENT=prairie SECONDS=620
    look "fast-$kernel"
    precise "fast-$kernel" "nothing-$kernel"
    at_least "fast-$kernel: pages offloaded" \
        $((($(field "fast-$kernel" anon first) - $(field "fast-$kernel" anon last)) / 4096)) $((cold * 80 / 100))

    run "killed-$kernel" "$kernel" vm/offload/guest.sh AGENT=prairie CONFIG=/in/device.toml SECONDS=40 EVERY=5 KILL_AT=15
    left_nothing "killed-$kernel"
    run "ended-$kernel" "$kernel" vm/offload/guest.sh AGENT=prairie CONFIG=/in/device.toml SECONDS=40 EVERY=5 KILL_AT=15 KILL_WITH=15
    left_nothing "ended-$kernel"

    # The cold memory is read within a minute, from the 420th second on.
    run "change-$kernel" "$kernel" vm/offload/guest.sh AGENT=prairie SECONDS=620 CHANGE_AT=420
    look "change-$kernel"
    echo "change-$kernel: at most $(($(field "change-$kernel" current most) / 1024)) KiB," \
        "$(($(field "change-$kernel" current first) / 1024)) at first"
    at_most "change-$kernel: KiB at most" $(($(field "change-$kernel" current most) / 1024)) \
        $(($(field "change-$kernel" current first) / 1024 * 1005 / 1000))
done

[ "$failed" = 0 ]
