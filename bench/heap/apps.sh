#!/bin/bash
# Compares the heap with other allocators under whole programs: CPU and wall time, peak memory.
# Usage: [HEAP_LIBRARY=…] [PEERS_FOLDER=…] [ALLOCATORS="name=/path/lib.so …"] bench/heap/apps.sh [--json FILE] [ROUNDS [PROGRAM…]]
#
# Programs that are not installed are left out, with a message. All run interleaved, each after warm.c; cells are medians, and
# behind CPU time the spread of the rounds. Memory is the peak of the largest process.
set -euo pipefail
started=$(date +%s)
command="$0 $*"
json=
if [ "${1:-}" = --json ]; then json=$2; shift 2; fi
cd "$(dirname "$0")/../.."
root=$PWD
rounds=${1:-5}
[ $# -eq 0 ] || shift
target=${CARGO_TARGET_DIR:-$root/target}
heap=${HEAP_LIBRARY:-$target/release/libprairie_heap.so}
[ -n "${HEAP_LIBRARY:-}" ] || cargo build --release --quiet -p prairie-heap-preload
heap=$(realpath "$heap")
# shellcheck disable=SC2046,SC2086
allocators=$(echo "prairie=$heap" $(bench/heap/peers.sh ${PEERS_FOLDER:-}) ${ALLOCATORS:-})
setting() { case $1 in *,*) echo "${1#*,}" ;; *) echo UNUSED= ;; esac; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

declare -A needs=([python]=python3 [gcc]=gcc [rustfmt]=rustfmt [sqlite]=sqlite3 [memcached]=memcached
    [threads]=cc)
programs=${*:-python gcc rustfmt sqlite memcached threads}

cat >"$work/trees.py" <<'PY'
import json, random
random.seed(1)
tables = [{str(i): [i, str(i) * 3, {"a": i}] for i in range(3000)} for _ in range(8)]
for _ in range(4):
    text = json.dumps(tables)
    tables = json.loads(text)
    random.shuffle(tables)
words = {}
for i in range(400000):
    words.setdefault("w%d" % random.randrange(100000), []).append(i)
PY
# A C file of some size: a table of functions.
awk 'BEGIN { for (i = 0; i < 3000; i++) printf "int f%d(int a, int *p) { int s = 0; for (int i = 0; i < a; i++) s += p[i] * %d + (s >> %d); return s; }\n", i, i, i % 7 + 1 }' >"$work/table.c"
# A Rust file of some size, to be parsed and formatted: rustc itself defines malloc in its executable
# (jemalloc's), which no preloaded library replaces.
awk 'BEGIN { for (i = 0; i < 2500; i++) printf "#[derive(Clone, Debug, Default)]\npub struct S%d { a: Vec<u32>, b: String, c: Option<Box<S%d>> }\nimpl S%d { pub fn f(&self) -> usize { self.a.iter().map(|x| *x as usize * %d).sum::<usize>() + self.b.len() } }\n", i, i ? i - 1 : 0, i, i }' >"$work/crate.rs"
cc -O2 -o "$work/server" bench/heap/server.c -lpthread
cat >"$work/load.sql" <<'SQL'
CREATE TABLE t (id INTEGER PRIMARY KEY, k TEXT, v TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
INSERT INTO t SELECT i, 'key' || (i * 7919 % 200003), json_object('a', i, 'b', json_array(i, i * 2)) FROM n;
CREATE INDEX k ON t (k);
SELECT sum(json_extract(v, '$.b[1]')) FROM t WHERE k > 'key5';
SELECT count(*) FROM (SELECT k, group_concat(v) FROM t GROUP BY substr(k, 1, 6));
SQL
cat >"$work/memcached.py" <<'PY'
import random, socket, sys
random.seed(2)
server = socket.socket(socket.AF_UNIX); server.connect(sys.argv[1])
stream = server.makefile("rwb")
for turn in range(600):
    batch = [(b"k%d" % random.randrange(100000), random.randrange(20, 4000)) for _ in range(100)]
    for key, size in batch:
        stream.write(b"set %s 0 0 %d noreply\r\n%s\r\n" % (key, size, b"x" * size))
    stream.write(b"version\r\n"); stream.flush(); stream.readline()
stream.write(b"shutdown\r\n"); stream.flush()
PY

cc -O1 -o "$work/warm" bench/heap/warm.c

program() {
    case $1 in
    python) python3 "$work/trees.py" ;;
    gcc) gcc -O2 -c -o "$work/table.o" "$work/table.c" ;;
    rustfmt) rustfmt --edition 2021 --emit stdout "$work/crate.rs" >/dev/null ;;
    sqlite) sqlite3 :memory: <"$work/load.sql" >/dev/null ;;
    memcached)
        rm -f "$work/socket"
        memcached -u "$(id -un)" -s "$work/socket" -A -m 512 -t 2 &
        until [ -S "$work/socket" ]; do sleep 0.05; done
        # Nobody waits for the client, so its CPU time is not counted.
        (LD_PRELOAD= python3 "$work/memcached.py" "$work/socket" &)
        wait
        ;;
    threads) "$work/server" >/dev/null ;;
    esac
}
export -f program
export work root

present=
for name in $programs; do
    if command -v "${needs[$name]}" >/dev/null; then present="$present $name"; else
        echo "$name is left out: ${needs[$name]} is not installed" >&2
    fi
done
cat >"$work/measure.py" <<'PY'
import os, resource, subprocess, sys, time
library, name = sys.argv[1:]
start = time.monotonic()
status = subprocess.run(["bash", "-c", "set -e; export LD_PRELOAD=$0; program $1", library, name]).returncode
wall = time.monotonic() - start
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
if status: sys.exit(f"{name} failed under {library or 'glibc'}")
print(f"{usage.ru_utime + usage.ru_stime:.3f} {wall:.3f} {usage.ru_maxrss}")
PY
for round in $(seq "$rounds"); do
    for name in $present; do
        for allocator in $allocators; do
            "$work/warm" 768
            spec=${allocator#*=}
            numbers=$(env "$(setting "$spec")" python3 "$work/measure.py" "${spec%%,*}" "$name")
            echo "$name ${allocator%%=*} $numbers" >>"$work/results"
        done
    done
    # Another one is first in each round.
    first=${allocators%% *}
    allocators="${allocators#* } $first"
    echo "round $round of $rounds" >&2
done
thp="THP $(sed 's/.*\[\(.*\)\].*/\1/' /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null || echo unknown)"
bench/heap/report.py "$work/results" --name heap-apps --json "$json" --command "$command" \
    --started "$started" --columns "CPU:s,wall:s,memory:peak KiB" --means CPU,memory --note "$thp"
