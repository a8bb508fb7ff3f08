#!/bin/sh
# Contiguity and its price on real kernels: stock, the regions daemon, a naive loop, kernelcore=,
# and memory that the kernel's auto-movable policy put online. Usage: bench/regions-vm.sh FOLDER
#
# Prints table documents for `experiments` on standard output: the mixed load, and pipes at several
# rates, with LOADS=kinds kinds of unmovable memory, and with LOADS=rest what the daemon uses while nothing
# happens. LOADS=day runs the load of a day and prints nothing: `regions_day FOLDER` does. LOADS=compile
# (a build of Linux) leaves its results in FOLDER for `kernel/measure`. RUNS lists pairs KERNEL/AGENT;
# without it, each of VM_KERNELS runs with each of AGENTS. LOADS, RATES (MiB/s, or full), and HOURS select loads;
# SECONDS_EACH sets how long the mixed load and the build last. ROUNDS (3) repeats them and the pipes,
# agents in turn; rounds differ in when parts of the load begin. TABLE names the table of the mixed
# load, PIPES that of the pipes. MAKE_ROOM sets the daemon's `make_room`. CPUS (1) is the number of
# emulated CPUs. BLOCKS=2G gives the machine 12 GiB in memory blocks of 2 GiB.
#
# A run of which FOLDER has a result is not repeated; remove the folder to start again. PRAIRIE and
# KERNEL_LOAD name binaries to use. Time is counted and disks are persistent memory, so runs repeat
# whatever else the host does; each takes two to twenty minutes. On several CPUs time is the host's,
# so rounds differ. STOCK_KERNEL and CONTIGUITAS_KERNEL name folders that kernel/build printed: one to
# boot in place of Debian's kernels, and one for the agent contiguitas.
set -eu
cd "$(dirname "$0")/.."
folder=${1:?a folder for what the guests say}
mkdir -p "$folder/bin"
target=${CARGO_TARGET_DIR:-target}
. bench/vm-table.sh
strip -o "$folder/bin/prairie" "${PRAIRIE:-$target/release/prairie}"
strip -o "$folder/bin/kernel_load" "${KERNEL_LOAD:-$target/release/kernel_load}"
{
    cat vm/regions/measured.toml
    [ -z "${MAKE_ROOM:-}" ] || printf '\n[settings]\nmake_room = "%s"\n' "$MAKE_ROOM"
} >"$folder/measured.toml"

size="4 GiB, 256 MiB of it below 4 GiB" layout="--memory 4G --low 256M --pmem 4G"
case ${BLOCKS:-128M} in
128M) ;;
2G) size="12 GiB, 2 GiB of it below 4 GiB, in memory blocks of 2 GiB, nokaslr" layout="--memory 12G --low 2G --high --pmem 12G --append nokaslr" ;;
*) echo "bench/regions-vm.sh: BLOCKS=$BLOCKS: expected 128M or 2G" >&2; exit 2 ;;
esac
cpus=${CPUS:-1} time="one emulated CPU, counted time" clock=--counted
[ "$cpus" -eq 1 ] || time="$cpus emulated CPUs, time of the host" clock="--cpus $cpus"

# guest NAME KERNEL AGENT SCRIPT ARGUMENT...: one run in a machine of its own; $folder/NAME/result. $host has
# more options of vm/run.
guest() {
    out=$folder/$1 image=${STOCK_KERNEL:-$2} memory=$layout append=
    case $3 in
    contiguitas) image=${CONTIGUITAS_KERNEL:?a folder that kernel/build printed} ;;
    kernelcore) append="--append kernelcore=1G" ;;
    auto-movable)
        memory="--memory 1G --low 256M --plugged 3G --pmem 4G"
        append="--append memhp_default_state=online --append memory_hotplug.online_policy=auto-movable"
        ;;
    esac
    # Of two kernels that are built alike, each lies at the same address in all boots.
    case $image in */*) append="$append --append nokaslr" ;; esac
    shift 3
    [ ! -s "$out/result" ] || return 0
    # shellcheck disable=SC2086 # lists of words
    nice vm/run --kernel "$image" $clock $memory --timeout 6000 $append ${host:-} \
        --module ext4 --module nfit --module nd_pmem --program mke2fs --program "$folder/bin/prairie" --file "$folder/bin:bin" \
        --file vm/regions/common.sh --file vm/regions/agent.sh --file vm/regions/mixed-load.sh --file "$folder/measured.toml" \
        --file vm/regions/naive.sh --out "$out" "$@" >&2 || echo "$out: the guest ended with $?" >&2
    # A guest that complains did not do what was asked for.
    if [ -s "$out/failed" ]; then
        echo "$out: $(cat "$out/failed")" >&2
        rm -f "$out/result"
    fi
    [ -s "$out/result" ]
}

[ -n "${RUNS:-}" ] || for kernel in ${VM_KERNELS:-6.1 7.3}; do
    for agent in ${AGENTS:-stock daemon naive}; do RUNS="${RUNS:-} $kernel/$agent"; done
done
chosen() { case " ${LOADS:-mixed pipes} " in *" $1 "*) ;; *) return 1 ;; esac; }
# What a guest builds Linux with.
builder=
if chosen compile; then
    tree=$(kernel/build 6.12 --stock)/..
    [ -f "$folder/tree.img" ] || bench/kernel-tree.sh "$folder/tree.img" "$tree" >&2
    builder="--pmem $folder/tree.img --program $tree/tools/objtool/objtool"
    for program in make gcc as ld ar nm objcopy objdump "$(cc -print-prog-name=cc1)"; do
        builder="$builder --program $program"
    done
fi
rounds=$(seq "${ROUNDS:-3}") rates=${RATES:-40 200 full}
for round in $rounds; do
    for run in $RUNS; do
        kernel=${run%/*} agent=${run##*/}
        ! chosen mixed || guest "mixed-$kernel-$agent-$round" "$kernel" "$agent" \
            vm/regions/mixed.sh "$agent" "$round" "${SECONDS_EACH:-150}" || true
        ! chosen pipes || for rate in $rates; do
            guest "pipes$rate-$kernel-$agent-$round" "$kernel" "$agent" \
                vm/regions/pipes.sh "$agent" "$round" "$rate" 1200 || true
        done
        ! chosen compile || host=$builder guest "compile-$kernel-$agent-$round" "$kernel" "$agent" \
            vm/regions/compile.sh "$agent" "$round" "${SECONDS_EACH:-120}" || true
    done
