//! The library preloaded into C and C++ programs: what users of preloaded allocators ran into
//! (`programs/traps.c`).
//!
//! Each case runs with caches of the CPUs and, with glibc's registration of restartable sequences
//! switched off, with caches of threads.

mod common;

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use common::{NO_RSEQ, TWO_NODES, WAYS, compiled, messages, preloaded, traps};

fn succeeds(case: &str, ways: &[&[(&str, &str)]]) {
    for settings in ways {
        let output = preloaded(traps(), settings).arg(case).output().unwrap();
        assert!(output.status.success(), "{case} {settings:?}: {}", messages(&output));
    }
}

macro_rules! cases {
    ($($case:ident)*) => {$(
        #[test]
        fn $case() {
            succeeds(stringify!($case), &WAYS);
        }
    )*};
}

cases! {
    family alignment errors signal_allocates signal_forks fork_threads fork_fflush spawn_threads
    threads_die memory_limit stress untouched cancelled_threads thread_execs restarted
    grows_large truncated
}

/// What has a page heap for each node, and what leaves the process with one.
#[test]
fn page_heaps_by_node() {
    let nodes = |settings: &[(&str, &str)], shell: &str| {
        let mut command = preloaded("sh", settings);
        command.env("PRAIRIE_HEAP_STATS", "json:/dev/stdout");
        let output = command.args(["-c", shell]).output().unwrap();
        assert!(output.status.success(), "{settings:?}: {}", messages(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().last().expect("statistics of the last program");
        let statistics: serde_json::Value = serde_json::from_str(line).unwrap();
        statistics["nodes"].as_array().map_or(1, Vec::len)
    };
    let program = "exec env true";
    assert_eq!(nodes(&[TWO_NODES], program), 2);
    assert_eq!(nodes(&[("PRAIRIE_HEAP_NUMA", "16")], program), 16);
    assert_eq!(nodes(&[("PRAIRIE_HEAP_NUMA", "0")], program), 1);
    assert_eq!(nodes(&[TWO_NODES, NO_RSEQ], program), 1);
    assert_eq!(nodes(&[TWO_NODES, ("PRAIRIE_HEAP_TRACE", "/dev/null")], program), 1);
    assert_eq!(nodes(&[TWO_NODES], "ulimit -v 4000000; exec env true"), 1);
}

#[test]
fn the_heaps_own_thread_outlives_no_program() {
    let release = [("PRAIRIE_HEAP_RELEASE", "1M")];
    let mut waits = preloaded("timeout", &release);
    // By SIGKILL: the heap's thread, which would be all that is left, blocks what can be blocked.
    let output = waits.args(["-s", "KILL", "20"]).arg(traps()).arg("last_thread_ends").output();
    let output = output.unwrap();
    assert!(output.status.success(), "{:?} {}", output.status, messages(&output));
}

/// POSIX leaves it undefined. glibc's malloc and jemalloc hang; here the program goes on, or ends
/// where the unwinder meets an entry of the heap.
#[test]
fn a_thread_cancelled_inside_never_hangs_the_program() {
    for settings in WAYS {
        for largest in ["500", "40000", "3000000"] {
            let mut command = preloaded("timeout", settings);
            command.args(["-s", "KILL", "20"]).arg(traps()).args(["cancelled_inside", largest]);
            let output = command.output().unwrap();
            let ended = output.status.code() == Some(128 + 6) || output.status.signal() == Some(6);
            let case = format!("{largest} {settings:?}: {:?} {}", output.status, messages(&output));
            assert!(output.status.success() || ended, "{case}");
        }
    }
}

/// Page faults of this host that got a huge page, and those that got a small one instead.
fn huge_page_faults() -> (u64, u64) {
    let counters = std::fs::read_to_string("/proc/vmstat").unwrap();
    let count = |name: &str| {
        let found = counters.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        found.map_or(0, |value| value.parse().unwrap())
    };
    (count("thp_fault_alloc"), count("thp_fault_fallback"))
}

/// While realloc copies an array, what is copied already goes back to the system.
#[test]
fn an_array_that_moves_needs_little_more_than_itself() {
    let output = preloaded(traps(), &[]).arg("grows_large").output().unwrap();
    assert!(output.status.success(), "{}", messages(&output));
    let peak: u64 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    // It has 55 to 69 MiB when it moves last, and an eighth of that is in both places.
    assert!((55_000..90_000).contains(&peak), "{peak} KiB");
}

#[test]
fn an_array_that_shrinks_stays_in_place() {
    let output = preloaded(traps(), &[]).arg("truncated").output().unwrap();
    assert!(output.status.success(), "{}", messages(&output));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "in place\n");
}

/// Free memory goes back instead of new memory coming on top, and no allocation fails because of a
/// limit that nothing can be given back for.
#[test]
fn a_soft_limit_holds_as_far_as_memory_is_free() {
    let resident = |settings: &[(&str, &str)]| -> u64 {
        let output = preloaded(traps(), settings).arg("grows_over_holes").output().unwrap();
        assert!(output.status.success(), "{settings:?}: {}", messages(&output));
        String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
    };
    for (page_heap, most_saved) in [("temeraire", 20_000), ("legacy", 5_000)] {
        let under = |limit: &str| {
            resident(&[("PRAIRIE_PAGE_HEAP", page_heap), ("PRAIRIE_HEAP_LIMIT", limit)])
        };
        let (served_before, fallen_before) = huge_page_faults();
        let (free, limited, tiny) = (under("64G"), under("110M"), under("1M"));
        let (served, fallen) = huge_page_faults();
        // Where the host has no free huge page, less is resident without a limit.
        let least_saved = match served > served_before && fallen == fallen_before {
            true => most_saved,
            false => 5_000,
        };
        // 110 MiB are 112,640 KiB; the program's code and what is not the heap's come on top.
        assert!(limited < 121_000, "{page_heap}: {limited} KiB under 110 MiB");
        assert!(limited + least_saved < free, "{page_heap}: {limited} KiB, without limit {free}");
        // More goes back than under 110 MiB, and some of it too early: a huge page of which a part
        // is released before it is written to becomes resident as a whole.
        assert!(tiny < free, "{page_heap}: {tiny} KiB under 1 MiB, without limit {free}");
    }
}

#[test]
fn no_key_is_missing() {
    let count = |mut command: Command| command.arg("count_keys").output().unwrap().stdout;
    let plain = count(Command::new(traps()));
    assert!(!plain.is_empty());
    for settings in WAYS {
        assert_eq!(count(preloaded(traps(), settings)), plain);
    }
}

#[test]
fn a_plugin_opened_with_deepbind_works_or_the_cause_is_named() {
    let plugin = compiled("plugin.c", &["-shared", "-fPIC"]);
    let run = |settings: &[(&str, &str)]| {
        preloaded(traps(), settings).arg("plugin").env("PLUGIN", &plugin).output().unwrap()
    };
    let output = run(&[]);
    assert!(output.status.success(), "{}", messages(&output));
    assert_eq!(messages(&output).matches("RTLD_DEEPBIND is left out").count(), 1);
    let kept = run(&[("PRAIRIE_HEAP_DEEPBIND", "keep")]);
    assert!(!kept.status.success());
    assert!(messages(&kept).contains("opened with RTLD_DEEPBIND"), "{}", messages(&kept));
}

/// Ends with `SIGABRT` and one line that contains `line`.
fn aborts(case: &str, size: &str, settings: &[(&str, &str)], line: &str) {
    let output = preloaded(traps(), settings).args([case, size]).output().unwrap();
    let told = messages(&output);
    assert_eq!(output.status.signal(), Some(6), "{case} {size} {settings:?}: {told}");
    assert!(told.contains(line), "{case} {size} {settings:?}: {told}");
    assert_eq!(told.lines().count(), 1, "{told}");
}

#[test]
fn double_frees_are_always_caught() {
    for settings in WAYS {
        for size in ["1", "16", "64", "1000", "1025", "4096", "5000", "40000", "262144"] {
            for case in ["twice", "twice_apart", "twice_elsewhere"] {
                aborts(case, size, settings, "double free of");
            }
        }
        aborts("twice", "300000", settings, "which was freed before");
        aborts("twice", "50000000", settings, "which was freed before");
    }
}

#[test]
fn foreign_pointers_are_always_caught() {
    for settings in WAYS {
        aborts("foreign", "0", settings, "which this heap has not allocated");
        aborts("foreign", "1", settings, "which this heap has not allocated");
        aborts("interior", "1000000", settings, "which this heap has not allocated");
    }
}

#[test]
fn interior_pointers_are_caught_where_frees_are_checked() {
    for settings in [[("PRAIRIE_HEAP_CHECK", "1")], [NO_RSEQ]] {
        aborts("interior", "64", &settings, "not at its start");
        aborts("interior", "3000", &settings, "not at its start");
        aborts("interior_by_an_object", "64", &settings, "not at its start");
    }
}

#[test]
fn operators_throw_call_the_handler_and_align() {
    let program = compiled("operators.cpp", &["-std=c++17", "-lpthread", "-fsized-deallocation"]);
    for settings in WAYS {
        let output = preloaded(&program, settings).output().unwrap();
        assert!(output.status.success(), "{settings:?}: {}", messages(&output));
    }
}

#[test]
fn one_cpu_and_a_low_limit_are_enough() {
    for wrapped in ["taskset -c 0 $0 family", "ulimit -v 200000; $0 errors; $0 alignment | true"] {
        let output = preloaded("sh", &[]).args(["-c", wrapped]).arg(traps()).output().unwrap();
        assert!(output.status.success(), "{wrapped}: {}", messages(&output));
    }
}

#[test]
fn statistics_come_at_exit_as_text_and_json() {
    let run = |value: &str| {
        preloaded(traps(), &[("PRAIRIE_HEAP_STATS", value)]).arg("threads_die").output().unwrap()
    };
    let text = messages(&run("text"));
    assert!(text.contains("page heap temeraire") && text.contains("HugeFiller"), "{text}");
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("statistics.json");
    assert!(run(&format!("json:{}", file.display())).status.success());
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&file).unwrap()).expect("statistics are JSON");
    assert_eq!(json["page_heap"]["page_heap"], "temeraire");
    let classes = json["classes"].as_array().unwrap();
    let live: u64 = classes
        .iter()
        .map(|class| class["live"].as_u64().unwrap() * class["size"].as_u64().unwrap())
        .sum();
    assert_eq!(json["small"]["live_bytes"], live);
    let wrong = messages(&run("xml"));
    assert!(wrong.contains("PRAIRIE_HEAP_STATS=xml: invalid value"), "{wrong}");
}

