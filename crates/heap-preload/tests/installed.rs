//! Whole programs on the heap: those of this machine that are installed, and those that link it.
//!
//! What is not installed is said to be skipped. `make heap-test` runs more of them, for minutes.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{NO_RSEQ, library, messages, preloaded, same_as_plain, traps};

#[test]
fn git_checks_this_repository() {
    same_as_plain(concat!("git -C ", env!("CARGO_MANIFEST_DIR"), " log --stat -n 20"));
}

#[test]
fn gcc_compiles_the_traps() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/traps.c");
    same_as_plain(&format!("gcc -O2 -w -S -o - {source} | cksum"));
}

#[test]
fn python_uses_threads_processes_and_ctypes() {
    same_as_plain(
        "python3 -c '
import threading, subprocess, ctypes, json, zlib, os, multiprocessing
table = {str(i): [i] * (i % 50) for i in range(20000)}
assert json.loads(json.dumps(table)) == table
threads = [threading.Thread(target=lambda: zlib.compress(os.urandom(300000))) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(subprocess.run([\"echo\", \"child\"], capture_output=True).stdout)
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
for size in range(1, 5000, 7):
    libc.free(ctypes.c_void_p(libc.malloc(size)))
with multiprocessing.Pool(2) as pool:
    print(sum(pool.map(abs, range(-1000, 0))))
'",
    );
}

#[test]
fn redis_serves_its_benchmark() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let socket = folder.join(format!("redis-{}.sock", std::process::id()));
    let server = preloaded("redis-server", &[])
        .args(["--port", "0", "--save", "", "--appendonly", "no", "--dir"])
        .arg(folder)
        .arg("--unixsocket")
        .arg(&socket)
        .stdout(Stdio::null())
        .spawn();
    let Ok(mut server) = server else {
        prairie_testing::skip("redis-server is not installed");
        return;
    };
    let cli = |arguments: &str| {
        let command = format!("redis-cli -s {} {arguments}", socket.display());
        Command::new("sh").args(["-c", &command]).output().unwrap()
    };
    let ready = (0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        cli("ping").stdout.starts_with(b"PONG")
    });
    assert!(ready, "redis does not answer");
    let load = format!("redis-benchmark -s {} -n 20000 -P 16 -q", socket.display());
    let output = Command::new("sh")
        .args(["-c", &format!("{load} -r 100000 -t set,get,lpush,lrange_100,mset")])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", messages(&output));
    // A snapshot is written by a forked child.
    assert!(cli("debug reload").status.success());
    assert!(cli("bgsave").status.success());
    assert!(cli("flushall").stdout.starts_with(b"OK"));
    assert!(cli("shutdown nosave").status.success());
    assert!(server.wait().unwrap().success());
}

#[test]
fn node_uses_workers_and_buffers() {
    same_as_plain(
        "node -e '
const { Worker } = require(\"worker_threads\"), zlib = require(\"zlib\");
const table = Object.fromEntries([...Array(20000).keys()].map(i => [i, Array(i % 50).fill(i)]));
const text = JSON.stringify(table);
if (JSON.stringify(JSON.parse(text)) !== text) throw 1;
console.log(zlib.inflateSync(zlib.deflateSync(Buffer.from(text))).length);
const work = \"let s = 0; for (let i = 0; i < 1e5; i++) s += Buffer.from([i % 7]).length;\";
let left = 4;
for (let i = 0; i < 4; i++) new Worker(work, { eval: true }).on(\"exit\", c => {
    if (c !== 0) throw c;
    if (--left === 0) console.log(\"done\");
});
'",
    );
}

/// valgrind hides the vDSO from a program and shows it another process's auxiliary vector.
#[test]
fn valgrind_runs_a_program() {
    same_as_plain("valgrind -q --tool=none date -u -d @0");
}

/// Lists, dictionaries, threads and ctypes as CPython tests them itself.
#[test]
fn python_passes_its_own_tests() {
    let mut python = preloaded("python3", &[]);
    python.args(["-m", "test", "-q", "test_list", "test_dict", "test_thread", "test_ctypes"]);
    let Ok(listed) = Command::new("python3").args(["-m", "test", "--list-tests"]).output() else {
        prairie_testing::skip_without("python3");
        return;
    };
    if !String::from_utf8_lossy(&listed.stdout).contains("test_list") {
        prairie_testing::skip_without("CPython's test suite (Debian: libpython3-testsuite)");
        return;
    }
    let output = python.output().unwrap();
    assert!(output.status.success(), "{}", messages(&output));
}

/// A cluster is made, filled and asked by four clients, all of it on the heap.
#[test]
fn postgres_makes_a_cluster_and_serves_pgbench() {
    let script = r#"
        cp "$1" "$dir/heap.so"
        chmod 755 "$dir/heap.so"
        as="$as env LD_PRELOAD=$dir/heap.so"
        $as "$bin/initdb" -D "$dir/data" --no-sync -A trust -U postgres
        $as "$bin/pg_ctl" -D "$dir/data" -w -l "$dir/log" -o "-F -k $dir -c listen_addresses=" start
        grep -q heap.so "/proc/$(head -n 1 "$dir/data/postmaster.pid")/maps"
        $as "$bin/pgbench" -h "$dir" -U postgres -q -i postgres
        $as "$bin/pgbench" -h "$dir" -U postgres -c 4 -j 2 -t 100 postgres
        $as "$bin/pg_ctl" -D "$dir/data" -m fast -w stop
    "#;
    let Some(output) = prairie_testing::postgres(script, library().as_ref()) else { return };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", messages(&output));
    assert!(said.contains("actually processed: 400/400"), "{said}");
}

/// A process for which the kernel makes no huge page, by `prctl`: as with THP off.
#[test]
fn programs_without_huge_pages_work() {
    const PR_SET_THP_DISABLE: &str = "41";
    let launcher = "import ctypes, os, sys; \
                    assert ctypes.CDLL(None).prctl(int(sys.argv[1]), 1, 0, 0, 0) == 0; \
                    os.execve(sys.argv[2], sys.argv[2:], dict(os.environ, LD_PRELOAD=sys.argv[4]))";
    for case in ["family", "alignment", "threads_die"] {
        let output = Command::new("python3")
            .args(["-c", launcher, PR_SET_THP_DISABLE])
            .arg(traps())
            .arg(case)
            .arg(library())
            .output();
        let Ok(output) = output else {
            prairie_testing::skip_without("python3");
            return;
        };
        assert!(output.status.success(), "{case}: {}", messages(&output));
    }
}

/// What Cargo has built of the library beside this test, and the folder of its header.
fn to_link(name: &str) -> (PathBuf, String) {
    let built = library().with_file_name(name);
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    assert!(header.join("prairie_heap.h").exists());
    (built, format!("-I{}", header.display()))
}

/// Compiles a program under a name of its own, with the library among its arguments.
fn linked(name: &str, source: &str, arguments: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let compiler = if source.extension().is_some_and(|end| end == "cpp") { "c++" } else { "cc" };
    let output = Command::new(compiler)
        .args(["-g", "-O1", "-w", "-o"])
        .arg(&program)
        .arg(&source)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(output.status.success(), "{name}: {}", messages(&output));
    program
}

#[test]
fn c_and_cpp_programs_link_the_archive_and_the_library() {
    let (archive, header) = to_link("libprairie_heap.a");
    let archive = archive.display().to_string();
    let (shared, _) = to_link("libprairie_heap.so");
    let folder = shared.parent().expect("a library lies in a folder").display().to_string();
    let run_path = format!("-Wl,-rpath,{folder}");
    let shared = shared.display().to_string();
    let (header, archive) = (header.as_str(), archive.as_str());
    let c = |name, library: &[&str]| {
        linked(name, "traps.c", &[library, &[header, "-lpthread", "-ldl", "-lm"]].concat())
    };
    let cpp = ["-std=c++17", "-fsized-deallocation", header, archive, "-lpthread", "-ldl", "-lm"];
    let programs = [
        (c("c-archive", &[archive]), "family"),
        (c("c-shared", &[&shared, &run_path]), "family"),
        (linked("cpp-archive", "operators.cpp", &cpp), ""),
    ];
    for (program, case) in programs {
        for setting in [("X", "Y"), NO_RSEQ] {
            let output = Command::new(&program)
                .args((!case.is_empty()).then_some(case))
                .env(setting.0, setting.1)
                .env("PRAIRIE_HEAP_STATS", "text")
                .stdin(Stdio::null())
                .output()
                .unwrap();
            let said = messages(&output);
            assert!(output.status.success(), "{}: {said}", program.display());
            // It does run on the heap.
            assert!(said.contains("page heap temeraire"), "{}: {said}", program.display());
        }
    }
}