done
mixed= pipes= kinds= rest=
for run in $RUNS; do
    kernel=${run%/*} agent=${run##*/}
    if chosen mixed; then
        cells="clean_32m%areas_32m clean_2m%areas_2m hugetlb_2m after_2m hugetlb_1g psi_us/1000000 oom stalls to_kernel to_movable own_cpu_ppm/10000 cpu_ppm/10000 rss_kib/1024"
        mixed="$mixed${mixed:+, }[\"$kernel\", $(row "mixed-$kernel-$agent" "agent $cells")]"
    fi
    ! chosen pipes || for rate in $rates; do
        cells="rate least_free_mib oom failed stalls user_stalls worst_us/1000 psi_us/1000000 filled_ms/1000 grown returned returned_later"
        pipes="$pipes${pipes:+, }[\"$kernel\", $(row "pipes$rate-$kernel-$agent" "agent $cells")]"
    done
    if chosen rest && guest "rest-$kernel-$agent" "$kernel" "$agent" vm/regions/cost.sh "$agent" 300; then
        cells="seconds own_cpu_ppm/10000 cpu_ppm/10000 samples glances blocks_read rss_kib/1024"
        rest="$rest${rest:+, }[\"$kernel\", $(row "rest-$kernel-$agent" "agent $cells")]"
    fi
    ! chosen kinds || guest "kinds-$kernel-$agent" "$kernel" "$agent" vm/regions/kinds.sh "$agent" || true
    ! chosen day || guest "day-$kernel-$agent" "$kernel" "$agent" vm/regions/day.sh "$agent" "${HOURS:-6}" || true
done
# Of one kernel: the last of the runs.
! chosen kinds || kinds=$(kind_rows "$kernel" "$(for run in $RUNS; do echo "${run##*/}"; done)" \
    "with_clean_32m%with_areas_32m with_clean_2m%with_areas_2m with_hugetlb_1g after_hugetlb_1g psi_us/1000000 oom stalls user_stalls with_movable after_movable after_clean_32m%after_areas_32m")
[ -n "$mixed$pipes$kinds$rest" ] || exit 0
note="$size, $time."
[ "${ROUNDS:-3}" -eq 1 ] || note="$note Medians, with the least and the most of ${ROUNDS:-3} rounds where they differ."
cat <<END
{
  "name": "${TABLE:-regions-mixed}",
  "columns": [{"name": "kernel"}, {"name": "agent"}, {"name": "32 MiB areas without unmovable frames", "unit": "%"},
    {"name": "2 MiB areas", "unit": "%"}, {"name": "2 MiB pages under load"}, {"name": "after it"}, {"name": "1 GiB pages after it"},
    {"name": "PSI some", "unit": "s"}, {"name": "OOM kills"}, {"name": "kernel requests stalled"},
    {"name": "to kernel"}, {"name": "to movable"}, {"name": "loop", "unit": "% of a CPU"},
    {"name": "with conversions", "unit": "% of a CPU"}, {"name": "resident", "unit": "MiB"}],
  "rows": [$mixed],
  "rounds": "${ROUNDS:-3}",
  "notes": ["$note"]
}
{
  "name": "${PIPES:-regions-pipes}",
  "columns": [{"name": "kernel"}, {"name": "agent"}, {"name": "MiB/s"}, {"name": "least free", "unit": "MiB"},
    {"name": "OOM kills"}, {"name": "failed requests"}, {"name": "kernel requests stalled"},
    {"name": "user requests stalled"}, {"name": "longest write of 64 KiB", "unit": "ms"},
    {"name": "PSI some", "unit": "s"}, {"name": "filled in", "unit": "s"}, {"name": "blocks grown"},
    {"name": "returned in 2.5 min"}, {"name": "in 22.5 min"}],
  "rows": [$pipes],
  "rounds": "${ROUNDS:-3}",
  "notes": ["$note"]
}
{
  "name": "regions-kinds",
  "columns": [{"name": "load"}, {"name": "agent"}, {"name": "32 MiB areas without unmovable frames", "unit": "%"},
    {"name": "2 MiB areas", "unit": "%"}, {"name": "1 GiB pages beside it"}, {"name": "after it"},
    {"name": "PSI some", "unit": "s"}, {"name": "OOM kills"}, {"name": "kernel requests stalled"},
    {"name": "user requests stalled"}, {"name": "movable blocks beside it"}, {"name": "a minute after"},
    {"name": "32 MiB areas a minute after", "unit": "%"}],
  "rows": [$kinds],
  "rounds": "1",
  "notes": ["$size, $time."]
}
{
  "name": "regions-rest",
  "columns": [{"name": "kernel"}, {"name": "agent"}, {"name": "seconds"}, {"name": "loop", "unit": "% of a CPU"},
    {"name": "all threads", "unit": "% of a CPU"}, {"name": "samples"}, {"name": "glances"},
    {"name": "blocks read"}, {"name": "resident", "unit": "MiB"}],
  "rows": [$rest],
  "rounds": "1",
  "notes": ["$size, $time."]
}
END
