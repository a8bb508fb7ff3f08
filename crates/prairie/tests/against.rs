//! `prairie replay --against` as it is run: on a shipped recording of a kernel from boot on, and on
//! what is none.
#![allow(missing_docs)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use common::{run, stderr, stdout};

fn data(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data").join(path);
    path.canonicalize().unwrap().to_str().unwrap().to_owned()
}

/// The trace of two CPUs and a copy of its snapshots, to be damaged.
fn recording(directory: &Path) -> (String, PathBuf) {
    let folder = directory.join("snapshots");
    fs::create_dir(&folder).unwrap();
    for entry in fs::read_dir(data("boot-processes-2cpu")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
    }
    (data("boot-processes-2cpu/trace.parquet"), folder)
}

fn refused(directory: &Path, trace: &str, folder: &Path, expected: &[&str]) {
    let output = run(directory, &["replay", trace, "--against", folder.to_str().unwrap()]);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert_eq!(stdout(&output), "");
    assert_eq!(message.lines().count(), 1, "{message}");
    for part in expected {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_kernel_from_boot_is_met_frame_by_frame() {
    let here = tempfile::tempdir().unwrap();
    let (trace, folder) = recording(here.path());
    let folder = folder.to_str().unwrap();
    let output = run(here.path(), &["replay", &trace, "--against", folder, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["schema"], "prairie-replay-against");
    for way in ["zone_locked", "followed", "corrected", "free_running"] {
        assert_eq!(answer[way]["right"], answer[way]["total"], "{way}");
        assert!(answer[way]["total"].as_u64() > Some(20_000), "{way}");
    }
    assert_eq!(answer["ends_at_reclaim"], false);
    let names: Vec<_> =
        answer["snapshots"].as_array().unwrap().iter().map(|s| &s["name"]).collect();
    assert_eq!(names, ["early", "middle", "end"]);

    let output =
        run(here.path(), &["replay", &trace, "--against", folder, "--html", "answer.html"]);
    let text = stdout(&output);
    assert!(text.contains("None."), "{text}");
    assert!(here.path().join("answer.html").exists());
}

/// What a recording lacks because the kernel refused a probe is named in the report.
#[test]
fn refused_probes_leave_something_open() {
    let here = tempfile::tempdir().unwrap();
    let (trace, folder) = recording(here.path());
    let at = folder.to_str().unwrap();
    let open = || {
        let output = run(here.path(), &["replay", &trace, "--against", at, "--json"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        answer["left_open"].clone()
    };
    assert_eq!(open(), serde_json::json!([]));
    let probes = "p:prairie_bulk alloc_pages_bulk gfp=%di:x32\nr:prairie_bulked alloc_pages_bulk\n";
    fs::write(folder.join("refused"), probes).unwrap();
    assert_eq!(open(), serde_json::json!(["what is allocated in bulk"]));
    let text = stdout(&run(here.path(), &["replay", &trace, "--against", at]));
    let expected = "because the kernel refused a probe: what is allocated in bulk.";
    assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(expected), "{text}");
    fs::write(folder.join("refused"), "p:else nothing\n").unwrap();
    refused(here.path(), &trace, &folder, &["refused", "p:else nothing", "a probe of vm/record"]);
}

/// A snapshot that contradicts the events is reported, number by number.
#[test]
fn a_snapshot_of_something_else_differs() {
    let here = tempfile::tempdir().unwrap();
    let (trace, folder) = recording(here.path());
    for file in ["pagetypeinfo", "zoneinfo"] {
        fs::copy(folder.join(format!("early.{file}")), folder.join(format!("end.{file}"))).unwrap();
    }
    let folder = folder.to_str().unwrap();
    let output = run(here.path(), &["replay", &trace, "--against", folder, "--json"]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let differences = |at: usize| answer["snapshots"][at]["followed"].as_array().unwrap().len();
    assert_eq!((differences(0), differences(1)), (0, 0));
    assert!(differences(2) > 5, "{}", answer["snapshots"][2]);
    let output = run(here.path(), &["replay", &trace, "--against", folder]);
    assert!(stdout(&output).contains("Differences of the trace-driven replay"));
}

#[test]
fn what_is_no_recording_from_boot_is_refused_in_one_line() {
    let here = tempfile::tempdir().unwrap();
    let (trace, folder) = recording(here.path());
    let empty = here.path().join("empty");
    fs::create_dir(&empty).unwrap();
    refused(here.path(), &trace, &empty, &["empty", "NAME.pagetypeinfo", "vm/record"]);
    refused(here.path(), &trace, &here.path().join("nowhere"), &["nowhere"]);
    refused(here.path(), &data("mixed.parquet"), &folder, &["mixed.parquet", "marker"]);

    fs::remove_file(folder.join("early.kpageflags.gz")).unwrap();
    refused(here.path(), &trace, &folder, &["early", "kpageflags"]);
    fs::write(folder.join("early.kpageflags.gz"), b"no gzip").unwrap();
    refused(here.path(), &trace, &folder, &["early.kpageflags.gz"]);
    fs::remove_file(folder.join("early.kpageflags.gz")).unwrap();
    fs::write(folder.join("early.zoneinfo"), "Node 0, zone Nonsense\n").unwrap();
    refused(here.path(), &trace, &folder, &["early", "zoneinfo"]);
    fs::remove_file(folder.join("early.zoneinfo")).unwrap();
    refused(here.path(), &trace, &folder, &["early.zoneinfo"]);
}

/// One line names the missing events and what the trace is still good for.
#[test]
fn a_trace_without_some_events_says_what_can_be_replayed() {
    let here = tempfile::tempdir().unwrap();
    let (_, folder) = recording(here.path());
    let line = |what: &str| format!("  task-7   [000] .....  1.000001: {what}\n");
    let mut text = line("tracing_mark_write: snapshot early begin");
    text += &line("tracing_mark_write: snapshot early end");
    text += &line("mm_page_alloc: page=0 pfn=0x1000 order=0 migratetype=0 gfp_flags=GFP_KERNEL");
    let trace = here.path().join("alloc.txt");
    let missing = |text: &str, event: &str| {
        fs::write(&trace, text).unwrap();
        let expected = ["alloc.txt", event, "without --against"];
        refused(here.path(), trace.to_str().unwrap(), &folder, &expected);
    };
    missing(&text, "no mm_page_alloc_zone_locked events");
    text +=
        &line("mm_page_alloc_zone_locked: page=0 pfn=0x1001 order=0 migratetype=0 percpu_refill=1");
    missing(&text, "no mm_page_free events");
    // Its allocations alone can be replayed.
    let alone = here.path().join("alone.txt");
    fs::write(
        &alone,
        line("mm_page_alloc: page=0 pfn=0x1000 order=0 migratetype=0 gfp_flags=GFP_KERNEL"),
    )
    .unwrap();
    let output = run(here.path(), &["replay", alone.to_str().unwrap(), "--memory", "64M"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("no mm_page_free events"), "{}", stderr(&output));
}

#[test]
fn options_of_other_replays_do_not_go_with_it() {
    let here = tempfile::tempdir().unwrap();
    let trace = data("boot-files/trace.parquet");
    let folder = data("boot-files");
    let output = run(here.path(), &["replay", &trace, "--against", &folder, "--systems", "buddy"]);
    assert_eq!(output.status.code(), Some(2));
}