#[test]
fn another_process_reads_what_is_published() {
    for settings in WAYS {
        // A shell that has allocated something and then waits.
        let words = "x=; i=0; while [ $i -lt 3000 ]; do x=$x.$i; i=$((i+1)); done; read y";
        let mut shell = preloaded("bash", settings)
            .args(["-c", words])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let reading = (0..200).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            heap::inspect::read(shell.id()).ok()
        });
        shell.kill().unwrap();
        shell.wait().unwrap();
        let statistics = reading.expect("it publishes within seconds").statistics;
        let json = serde_json::to_value(&statistics).unwrap();
        let legacy = settings.iter().any(|&(name, _)| name == "PRAIRIE_PAGE_HEAP");
        assert_eq!(json["page_heap"]["page_heap"], if legacy { "legacy" } else { "temeraire" });
        let live: usize = statistics.classes.iter().map(|class| class.live * class.size).sum();
        assert!(live > 0 && live == statistics.small.live_bytes, "{statistics:?}");
        let pages = statistics.page_heap.backing.live.bytes();
        assert!(live as u64 <= pages && pages < 64 << 20, "{statistics:?}");
    }
}

#[test]
fn guarded_objects_end_the_process_where_it_happens() {
    let lines = [
        ("guard_after_free", "is used after free"),
        ("guard_behind", "is accessed behind its end"),
        ("guard_close_behind", "was overrun"),
        ("guard_in_front", "is accessed in front of its start"),
        ("guard_twice", "double free of"),
        ("guard_interior", "not at its start"),
    ];
    for (case, line) in lines {
        for size in ["100", "1", "4095"] {
            aborts(case, size, &[("PRAIRIE_HEAP_GUARD", "1")], line);
        }
    }
    // What is done right goes on, however much is guarded.
    for (case, one_in) in [("family", "1"), ("threads_die", "10"), ("fork_threads", "100")] {
        let output =
            preloaded(traps(), &[("PRAIRIE_HEAP_GUARD", one_in)]).arg(case).output().unwrap();
        assert!(output.status.success(), "{case} {one_in}: {}", messages(&output));
    }
}

