#!/usr/bin/env python3
"""Counts pinned memory by source while a web server, Redis, a compiler, and io_uring run.

Usage: bench/pins.py PRAIRIE [SECONDS]

Runs `prairie survey --json` again and again during each workload and keeps the largest counts. The
last workload registers a buffer of 64 MiB with io_uring, so that the counter is seen to count. Needs
root, nginx, ab, redis-server, redis-benchmark, and cc; what is missing is named on standard error and
left out. Prints a table document (results/README.md).
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}

# Registers a buffer with raw system calls: no library is needed.
IO_URING = r"""
#include <linux/io_uring.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
int main(void) {
    struct io_uring_params setup = {0};
    int ring = syscall(SYS_io_uring_setup, 4, &setup);
    size_t size = 64 << 20;
    char *buffer = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(buffer, 1, size);
    struct iovec part = {buffer, size};
    if (ring < 0 || syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &part, 1)) return 1;
    pause();
}
"""


@contextlib.contextmanager
def running(*commands):
    """Runs commands, the first ones before the last, until the block ends."""
    started = []
    try:
        for command in commands:
            started.append(subprocess.Popen(command, **QUIET))
            time.sleep(1)
        yield
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()


def nginx(folder):
    with open(f"{folder}/page", "wb") as page:
        page.write(os.urandom(1 << 20))
    with open(f"{folder}/nginx.conf", "w", encoding="utf-8") as file:
        file.write(
            f"daemon off; worker_processes 2; pid {folder}/pid; error_log /dev/null;"
            "events {} http { access_log off; sendfile on;"
            f"server {{ listen 127.0.0.1:18080; root {folder}; }} }}"
        )
    os.chmod(folder, 0o755)
    load = ["ab", "-q", "-t", "600", "-n", "100000000", "-c", "16", "http://127.0.0.1:18080/page"]
    return [["nginx", "-c", f"{folder}/nginx.conf"], load]


def redis(folder):
    server = ["redis-server", "--port", "16379", "--save", "", "--dir", folder]
    load = ["redis-benchmark", "-p", "16379", "-l", "-d", "4096", "-r", "50000", "-t", "set,get,lpush"]
    return [server, load]


def compiler(folder):
    with open(f"{folder}/many.c", "w", encoding="utf-8") as file:
        file.writelines(f"int f{at}(int x) {{ return x * {at} + f{at - 1}(x); }}\n" for at in range(1, 4000))
    loop = f"while cc -w -O2 -c {folder}/many.c -o {folder}/many.o; do :; done"
    return [["setsid", "sh", "-c", loop]]


def io_uring(folder):
    with open(f"{folder}/pin.c", "w", encoding="utf-8") as file:
        file.write(IO_URING)
    subprocess.run(["cc", "-O1", "-o", f"{folder}/pin", f"{folder}/pin.c"], check=True)
    return [[f"{folder}/pin"]]


WORKLOADS = [
    ("idle", [], lambda folder: []),
    ("nginx, ab", ["nginx", "ab"], nginx),
    ("Redis, redis-benchmark", ["redis-server", "redis-benchmark"], redis),
    ("compiler", ["cc"], compiler),
    ("io_uring, 64 MiB registered", ["cc"], io_uring),
]


def count(prairie, seconds):
    """Largest counts of the surveys within `seconds`, in KiB, and the number of surveys."""
    end, largest, surveys = time.monotonic() + seconds, [0, 0, 0], 0
    while time.monotonic() < end or surveys == 0:
        text = subprocess.run([prairie, "survey", "--json"], check=True, capture_output=True).stdout
        pins = json.loads(text)["pins"]
        seen = [pins["foll_pin_frames"] * 4, pins["io_uring_bytes"] >> 10, pins["charged_bytes"] >> 10]
        largest = [max(pair) for pair in zip(largest, seen)]
        surveys += 1
    return largest, surveys


def main():
    prairie = sys.argv[1]
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 10
    rows = []
    for name, needed, make in WORKLOADS:
        missing = [program for program in needed if not shutil.which(program)]
        if missing:
            print(f"no {name}: {', '.join(missing)} missing", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory() as folder, running(*make(folder)):
            largest, surveys = count(prairie, seconds)
        rows.append([name, *largest, surveys])
    columns = ["workload", "all pins of user pages", "io_uring buffers", "charged otherwise (RDMA)"]
    columns = [{"name": columns[0]}] + [{"name": name, "unit": "KiB"} for name in columns[1:]]
    print(json.dumps({"columns": columns + [{"name": "surveys"}], "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
