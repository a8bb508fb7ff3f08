#!/bin/sh
# A service of gigabytes with and without `prairie offload`, in one emulated machine each.
#
# Usage: bench/offload-services.sh FOLDER
#
# redis       80,000 values of 16,000 bytes (1.5 GiB), of which 5,000 are requested by Zipf's law, and
#             others later
# redis-zipf  the same, all of them requested by Zipf's law: no memory is cold
# nginx       80,000 files of 16,000 bytes in the page cache, requested as in redis
# nginx-zipf  the same, requested as in redis-zipf
# postgres    a table of 80,000 values of 16,000 bytes, of which 32,000 are requested by Zipf's law, twice
#             the buffers of 256 MiB; 16,000 of them are others later
# postgres-zipf  the same, requested as in redis-zipf
#
# 200 requests a second, or 50 queries, arrive at random times for LENGTH seconds (900), and times count
# from the arrival. Other values are requested from 13/15 of that on, 780 s.
# Beside each runs a sidecar of 64 MiB, of which 48 are cold. 4 GiB, Linux 6.12, zswap with lz4 before
# persistent memory, time counted: runs repeat. SEEDS (1) decide arrivals and requests, the same without
# and with the daemon; SERVICES (redis redis-zipf) and AGENTS (none prairie) name what is run. The
# daemon has the cpu.weight of its unit, 1; prairie-unweighted has 100, as the service has.
# prairie-BACKEND-MICROSECONDSus swaps to a device that answers each request after that time, in memory
# of the machine; host free does not show what it saves. none-classic and prairie-classic use the classic
# lists in place of MGLRU. Needs Debian's redis-server, nginx, and postgresql.
# FOLDER keeps the output of the runs, each of which takes five to ten minutes of CPU time; a run that is there
# is not repeated. Prints a Markdown table.
set -eu
[ $# -ge 1 ] || { sed -n '4p' "$0" >&2; exit 2; }
mkdir -p "$1"
work=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
services=${SERVICES:-redis redis-zipf}
agents=${AGENTS:-none prairie}
seeds=${SEEDS:-1}
length=${LENGTH:-900}
shift=$((length * 13 / 15))
# Samples are taken every 50 s; the last before the shift.
late=$(((shift - 11) / 50 * 50))

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$work/bin"
for program in prairie paced open_loop; do
    [ ! -x "$work/bin/$program" ] || continue
    case $program in
    prairie) built=release/prairie what="-p prairie --bin prairie" ;;
    *) built=release/$program what="-p experiments --bin $program" ;;
    esac
    # shellcheck disable=SC2086 # lists of words
    cargo build --quiet --locked --release $what
    strip -o "$work/bin/$program" "$target/$built"
done

# run SERVICE AGENT SEED
run() {
    name=$1-$2-$3
    [ ! -s "$work/$name/times.gz" ] || return 0
    echo "== $name" >&2
    case $1 in
    redis*) needs="--program redis-server" ;;
    nginx*) needs="--program nginx --program mkfs.ext4 --file vm/offload/nginx.conf --pmem 2G --module ext4" ;;
    postgres*)
        folder=$(find /usr/lib/postgresql -mindepth 1 -maxdepth 1 2>/dev/null | sort -V | tail -n 1)
        [ -n "$folder" ] || { echo "prairie: bench/offload-services.sh: PostgreSQL is missing: install postgresql" >&2; exit 1; }
        needs="--program $folder/bin/postgres --program $folder/bin/initdb --program $folder/lib/plpgsql.so
            --program $folder/lib/dict_snowball.so --file /usr/share/postgresql/${folder##*/}:share-postgresql
            --file vm/offload/postgresql.conf --program mkfs.ext4 --pmem 3G --module ext4"
        ;;
    esac
    case $2 in *us) needs="$needs --module null_blk" ;; esac
    # shellcheck disable=SC2086 # options
    vm/run --kernel 6.12 --counted --memory 4G --pmem 2G --module nfit --module nd_pmem --module lz4 \
        $needs --timeout 9000 --file "$work/bin:bin" --program "$work/bin/prairie" \
        --file vm/offload/common.sh --file vm/offload/agents.sh --file vm/offload/service.toml \
        --out "$work/$name" vm/offload/service.sh "$1" "$3" \
        "AGENT=$2" "SECONDS=$length" "SHIFT=$shift" || echo "$name: ended with $?" >&2
}

for seed in $seeds; do
    for service in $services; do
        for agent in $agents; do run "$service" "$agent" "$seed"; done
    done
done

# percentiles NAME FROM TO: count, then p50, p99, and p99.9 in microseconds, of requests that arrived
# between two seconds.
percentiles() {
    zcat "$work/$1/times.gz" | awk -v from="$2" -v to="$3" '/^[0-9]/ && $1 >= from && $1 < to { print $2 }' |
        sort -n | awk '{ ns[NR] = $1 } END {
            printf "%d | %.1f | %.1f | %.1f", NR, ns[int(NR * 0.5) + 1] / 1000, ns[int(NR * 0.99) + 1] / 1000,
                ns[int(NR * 0.999) + 1] / 1000
        }'
}

# memory NAME: size at first, savings before the shift and at the end, the host's free memory before it,
# pages reclaimed, refaults until then and later, stall, CPU time of the service a second, of the agent
# in all, and of its own code.
memory() {
    awk -v late="$((late + 20))" '{
            for (i = 1; i <= NF; i++) { split($i, pair, "="); now[pair[1]] = pair[2] }
            if (NR == 1) for (key in now) first[key] = now[key]
            # The last sample is taken after the service has ended its work.
            if (now["at"] - first["at"] < late) for (key in now) before[key] = now[key]
            for (key in now) last[key] = now[key]
        }
        function back(a, b) {
            anon = b["workingset_refault_anon"] - a["workingset_refault_anon"]
            zswap = b["zswpin"] - a["zswpin"]
            file = b["workingset_refault_file"] - a["workingset_refault_file"]
            return (anon > zswap ? anon : zswap) + file
        }
        function saved(at) {
            share = 100 * (first["current"] - at["current"]) / first["current"]
            return share > -0.05 && share < 0 ? 0 : share
        }
        END {
            printf "%.0f | %.1f | %.1f | %.0f | %d | %d | %d | %.1f | %.2f | %.0f | %.0f", first["current"] / 1048576,
                saved(before), saved(last), before["free"] / 1024, last["pgsteal"] - first["pgsteal"],
                back(first, before), back(before, last),
                (last["stall"] - first["stall"]) / 1000,
                (before["cpu"] - first["cpu"]) / (before["at"] - first["at"]) / 1000,
                (last["agent"] - first["agent"]) / 1000, (last["agent_user"] - first["agent_user"]) / 1000
        }' "$work/$1/samples"
}

echo "| run | requests, 60 to $shift s | p50, µs | p99, µs | p99.9, µs | requests after $shift s | p50 after $shift s, µs | p99 after $shift s, µs | p99.9 after $shift s, µs | MiB at first | saved after $late s, % | saved after $length s, % | host free after $late s, MiB | pages reclaimed | refaulted within $late s | refaulted later | PSI stall, ms | service, ms a second | daemon with reclaim, ms | daemon alone, ms |"
echo "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
for service in $services; do
    for seed in $seeds; do
        for agent in $agents; do
            name=$service-$agent-$seed
            [ -s "$work/$name/times.gz" ] || continue
            echo "| $name | $(percentiles "$name" 60 "$shift") | $(percentiles "$name" "$shift" "$length") | $(memory "$name") |"
        done
    done
done
