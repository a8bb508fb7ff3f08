//! How text output is written: ASCII where it is piped, whole numbers, and counts of one.

mod common;

use std::path::Path;

use common::{run, stderr, stdout};

/// The recording that comes with the project.
fn trace() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/mixed.parquet").display().to_string()
}

#[test]
fn a_pipe_gets_ascii() {
    let dir = tempfile::tempdir().unwrap();
    let trace = trace();
    for arguments in [
        &["replay", &trace, "--systems", "Buddy, linux"][..],
        &["sources", &trace],
        &["survey", "--from", &trace],
        &["migrate", "sim", "--parameters"],
        &["migrate", "check", "--variant", "two-ptrs"],
        &["heap", "driver", "--heap", "8M", "--time", "1s"],
        &["lab", "tmo", "figure-2"],
    ] {
        let output = run(dir.path(), arguments);
        let text = stdout(&output) + &stderr(&output);
        assert!(output.status.success(), "{arguments:?}: {text}");
        let other: Vec<&str> = text.lines().filter(|line| !line.is_ascii()).collect();
        assert!(other.is_empty(), "{arguments:?}: {other:?}");
    }
}

#[test]
fn samples_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let trace = trace();
    for none in ["0s", "0ms", "-1s"] {
        let output = run(dir.path(), &["replay", &trace, &format!("--every={none}")]);
        assert_eq!(output.status.code(), Some(2), "{none}");
        assert!(stderr(&output).contains("a time above 0"), "{}", stderr(&output));
    }
    let arguments = ["replay", &trace, "--systems", "buddy", "--every", "1ns", "--json"];
    let output = run(dir.path(), &arguments);
    let said = stderr(&output);
    assert!(said.contains("--every 1ns: more than 10000 samples; sampled every "), "{said}");
    let json: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert!(json["systems"][0]["samples"].as_array().unwrap().len() <= 10_002);
}

#[test]
fn names_are_taken_as_people_write_them() {
    let dir = tempfile::tempdir().unwrap();
    let trace = trace();
    let systems = |names: &str| -> Vec<String> {
        let output = run(dir.path(), &["replay", &trace, "--systems", names, "--json"]);
        let json: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        let systems = json["systems"].as_array().unwrap();
        systems.iter().map(|system| system["system"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(systems("Linux, BUDDY"), ["linux", "buddy"]);
    let all = systems("linux,all");
    assert_eq!((all.len(), all[0].as_str()), (prairie_model::allocator::ALLOCATORS.len(), "linux"));
    for wrong in ["linux,Linux", "linux,", "linx"] {
        let output = run(dir.path(), &["replay", &trace, "--systems", wrong]);
        assert!(!output.status.success(), "{wrong}");
    }
}

#[test]
fn a_run_that_moves_no_page_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["migrate", "sim", "--rate", "1000", "--requests", "10", "--warm-up", "1"];
    let text = stdout(&run(dir.path(), &arguments));
    assert!(text.contains("Warning: No page moved"), "{text}");
}

#[test]
fn an_import_starts_empty_and_says_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let line = "  cc1-7 [001] .... 1.000001: mm_page_alloc: page=0x0 pfn=0x200 order=0 \
                migratetype=1 gfp_flags=GFP_KERNEL\n";
    std::fs::write(dir.path().join("trace.txt"), line).unwrap();
    let output = run(dir.path(), &["replay", "trace.txt", "--systems", "buddy"]);
    let text = stdout(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(text.contains("no snapshot: memory is empty at the start"), "{text}");
    assert!(!text.contains("in place") && text.contains(" events, 0 s, "), "{text}");
}
