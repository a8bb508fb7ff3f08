//! `prairie record`, `sources` and `import` as they are run: on this machine where it lets itself
//! be recorded, on the recording in `data/`, on other tools' traces, and on nonsense.
#![allow(missing_docs)]

mod common;
mod schema;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use common::{files_in, is_root, prairie, run, stderr, stdout, wait_for_handler};
use prairie_trace::{Columns, EventKind, EventSource, Reader};

/// Runs what must fail with one line on standard error and leave nothing behind; returns the line.
fn refused(directory: &Path, arguments: &[&str]) -> String {
    let before = files_in(directory);
    let output = run(directory, arguments);
    one_line(&output);
    assert_eq!(files_in(directory), before, "{arguments:?}");
    stderr(&output)
}

fn one_line(output: &Output) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(stdout(output), "");
    assert!(said.starts_with("prairie: ") && said.lines().count() == 1, "{said}");
}

fn project(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join(path).to_str().unwrap().to_owned()
}

/// Whether this machine lets itself be recorded; says so if not. To be root is not enough in a
/// container. Each recorder mounts tracefs for a moment where it is not mounted, so that one which
/// ends may take it from another that begins: the question is asked a few times.
fn can_record() -> bool {
    let here = tempfile::tempdir().unwrap();
    let ask = || run(here.path(), &["record", "-o", "try.parquet", "--for", "1ms"]);
    let mut output = ask();
    for _ in 0..10 {
        if output.status.success() {
            return true;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        output = ask();
    }
    prairie_testing::skip(stderr(&output).trim_end());
    false
}

#[test]
fn command_lines_that_are_not_understood() {
    let here = tempfile::tempdir().unwrap();
    for (arguments, said) in [
        (&["record", "--for", "1s"][..], "--output"),
        (&["record", "-o", "a.parquet", "--for", "1s", "--", "true"], "cannot be used with"),
        (&["record", "-o", "a.parquet", "--for", "soon"], "a time above 0, such as"),
        (&["record", "-o", "a.parquet", "--for", "0s"], "a time above 0, such as"),
        (&["record", "-o", "a.parquet", "--ring", "1K"], "a size from 64K to 1G"),
        (&["record", "-o", "a.parquet", "--ring", "many"], "a size from 64K to 1G"),
        (&["record", "-o", "a.parquet", "true"], "unexpected argument"),
        (&["sources"], "FILE.parquet"),
        (&["import", "a.txt"], "--output"),
    ] {
        let output = run(here.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(said), "{arguments:?}: {}", stderr(&output));
    }
    assert!(files_in(here.path()).is_empty());
}

#[test]
fn outputs_that_cannot_be_written() {
    if !can_record() {
        return;
    }
    let here = tempfile::tempdir().unwrap();
    fs::create_dir(here.path().join("directory")).unwrap();
    for (output, why) in [
        ("no/such/a.parquet", "there is no directory no/such"),
        ("directory", "is a directory, expected a file"),
        ("/dev/full", "not a regular file"),
        ("/proc/a.parquet", "cannot write /proc/a.parquet"),
    ] {
        // Told before any time was spent on recording.
        let said = refused(here.path(), &["record", "-o", output, "--", "sleep", "1000"]);
        assert!(said.contains(output) && said.contains(why), "{said}");
    }
}

#[test]
fn a_command_that_does_not_exist() {
    if !can_record() {
        return;
    }
    let here = tempfile::tempdir().unwrap();
    let said = refused(here.path(), &["record", "-o", "a.parquet", "--", "no-such-command"]);
    assert!(said.contains("cannot run no-such-command"), "{said}");
}

#[test]
fn without_permission() {
    if !is_root() {
        let here = tempfile::tempdir().unwrap();
        let output = run(here.path(), &["record", "-o", "a.parquet", "--for", "1s"]);
        one_line(&output);
        return;
    }
    // Where that user can reach it.
    let here = tempfile::tempdir().unwrap();
    fs::set_permissions(here.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let binary = here.path().join("prairie");
    fs::copy(env!("CARGO_BIN_EXE_prairie"), &binary).unwrap();
    for stacks in [&[][..], &["--stacks"]] {
        let mut command = Command::new(&binary);
        command.args(["record", "-o", "a.parquet", "--for", "1s"]).args(stacks);
        command.uid(65534).gid(65534).current_dir(here.path());
        let output = command.output().unwrap();
        one_line(&output);
        assert!(stderr(&output).contains("root"), "{}", stderr(&output));
        assert_eq!(files_in(here.path()), std::slice::from_ref(&binary));
    }
}

/// A kernel may have no probes, or refuse them; all else is recorded.
#[test]
fn pins_that_cannot_be_seen_are_left_out_with_a_warning() {
    if !can_record() {
        return;
    }
    let here = tempfile::tempdir().unwrap();
    let output =
        run(here.path(), &["record", "-o", "a.parquet", "--pins", "--for", "50ms", "--json"]);
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(summary["events"].as_u64().unwrap() > 0);
    let warned = said.contains("WARNING: not recorded: long-term pins");
    assert_eq!(summary["pinned"].is_null(), warned, "{said}");
    let reader = Reader::open(&here.path().join("a.parquet")).unwrap();
    assert_eq!(reader.metadata().recording.as_ref().unwrap().pins, !warned);
}

#[test]
fn a_command_is_recorded() {
    if !can_record() {
        return;
    }
    let here = tempfile::tempdir().unwrap();
    let script = "echo said; ls -R /usr/include >listing; rm listing; exit 7";
    let recording = ["record", "-o", "a.parquet", "--stacks", "--hide-others", "--json"];
    let output = run(here.path(), &[&recording[..], &["--", "sh", "-c", script]].concat());
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    let text = stdout(&output);
    let json: Value = serde_json::from_str(text.strip_prefix("said\n").unwrap()).unwrap();
    let path = here.path().join("a.parquet");
    assert_eq!(files_in(here.path()), std::slice::from_ref(&path));
    let reader = Reader::open(&path).unwrap();
    let metadata = reader.metadata();
    assert_eq!(schema::check(&json), "prairie-record");
    assert_eq!(json["file_bytes"], fs::metadata(&path).unwrap().len());
    assert_eq!(json["events"], metadata.events);
    assert_eq!(json["frame_runs"], metadata.frame_runs);
    assert_eq!(json["lost_events"], metadata.lost_events());
    assert_eq!(json["command_exit_code"], 7);
    assert_eq!(json["interrupted"], false);
    for (figure, least, most) in [
        ("duration_ns", 1e6, 1e12),
        ("events_per_second", 1.0, 1e8),
        ("bytes_per_event", 1.0, 60.0),
    ] {
        let value = json[figure].as_f64().unwrap();
        assert!((least..most).contains(&value), "{figure}: {value}");
    }
    let said = stderr(&output);
    assert!(said.contains(" events in ") && said.contains("a.parquet"), "{said}");
    let names = names(&reader);
    assert!(["prairie", "sh", "ls"].iter().all(|name| names.contains(*name)), "{names:?}");
    // Those that test this are not the kernel's, nor started by the command.
    let own = fs::read_to_string("/proc/self/comm").unwrap();
    assert!(names.contains("other") && !names.contains(own.trim_end()), "{names:?}");

    let sources = run(here.path(), &["sources", "a.parquet", "--json"]);
    assert_eq!(sources.status.code(), Some(0), "{}", stderr(&sources));
    let sources: Value = serde_json::from_str(&stdout(&sources)).unwrap();
    assert_eq!(
        (&sources["schema"], &sources["has_stacks"]),
        (&"prairie-sources".into(), &true.into())
    );
    let found = |list: &str, name: &str| {
        let list = sources[list].as_array().unwrap();
        list.iter().any(|usage| usage["name"] == name && usage["allocations"].as_u64() > Some(0))
    };
    assert!(found("by_source", "page tables"), "{sources:#}");
    assert!(found("by_process", "sh"), "{sources:#}");
}

fn names(reader: &Reader) -> std::collections::BTreeSet<String> {
    let mut events = reader.events(Columns::ALL);
    let mut names = std::collections::BTreeSet::new();
    while let Some(batch) = events.next_batch().unwrap() {
        let batch = batch.to_vec();
        for event in batch {
            if let EventKind::Process { name } = event.what {
                names.insert(events.texts().get(name).to_owned());
            }
        }
    }
    names
}

#[test]
fn a_signal_that_ends_the_command_sets_the_shells_exit_code() {
    if !can_record() {
        return;
    }
    let here = tempfile::tempdir().unwrap();
    let output = run(here.path(), &["record", "-o", "a.parquet", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(output.status.code(), Some(137), "{}", stderr(&output));
    Reader::open(&here.path().join("a.parquet")).unwrap();
}

/// Waits until a recording has its snapshot, which its command, a shell that makes a file, shows.
fn wait_for(path: &Path, child: &mut Child) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !path.exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before its command began");
        assert!(Instant::now() < deadline, "the command was never started");
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_interrupted_command_leaves_a_complete_recording() {
    if !can_record() {
        return;
    }
    let here = tempfile::tempdir().unwrap();
    let began = here.path().join("began");
    let script = "trap 'exit 9' TERM; : >began; while :; do sleep 0.05; done";
    let mut child = prairie(here.path(), &["record", "-o", "a.parquet", "--", "sh", "-c", script])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(&began, &mut child);
    sleep(Duration::from_millis(200));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    // The command is asked to end, and its exit code is passed on.
    assert_eq!(child.wait().unwrap().code(), Some(9));
    let path = here.path().join("a.parquet");
    assert_eq!(files_in(here.path()), [path.clone(), began]);
    let reader = Reader::open(&path).unwrap();
    assert!(names(&reader).contains("sleep"));
    assert!(reader.metadata().after.is_some());
}

#[test]
fn ctrl_c_is_a_normal_end_without_a_command() {
    if !can_record() {
        return;
    }
    let here = tempfile::tempdir().unwrap();
    let child = prairie(here.path(), &["record", "-o", "a.parquet", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for_handler(child.id());
    // Longer than a snapshot takes; if it is interrupted nevertheless, nothing is left.
    sleep(Duration::from_secs(3));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    match output.status.code() {
        Some(0) => {
            let json: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(
                (&json["interrupted"], &json["command_exit_code"]),
                (&true.into(), &Value::Null)
            );
            Reader::open(&here.path().join("a.parquet")).unwrap();
        }
        code => {
            assert_eq!(code, Some(130));
            assert!(files_in(here.path()).is_empty());
        }
    }
}

#[test]
fn interrupted_before_there_is_anything_to_write() {
    if !can_record() {
        return;
    }
    let here = tempfile::tempdir().unwrap();
    let child = prairie(here.path(), &["record", "-o", "a.parquet", "--", "touch", "ran"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_handler(child.id());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    match output.status.code() {
        Some(130) => {
            assert_eq!(stderr(&output), "prairie: interrupted\n");
            assert!(files_in(here.path()).is_empty());
        }
        // A machine with few frames: the snapshot was quicker.
        code => {
            drop((assert_eq!(code, Some(0)), Reader::open(&here.path().join("a.parquet")).unwrap()))
        }
    }
}

#[test]
fn a_full_disk_leaves_nothing_behind() {
    if !can_record() {
        return;
    }
    // No file may become larger than 16 KiB: less than any snapshot takes.
    let here = tempfile::tempdir().unwrap();
    let limited = "trap '' XFSZ; ulimit -f 32; exec \"$0\" record -o a.parquet --for 1s";
    let mut shell = Command::new("sh");
    shell.args(["-c", limited, env!("CARGO_BIN_EXE_prairie")]).current_dir(&here);
    let output = shell.output().unwrap();
    one_line(&output);
    assert!(
        stderr(&output).contains("cannot write a.parquet: File too large"),
        "{}",
        stderr(&output)
    );
    assert!(files_in(here.path()).is_empty());
}

#[test]
fn what_is_no_recording_has_no_sources() {
    let here = tempfile::tempdir().unwrap();
    fs::write(here.path().join("text"), "not Parquet").unwrap();
    fs::write(here.path().join("empty"), "").unwrap();
    let whole = fs::read(project("data/mixed.parquet")).unwrap();
    fs::write(here.path().join("cut"), &whole[..whole.len() / 2]).unwrap();
    for (file, why) in [
        ("missing", "No such file"),
        ("text", "not a complete Parquet file"),
        ("empty", "empty file, expected a trace or a saved survey"),
        ("cut", "not a complete Parquet file"),
        (".", "cannot read"),
    ] {
        let said = refused(here.path(), &["sources", file]);
        assert!(said.contains(file) && said.contains(why), "{said}");
    }
    let said =
        refused(here.path(), &["sources", &project("data/mixed.parquet"), "--html", "no/a.html"]);
    assert!(said.contains("no/a.html"), "{said}");
}

#[test]
fn sources_of_the_recording_that_ships() {
    let here = tempfile::tempdir().unwrap();
    let recording = project("data/mixed.parquet");
    let output = run(here.path(), &["sources", &recording, "--html", "sources.html", "--top", "3"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    for part in ["By source", "page tables", "By process", "Call chains", "Not shown (--top): "] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    let page = fs::read_to_string(here.path().join("sources.html")).unwrap();
    assert!(page.contains("Allocators of unmovable memory"));
    let output = run(here.path(), &["sources", &recording, "--json"]);
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let sum = |list: &str, field: &str| -> u64 {
        json[list].as_array().unwrap().iter().map(|usage| usage[field].as_u64().unwrap()).sum()
    };
    for field in ["allocations", "frames_allocated", "frames_held"] {
        assert!(json["total"][field].as_u64() > Some(0), "{field}");
        assert_eq!(json["total"][field], sum("by_source", field), "{field}");
        assert_eq!(json["total"][field], sum("by_process", field), "{field}");
    }
    assert_eq!(json["lost_events"], 0);
}

#[test]
fn the_recording_that_ships_is_small_and_names_nobody() {
    let path = project("data/mixed.parquet");
    assert!(fs::metadata(&path).unwrap().len() <= 8 << 20);
    let reader = Reader::open(Path::new(&path)).unwrap();
    assert!(reader.metadata().recording.as_ref().unwrap().others_hidden);
    assert!(names(&reader).contains("other"));
}

#[test]
fn other_tools_traces_are_imported() {
    let here = tempfile::tempdir().unwrap();
    for (fixture, format) in
        [("trace-cmd.txt", "text"), ("perf-script.txt", "text"), ("ftrace.txt", "text")]
    {
        let from = project(&format!("crates/trace/tests/fixtures/import/{fixture}"));
        let output = run(here.path(), &["import", &from, "-o", "a.parquet", "--json"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
        let reader = Reader::open(&here.path().join("a.parquet")).unwrap();
        assert_eq!(json["events"], reader.metadata().events, "{fixture}");
        assert!(json["events"].as_u64() > Some(0), "{fixture}");
        assert!(json["origin"].to_string().contains(format), "{json:#}");
        assert!(stderr(&output).contains("wrote a.parquet"), "{}", stderr(&output));
        // Texts name no call chains.
        let sources = run(here.path(), &["sources", "a.parquet"]);
        let text = stdout(&sources).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("This recording has no call chains"), "{text}");
        assert!(!text.contains("By source"));
    }
}

#[test]
fn what_is_no_trace_is_not_imported() {
    let here = tempfile::tempdir().unwrap();
    fs::write(here.path().join("empty"), "").unwrap();
    fs::write(here.path().join("zeros"), [0; 5000]).unwrap();
    fs::write(here.path().join("prose"), "It was a dark and stormy night.\n").unwrap();
    for (file, why) in [
        ("missing", "No such file"),
        ("empty", "empty"),
        ("zeros", "5000 bytes"),
        ("prose", "no event of the page allocator"),
    ] {
        let said = refused(here.path(), &["import", file, "-o", "a.parquet"]);
        assert!(said.contains(file) && said.contains(why), "{said}");
    }
}

#[test]
fn help_has_examples_and_exit_codes() {
    let here = tempfile::tempdir().unwrap();
    for command in ["record", "sources", "import"] {
        let output = run(here.path(), &[command, "--help"]);
        let help = stdout(&output);
        for part in ["Examples:", "Exit codes:", "130", "--json"] {
            assert!(help.contains(part), "{command}: {part:?} is not in:\n{help}");
        }
    }
}
