//! `prairie heap run` and `prairie heap stats`, on the library that Cargo has built beside this
//! test.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn library() -> PathBuf {
    env::current_exe().unwrap().with_file_name("libprairie_heap.so")
}

fn heap(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_prairie"));
    command.arg("heap").args(arguments).stdin(Stdio::null());
    command
}

fn run(options: &[&str], program: &[&str]) -> Command {
    let mut command = heap(&["run"]);
    command.arg("--library").arg(library()).args(options).arg("--").args(program);
    command
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_program_runs_on_the_heap_and_ends_as_it_does() {
    let program = ["bash", "-c", "echo $PRAIRIE_PAGE_HEAP; exit 7"];
    let output = run(&["--page-heap", "legacy", "--stats", "text"], &program).output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(output.stdout, b"legacy\n");
    assert!(told(&output).contains("page heap legacy"), "{}", told(&output));
}

#[test]
fn what_cannot_run_is_said_in_one_line() {
    let output = run(&[], &["/no/such/program"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(told(&output).starts_with("prairie: /no/such/program: "), "{}", told(&output));
    assert_eq!(told(&output).lines().count(), 1);
    let output = heap(&["run", "--library", "/no/such/library.so", "--", "true"]).output().unwrap();
    assert!(told(&output).contains("/no/such/library.so"), "{}", told(&output));
}

#[test]
fn the_heap_of_a_running_process_can_be_looked_at() {
    // A shell that has allocated something and then waits.
    let words = "x=; i=0; while [ $i -lt 3000 ]; do x=$x.$i; i=$((i+1)); done; echo; read y";
    let mut program = run(&[], &["bash", "-c", words])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = program.id().to_string();
    let looked = (0..100).find_map(|_| {
        std::thread::sleep(Duration::from_millis(50));
        let output = heap(&["stats", &pid, "--json"]).output().unwrap();
        output.status.success().then_some(output.stdout)
    });
    let json: serde_json::Value = serde_json::from_slice(&looked.expect("statistics")).unwrap();
    assert_eq!(json["page_heap"]["page_heap"], "temeraire");
    assert!(json["small"]["live_bytes"].as_u64().unwrap() > 0);
    let text = heap(&["stats", &pid]).output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.starts_with("as of ") && text.contains("HugeFiller"), "{text}");
    program.kill().unwrap();
    program.wait().unwrap();
}

#[test]
fn a_process_on_another_malloc_is_told_apart() {
    let mut program = Command::new("sleep").arg("60").spawn().unwrap();
    let output = heap(&["stats", &program.id().to_string()]).output().unwrap();
    program.kill().unwrap();
    program.wait().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(told(&output).contains("runs on another malloc"), "{}", told(&output));
    let output = heap(&["stats", "4294967295"]).output().unwrap();
    assert!(told(&output).contains("/proc/4294967295/maps"), "{}", told(&output));
}

/// What a program asks of its page heap is recorded, even if a signal ends it, and played back.
#[test]
fn a_program_is_recorded_and_played_back() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("shell.parquet");
    let trace = trace.to_str().unwrap();
    let words = "x=$(seq 200000); y=$x$x$x; unset x; kill -9 $$";
    let output = run(&["--trace", trace], &["bash", "-c", words]).output().unwrap();
    assert_eq!(output.status.code(), Some(128 + 9), "{}", told(&output));
    assert!(told(&output).contains("calls of the page heap in"), "{}", told(&output));
    // Nothing lies beside the trace.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let played = heap(&["playback", trace, "--json"]).output().unwrap();
    assert!(played.status.success(), "{}", told(&played));
    let json: serde_json::Value = serde_json::from_slice(&played.stdout).unwrap();
    let systems = json["systems"].as_array().expect("systems");
    for system in systems {
        // Some copies of 1.3 MB were live.
        let peak = system["totals"]["peak_resident_pages"].as_u64().unwrap();
        assert!(peak > 2 * (1_300_000 / 8192), "{system}");
    }
    let output = run(&["--trace", trace], &["/no/such/program"]).output().unwrap();
    assert!(told(&output).contains("/no/such/program"), "{}", told(&output));
}
