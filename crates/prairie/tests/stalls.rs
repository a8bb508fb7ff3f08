//! `prairie stalls` as it is run: on this machine where it lets itself be watched, on recordings,
//! and without permission.
#![allow(missing_docs)]

mod common;
mod stall_recording;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;

use common::{is_root, prairie, run, stderr, stdout};
use serde_json::Value;
use stall_recording::recording;

fn document(output: &std::process::Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|e| panic!("{e}: {}", stderr(output)))
}

#[test]
fn a_recording_says_who_waited_and_why() {
    let here = tempfile::tempdir().unwrap();
    recording(&here.path().join("a.parquet"));
    let found = document(&run(here.path(), &["stalls", "--from", "a.parquet", "--json"]));
    assert_eq!(found["schema"], "prairie-stalls");
    assert_eq!(
        (&found["waited"]["stalls"], &found["waited"]["total_ns"]),
        (&2.into(), &34_000_000.into())
    );
    let processes = found["processes"].as_array().unwrap();
    let process = |name| processes.iter().find(|process| process["name"] == name).unwrap();
    assert_eq!(process("web")["ns_by_cause"]["huge_page"], 30_000_000);
    assert_eq!(process("web")["share"], 0.3);
    // It ended after 60 ms.
    assert_eq!(process("batch")["ran_ns"], 60_000_000);
    assert_eq!(found["cgroups"][0]["path"], "/web.slice");
    assert_eq!(found["worst"][0]["stack"][0], "do_huge_pmd_anonymous_page");
    let at_most = |of: &Value, seconds: f64| {
        let buckets = of["histogram"].as_array().unwrap_or_else(|| panic!("no histogram: {of}"));
        let bucket = buckets.iter().find(|bucket| bucket["at_most_seconds"] == seconds).unwrap();
        bucket["stalls"].as_u64().unwrap()
    };
    for of in [&found["by_cause_and_order"][1], process("web"), &found["cgroups"][0]] {
        assert_eq!((at_most(of, 0.01), at_most(of, 0.1)), (0, 1), "{of}");
    }
    assert_eq!(found["advice"][0]["remedy"], "thp_defrag");

    let text = stdout(&run(here.path(), &["stalls", "--from", "a.parquet", "--html", "a.html"]));
    for said in ["web (7)", "direct compaction for a huge", "/web.slice", "30 ms", "What helps"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(here.path().join("a.html").is_file());
}

#[test]
fn files_without_stalls_are_refused() {
    let here = tempfile::tempdir().unwrap();
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/mixed.parquet");
    for (file, said) in
        [(old.to_str().unwrap(), "record again"), ("missing.parquet", "cannot read")]
    {
        let output = run(here.path(), &["stalls", "--from", file]);
        assert_eq!(output.status.code(), Some(1));
        let line = stderr(&output);
        assert!(line.contains(said) && line.lines().count() == 1, "{line}");
    }
    let output = run(here.path(), &["stalls", "--from", "a", "--for", "1s"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn around_a_command() {
    let here = tempfile::tempdir().unwrap();
    // Other recorders may unmount tracefs at the same moment.
    let attempt = || run(here.path(), &["stalls", "--json", "--", "sh", "-c", "exit 7"]);
    let mut output = attempt();
    for _ in 0..10 {
        if output.status.code() == Some(7) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        output = attempt();
    }
    if output.status.code() != Some(7) {
        return prairie_testing::skip(stderr(&output).trim_end());
    }
    let found = document(&output);
    assert_eq!(found["lost_events"], 0);
    assert!(found["observed_ns"].as_u64().unwrap() > 0);
    let output = run(here.path(), &["stalls", "--", "no-such-command"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cannot run no-such-command"));
}

#[test]
fn without_permission_one_line_says_so() {
    let here = tempfile::tempdir().unwrap();
    fs::set_permissions(here.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = prairie(here.path(), &["stalls", "--for", "10ms"]);
    if is_root() {
        // Where that user can run it.
        let copy = here.path().join("prairie");
        fs::copy(env!("CARGO_BIN_EXE_prairie"), &copy).unwrap();
        command = std::process::Command::new(copy);
        command.args(["stalls", "--for", "10ms"]).uid(65534).gid(65534);
    }
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let line = stderr(&output);
    assert!(line.starts_with("prairie: ") && line.lines().count() == 1, "{line}");
    assert!(line.contains("run as root") || line.contains("CONFIG_TRACING"), "{line}");
}
