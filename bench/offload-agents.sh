#!/bin/sh
# The offloader beside the published formula, senpai.py and DAMON, in one emulated machine each.
#
# Usage: bench/offload-agents.sh FOLDER [SENPAI.PY]
#
# LOAD=paced (the default) is the workload of vm/tests/offload.sh: 128 MiB touched every second,
# 64 MiB every minute, 256 MiB written once, which turn warm in a second set of runs at 420 s unless
# CHANGE=no. LOAD=zipf is a Redis with 100,000 values of 1 KiB, of which 100 a second are requested by
# Zipf's law. zswap with zstd. Time is counted, so runs repeat; each takes one to five minutes.
# VM_KERNELS names the kernels, AGENTS the agents; vm/offload/agents.sh explains the names of DAMON's.
# senpai.py is Meta's, and not part of this: fetch it, and give its path (needs Debian's python3.11).
# FOLDER keeps the output of the runs; a run that is there is not repeated. Then Markdown tables are
# printed. LOAD=paced: the agents, with the best setting of DAMOS and of DAMON_RECLAIM, and all settings.
set -eu
[ $# -ge 1 ] || { sed -n '4p' "$0" >&2; exit 2; }
mkdir -p "$1"
work=$(cd "$1" && pwd)
senpai=${2:-}
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$work/bin"
for program in prairie paced published skewed; do
    [ ! -x "$work/bin/$program" ] || continue
    case $program in
    prairie) built=release/prairie what="-p prairie --bin prairie" ;;
    *) built=release/$program what="-p experiments --bin $program" ;;
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
    case ${LOAD:-paced} in
    paced) guest=vm/offload/guest.sh with= ;;
    zipf) guest="vm/offload/redis.sh 100000 1024 100 600" with="--program redis-server" ;;
    *) echo "bench/offload-agents.sh: LOAD=$LOAD: expected paced or zipf" >&2; exit 2 ;;
    esac
    # shellcheck disable=SC2086 # lists of words
    nice vm/run --kernel "$kernel" --counted --memory 1G --disk 1G --timeout 3000 \
        --file "$work/bin:bin" --program "$work/bin/prairie" --file vm/offload/offload.toml --file vm/offload/paper.toml \
        --file vm/offload/common.sh --file vm/offload/agents.sh \
        $modules $with --out "$work/$name" $guest "$@" || echo "$name: ended with $?" >&2
}

agents="none prairie prairie-default published-0.0005 published-0.005"
[ -z "$senpai" ] || agents="$agents senpai"
for kernel in ${VM_KERNELS:-6.1 6.12}; do
    for agent in ${AGENTS:-$agents}; do
        run "$agent-$kernel" "$kernel" "AGENT=$agent" SECONDS=600
    done
    [ "${LOAD:-paced}${CHANGE:-}" = paced ] || continue
    for agent in ${AGENTS:-none prairie published-0.005}; do
        case $agent in none | prairie | published-0.005) ;; *) continue ;; esac
        run "$agent-$kernel-change" "$kernel" "AGENT=$agent" SECONDS=620 CHANGE_AT=420
    done
done

# measure NAME: what a run shows, between tabs, in the order of the tables' columns.
measure() {
    awk -v name="$1" -v paced="$work/$1/paced" -v zipf="${LOAD:-paced}" '
        # The worst ten seconds after the first minute.
        function worst(column,   line, fields, most) {
            while ((getline line <paced) > 0) {
                split(line, fields, "\t")
                if (fields[1] + 0 > 60 && fields[column] + 0 > most) most = fields[column] + 0
            }
            close(paced)
            return most / 1000
        }
        # The median of all ten seconds after the first minute.
        function median(column,   line, fields, count, at, values) {
            while ((getline line <paced) > 0) {
                split(line, fields, "\t")
                if (fields[1] + 0 <= 60) continue
                for (at = ++count; at > 1 && values[at - 1] > fields[column] + 0; at--) values[at] = values[at - 1]
                values[at] = fields[column] + 0
            }
            close(paced)
            return values[int((count + 1) / 2)] / 1000
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
            # DAMON reclaims without being counted in pgsteal.
            gone = grown("pgsteal")
            if (grown("zswpout") > gone) gone = grown("zswpout")
            back = grown("workingset_refault_anon")
            if (grown("zswpin") > back) back = grown("zswpin")
            # Linux 6.17 and later have a monitor of their own, which ends when an agent starts.
            monitored = grown("kdamond")
            if (monitored < 0) monitored = 0
            printf "%s\t%.1f\t%.1f\t%.1f\t%d\t%d\t%s\t%d\t%.0f\t", name, saved[1], saved[2], saved[3], gone, back,
                gone ? sprintf("%.1f", 100 * back / gone) : "", grown("pgmajfault"), grown("stall") / 1000
            if (zipf == "zipf") printf "%.1f\t%.1f\t%.1f\t%.1f\t", median(2), median(3), median(4), worst(3)
            else printf "%.1f\t%.1f\t", worst(4), worst(8)
            printf "%.0f\t%d\n", grown("agent") / 1000, monitored
        }' "$work/$1/samples"
}

# all: a line for each run, by kernel and agent.
all() {
    for kernel in 6.1 6.12 6.18; do
        for agent in none prairie-default prairie 'published-*' senpai 'damos-*' 'damon_reclaim-*'; do
            for kind in "$kernel" "$kernel-change"; do
                # shellcheck disable=SC2086 # a pattern
                for samples in "$work"/$agent-$kind/samples; do
                    [ ! -s "$samples" ] || measure "$(basename "$(dirname "$samples")")"
                done
            done
        done
    done
}

# table: the lines as Markdown.
table() {
    columns="run | MiB saved after 100 s | 280 s | 580 s | pages reclaimed | refaulted | refaulted, % | major faults | PSI stall, ms"
    case ${LOAD:-paced} in
    zipf) columns="$columns | request p50, µs | p99, µs | p99.9, µs | worst p99, µs" ;;
    *) columns="$columns | hot p99.9, µs | warm p99, µs" ;;
    esac
    columns="$columns | agent, ms | kdamond, ms"
    echo "| $columns |"
    echo "| $columns |" | sed 's/[^|]*[^|]/ --- /g'
    sed 's/\t/ | /g; s/.*/| & |/; s/|  |/| |/g'
}

# best: of all settings of DAMOS on a kernel, and of all of DAMON_RECLAIM, the one that saves most in
# the end while fewer than 2 % of the reclaimed pages refault; without such a one, the one of which the
# smallest share refaults. Other lines stay.
best() {
    awk -F '\t' '
        $1 !~ /^damo/ { lines[++count] = $0; next }
        {
            kernel = $1
            sub(/.*-/, "", kernel)
            group = ($1 ~ /^damos/ ? "damos" : "damon_reclaim") "-" kernel
            if (!(group in tried)) lines[++count] = group
            tried[group]++
            value = $7 + 0 < 2 ? 1000 + $4 : -$7
            if (tried[group] == 1 || value > most[group]) { most[group] = value; chosen[group] = $0 }
        }
        END {
            for (i = 1; i <= count; i++) {
                if (!(lines[i] in tried)) { print lines[i]; continue }
                name = chosen[lines[i]]
                sub(/\t.*/, "", name)
                rest = substr(chosen[lines[i]], length(name) + 1)
                print name (tried[lines[i]] > 1 ? ", best of " tried[lines[i]] : "") rest
            }
        }'
}

if [ "${LOAD:-paced}" = zipf ]; then
    all | table
else
    all | best | table
    echo
    all | grep ^damo | table
fi
