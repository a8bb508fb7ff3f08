#!/bin/sh
# What the machine does while data/mixed.parquet is recorded: see data/README.md.
#
#   workload.sh prepare TARBALL DIR   unpacks a part of a kernel source tree, once, unrecorded
#   workload.sh run DIR               the work itself
set -eu

prepare() {
    tarball=$1 dir=$2
    mkdir -p "$dir/whole"
    tar xf "$tarball" -C "$dir/whole" --strip-components=1 --wildcards \
        '*/fs' '*/mm' '*/kernel' '*/lib' '*/include/linux'
    tar cf "$dir/tree.tar" -C "$dir/whole" .
    rm -rf "$dir/whole"
}

# Many small files: page cache, inodes and directory entries. Every second file goes again.
unpack() {
    mkdir "$2/tree"
    tar xf "$1/tree.tar" -C "$2/tree"
    find "$2/tree" -type f | awk 'NR % 2' | xargs rm
}

# The page cache, searched and streamed.
search() {
    find "$1/tree" -type f -name '*.c' -print0 | xargs -0 grep -l spin_lock | wc -l
    tar cf "$1/copy.tar" -C "$1/tree" .
    dd if=/dev/zero of="$1/stream" bs=1M count=600 2>/dev/null
    cat "$1/copy.tar" "$1/stream" >"$1/both"
    rm "$1/stream"
}

# Short processes with page tables and stacks of their own.
processes() {
    i=0
    while [ $i -lt 100 ]; do
        echo $i | sed s/1/2/ >/dev/null
        i=$((i + 1))
    done
}

# A compiler, twice at a time.
compile() {
    for i in 1 2 3 4; do
        {
            echo '#include <stdio.h>'
            j=0
            while [ $j -lt 400 ]; do
                echo "int f$j(int a, char *b) { return a * $j + b[a % 7] + printf(\"%d\", a); }"
                j=$((j + 1))
            done
        } >"$1/part$i.c"
    done
    ls "$1"/part*.c | xargs -P 2 -n 1 gcc -O1 -c -o /dev/null
}

# A database: one file written again and again, a journal created and deleted.
database() {
    sqlite3 "$1/base.db" "PRAGMA synchronous = OFF; CREATE TABLE t (a INTEGER PRIMARY KEY, b);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
        INSERT INTO t SELECT i, hex(randomblob(40)) FROM n;"
    sqlite3 "$1/base.db" "PRAGMA synchronous = OFF; UPDATE t SET b = b || 'x' WHERE a % 3 = 0;
        CREATE INDEX i ON t (b); DELETE FROM t WHERE a % 5 = 0; SELECT count(*) FROM t;"
}

# Huge pages, of which every second one is given back, and 300 connections with data in flight,
# held while others work.
memory_and_network() {
    /usr/bin/python3 - <<'PYTHON'
import mmap, socket, threading, time

HUGE = 2 << 20
memory = mmap.mmap(-1, 3 << 30)
memory.madvise(mmap.MADV_HUGEPAGE)
for at in range(0, len(memory), HUGE):
    memory[at] = 1
for at in range(0, len(memory), 2 * HUGE):
    memory.madvise(mmap.MADV_DONTNEED, at, HUGE)

server = socket.create_server(("127.0.0.1", 0), backlog=512)
def serve():
    while True:
        connection, _ = server.accept()
        kept.append(connection)
        connection.sendall(bytes(64 << 10))
kept = []
threading.Thread(target=serve, daemon=True).start()
clients = []
for _ in range(300):
    client = socket.create_connection(server.getsockname())
    clients.append(client)
    if len(clients) % 3:
        client.recv(16 << 10)
for client in clients[::2]:
    client.close()
time.sleep(10)
PYTHON
}

# A round of everything; the last tree goes when the next is there.
round() {
    dir=$1/$2
    mkdir -p "$dir"
    unpack "$1" "$dir"
    rm -rf "$1/$(($2 - 1))"
    processes
    memory_and_network &
    compile "$dir"
    search "$dir"
    database "$dir"
    wait
}

run() {
    round "$1" 1
    round "$1" 2
    round "$1" 3
    rm -rf "$1/3"
}

"$@"
