#!/bin/sh
# The offloader beside the published formula, senpai.py and DAMON, in one emulated machine each.
#
# Usage: bench/offload-agents.sh FOLDER [SENPAI.PY]
#
# The workload is that of vm/tests/offload.sh: 128 MiB touched every second, 64 MiB every minute,
# 256 MiB written once, which turn warm in a second set of runs at 420 s. zswap with zstd. Time is
# counted, so runs repeat; each takes two to five minutes. senpai.py is Meta's, and not part of
# this: fetch it, and give its path (needs Debian's python3.11). VM_KERNELS names the kernels, AGENTS
# the agents.
# FOLDER keeps the output of the runs; a run that is there is not repeated. Then a Markdown table is
# printed.
set -eu
[ $# -ge 1 ] || { sed -n '4p' "$0" >&2; exit 2; }
mkdir -p "$1"
work=$(cd "$1" && pwd)
senpai=${2:-}
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$work/bin"
for program in prairie paced published; do
    [ ! -x "$work/bin/$program" ] || continue
    case $program in
    prairie) built=release/prairie what="-p prairie --bin prairie" ;;
    *) built=release/examples/$program what="-p prairie-offload --example $program" ;;
    esac
    # shellcheck disable=SC2086 # lists of words
    cargo build --quiet --locked --release $what
    strip -o "$work/bin/$program" "$target/$built"
done
if [ -n "$senpai" ] && [ ! -d "$work/python" ]; then
    mkdir -p "$work/python/lib"
    cp -r /usr/lib/python3.11 "$work/python/lib/python3.11"
    (cd "$work/python/lib/python3.11" && rm -rf test idlelib lib2to3 tkinter pydoc_data ensurepip \
        distutils config-* dist-packages && find . -name __pycache__ -prune -exec rm -rf {} +)
fi

# run NAME KERNEL SETTING...
run() {
    name=$1 kernel=$2
    shift 2
    [ ! -s "$work/$name/samples" ] || return 0
    echo "== $name" >&2
    modules="--module zstd"
    [ "$kernel" != 6.1 ] || modules="--module zsmalloc --module zstd"
    case $name in *senpai*) modules="$modules --file $senpai --file $work/python --program /usr/bin/python3.11" ;; esac
    # shellcheck disable=SC2086 # lists of words
    vm/run --kernel "$kernel" --counted --memory 1G --disk 1G --timeout 3000 \
        --file "$work/bin:bin" --program "$work/bin/prairie" --file vm/offload/offload.toml --file vm/offload/common.sh \
        $modules --out "$work/$name" vm/offload/guest.sh "$@" || echo "$name: ended with $?" >&2
}

agents="none prairie published-0.0005 published-0.005"
[ -z "$senpai" ] || agents="$agents senpai"
for kernel in ${VM_KERNELS:-6.1 6.12}; do
    both=$agents
    [ "$kernel" = 6.1 ] || both="$agents damos damon_reclaim"
    for agent in ${AGENTS:-$both}; do
        ratio=${agent#published-}
        run "$agent-$kernel" "$kernel" "AGENT=${agent%-*}" "RATIO=$ratio" SECONDS=600
    done
    for agent in ${AGENTS:-none prairie published-0.005}; do
        case $agent in none | prairie | published-0.005) ;; *) continue ;; esac
        ratio=${agent#published-}
        run "$agent-$kernel-change" "$kernel" "AGENT=${agent%-*}" "RATIO=$ratio" SECONDS=620 CHANGE_AT=420
    done
done

# A line for each run: MiB saved at 100, 280 and 580 s, pages taken and returned, and so on.
echo "| run | MiB saved after 100 s | 280 s | 580 s | pages reclaimed | refaulted | major faults | PSI stall, ms | hot p99.9, µs | warm p99, µs | agent, ms | kdamond, ms |"
echo "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
for samples in "$work"/*/samples; do
    name=$(basename "$(dirname "$samples")")
    awk -v name="$name" -v paced="$(dirname "$samples")/paced" '
        function worst(column,   line, fields, most) {
            while ((getline line <paced) > 0) {
                split(line, fields, "\t")
                if (fields[1] + 0 > 60 && fields[column] + 0 > most) most = fields[column] + 0
            }
            close(paced)
            return most / 1000
        }
        {
            for (i = 1; i <= NF; i++) { split($i, pair, "="); now[pair[1]] = pair[2] }
            if (NR == 1) for (key in now) first[key] = now[key]
            if (now["anon"] < 1048576) exit
            for (key in now) last[key] = now[key]
            passed = now["at"] - first["at"]
            split("100 280 580", wanted, " ")
            for (k = 1; k <= 3; k++) if (passed <= wanted[k] + 8) saved[k] = (first["current"] - now["current"]) / 1048576
        }
        function grown(key) { return last[key] - first[key] }
        END {
            back = grown("workingset_refault_anon")
            if (grown("zswpin") > back) back = grown("zswpin")
            printf "| %s | %.1f | %.1f | %.1f | %d | %d | %d | %.0f | %.1f | %.1f | %.0f | %d |\n", name, saved[1], saved[2],
                saved[3], grown("pgsteal"), back, grown("pgmajfault"), grown("stall") / 1000, worst(4), worst(8),
                grown("agent") / 1000, grown("kdamond")
        }' "$samples"
done