/// A protocol buffer's fields: numbers, and bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, &[u8])> {
    let varint = |bytes: &mut &[u8]| {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (&byte, rest) = bytes.split_first().expect("a varint goes on");
            *bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        value
    };
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = varint(&mut bytes);
        let mut content = &[][..];
        if key & 7 == 2 {
            (content, bytes) = bytes.split_at(value as usize);
        }
        found.push((key >> 3, value, content));
    }
    found
}

/// The profile estimates what is live, names the program's frames, and is real gzip.
#[test]
fn a_profile_lists_live_objects_and_their_call_stacks() {
    for size in ["48", "5000", "300000"] {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("profile-{size}.pb.gz"));
        let settings = [("PRAIRIE_HEAP_PROFILE", file.to_str().unwrap())];
        let output = preloaded(traps(), &settings).args(["hold_64_mib", size]).output().unwrap();
        assert!(output.status.success(), "{}", messages(&output));
        let unpacked = Command::new("gzip").args(["-dc"]).arg(&file).output().unwrap();
        assert!(unpacked.status.success(), "{}", messages(&unpacked));
        let profile = fields(&unpacked.stdout);
        let mut bytes = 0;
        for (_, _, sample) in profile.iter().filter(|field| field.0 == 2) {
            let values = fields(sample).into_iter().find(|field| field.0 == 2).unwrap().2;
            // Two packed varints: objects and bytes.
            let last = values.iter().rposition(|&byte| byte < 0x80).unwrap();
            let start = values[..last].iter().rposition(|&byte| byte < 0x80).unwrap() + 1;
            let varint = |acc: u64, &byte: &u8| acc << 7 | u64::from(byte & 0x7f);
            bytes += values[start..].iter().rev().fold(0, varint);
        }
        // 128 samples on the average: five standard deviations are 44 %.
        let mib = bytes as f64 / f64::from(1 << 20);
        assert!((36.0..93.0).contains(&mib), "{mib} MiB of 64 in objects of {size}");
        let strings: Vec<&[u8]> =
            profile.iter().filter(|field| field.0 == 6).map(|field| field.2).collect();
        assert_eq!(strings[..3], [&b""[..], b"inuse_objects", b"count"]);
        let of_program = |string: &&[u8]| string.ends_with(b"/traps");
        assert!(strings.iter().any(of_program), "{strings:?}");
        // Stacks reach from the program's malloc to its start.
        let locations = profile.iter().filter(|field| field.0 == 4).count();
        let samples = profile.iter().filter(|field| field.0 == 2).count();
        assert!(locations >= 4 * samples, "{locations} locations of {samples} samples");
    }
}

