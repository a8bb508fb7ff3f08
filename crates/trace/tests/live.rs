//! Records this machine, where that is allowed; says why not otherwise.

mod common;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use prairie_host::Roots;
use prairie_trace::record::{Options, Progress, RING_BYTES, Recorded, Until, record};
use prairie_trace::{Columns, EventKind, EventSource, Reader, Sources};

/// Records; `None`, with the reason printed, if this machine does not let itself be recorded.
fn try_record(path: &Path, until: Until, stacks: bool) -> Option<Recorded> {
    try_record_while(path, until, stacks, &AtomicBool::new(false), &mut |_| {})
}

/// The same, to be interrupted by whoever watches its progress.
fn try_record_while(
    path: &Path,
    until: Until,
    stacks: bool,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Option<Recorded> {
    let options = Options {
        until,
        ring_bytes: RING_BYTES,
        stacks,
        per_cpu_lists: stacks,
        pins: false,
        hide_others: false,
        threads: 2,
        roots: Roots::live(),
        interrupted,
        left_out: &mut |_| {},
        progress,
    };
    match record(path, options) {
        Ok(recorded) => Some(recorded),
        Err(error) => {
            assert!(!is_root(), "{error}");
            prairie_testing::skip(error);
            None
        }
    }
}

/// Whether this process may record: being root is not enough in a container.
fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
    const SYS_ADMIN: u64 = 1 << 21;
    bits & SYS_ADMIN != 0 && Path::new("/proc/kpageflags").metadata().is_ok()
}

fn words(words: &[&str]) -> Until {
    Until::Ended(words.iter().map(Into::into).collect())
}

#[test]
fn a_command_is_recorded_without_loss() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("live.parquet");
    let work = format!(
        "mkdir {0}/w && tar cf {0}/w/a.tar -C /usr/include . && tar xf {0}/w/a.tar -C {0}/w && exit 7",
        directory.path().display()
    );
    let Some(recorded) = try_record(&path, words(&["sh", "-c", &work]), true) else { return };
    assert_eq!(recorded.status.unwrap().code(), Some(7));
    assert_eq!(recorded.lost_events, 0);
    let reader = Reader::open(&path).unwrap();
    let metadata = reader.metadata();
    assert_eq!(metadata.recording.as_ref().unwrap().out_of_order, 0);
    assert!(metadata.after.as_ref().unwrap().files.contains_key("proc/buddyinfo"));
    let runs = reader.frame_runs().collect::<Result<Vec<_>, _>>().unwrap();
    let frames = runs.last().map(|run| run.start.0 + run.frames).unwrap();
    let (mut allocs, mut frees, mut names, mut last_ns) = (0u64, 0u64, Vec::new(), 0);
    let mut events = reader.events(Columns::ALL);
    while let Some(batch) = events.next_batch().unwrap() {
        let batch = batch.to_vec();
        for event in batch {
            assert!(event.time_ns >= last_ns, "events are in order of time");
            last_ns = event.time_ns;
            match event.what {
                EventKind::Alloc { pfn, order, .. } => {
                    assert!(pfn.is_aligned(order) && pfn.0 + order.frames() <= frames);
                    allocs += 1;
                }
                EventKind::Free { pfn, order } => {
                    assert!(pfn.is_aligned(order) && pfn.0 + order.frames() <= frames);
                    frees += 1;
                }
                EventKind::Process { name } => names.push(events.texts().get(name).to_owned()),
                _ => {}
            }
        }
    }
    assert!(allocs > 1000 && frees > 100, "{allocs} allocations, {frees} frees");
    assert!(names.iter().any(|name| name == "tar") && names.iter().any(|name| name == "sh"));
    let sources = Sources::of(&reader).unwrap();
    let known = |name: &str| sources.by_source.iter().any(|usage| usage.name == name);
    assert!(sources.has_stacks && known("slab") && known("page tables"), "{sources:#?}");
    println!(
        "{} events, {:.2} bytes each",
        metadata.events,
        reader.file_bytes() as f64 / metadata.events as f64
    );
}

#[test]
fn an_interruption_leaves_a_complete_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("live.parquet");
    let interrupted = AtomicBool::new(false);
    // Not before the snapshot is taken and the command runs: until then there is nothing to keep.
    let mut progress = |now: Progress| {
        let runs = now.elapsed.is_some_and(|elapsed| elapsed > Duration::from_millis(200));
        interrupted.fetch_or(runs, Ordering::Relaxed);
    };
    let until = words(&["sleep", "100"]);
    let recorded = try_record_while(&path, until, false, &interrupted, &mut progress);
    let Some(recorded) = recorded else { return };
    // It was asked to end, by a signal.
    assert_eq!(recorded.status.and_then(|status| status.code()), None);
    assert!(Reader::open(&path).unwrap().metadata().events > 0);
}

#[test]
fn a_duration_ends_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("live.parquet");
    let begin = Instant::now();
    let until = Until::Elapsed(Duration::from_millis(300));
    if try_record(&path, until, false).is_some() {
        assert!(begin.elapsed() < Duration::from_secs(60));
        let reader = Reader::open(&path).unwrap();
        let recording = reader.metadata().recording.clone().unwrap();
        assert!(recording.ended_ns - recording.started_ns >= 300_000_000);
    }
}

#[test]
fn a_command_that_does_not_exist_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("live.parquet");
    let error = record_nothing(&path, false);
    if is_root() {
        assert!(error.starts_with("cannot run /nonexistent/command: "), "{error}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// With and without probes in this kernel, and where it has none. What is recorded with them is checked
/// in virtual machines (`vm/tests/pins.sh`).
#[test]
fn probes_are_gone_after_a_failure() {
    let directory = tempfile::tempdir().unwrap();
    let error = record_nothing(&directory.path().join("live.parquet"), true);
    if is_root() {
        let expected = ["cannot run /nonexistent/command: ", "long-term pins, which need probes"];
        assert!(expected.iter().any(|text| error.starts_with(text)), "{error}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    let probes = std::fs::read_to_string("/sys/kernel/tracing/kprobe_events").unwrap_or_default();
    assert!(!probes.contains("prairie/"), "{probes}");
}

/// The error of a recording whose command does not exist.
fn record_nothing(path: &Path, pins: bool) -> String {
    let interrupted = AtomicBool::new(false);
    let mut progress = |_: Progress| {};
    let options = Options {
        until: words(&["/nonexistent/command"]),
        ring_bytes: 1 << 20,
        stacks: false,
        per_cpu_lists: false,
        pins,
        hide_others: false,
        threads: 2,
        roots: Roots::live(),
        interrupted: &interrupted,
        left_out: &mut |_| {},
        progress: &mut progress,
    };
    record(path, options).unwrap_err().to_string()
}