/// A recording holds all that the page heap was asked, and of the program itself alone.
#[test]
fn the_calls_of_the_page_heap_are_recorded() {
    use heap::recording::{DELETE, NEW, Recorded};
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recording");
    let _ = std::fs::remove_file(&file);
    let settings = [("PRAIRIE_HEAP_TRACE", file.to_str().unwrap())];
    let command = "for i in 1 2 3; do $0 hold_64_mib 300000; done";
    let output = preloaded(traps(), &settings).args(["hold_64_mib", "300000"]).output().unwrap();
    assert!(output.status.success(), "{}", messages(&output));
    let calls: Vec<Recorded> = Recorded::of_bytes(&std::fs::read(&file).unwrap()).collect();
    let large = |call: &&Recorded| call.kind & 0xff == NEW && call.pages == 37;
    // 64 MiB in objects of 300,000 bytes, as many freed at once.
    assert_eq!(calls.iter().filter(large).count(), 2 * 224);
    assert!(calls.iter().filter(|call| call.kind == DELETE).count() >= 224);
    assert!(calls.is_sorted_by_key(|call| call.time_ns));
    // Programs that it starts do not write into it.
    let before = std::fs::metadata(&file).unwrap().len();
    let output = preloaded("sh", &settings).args(["-c", command]).arg(traps()).output().unwrap();
    assert!(output.status.success(), "{}", messages(&output));
    assert_eq!(std::fs::metadata(&file).unwrap().len(), before);
}
