//! `prairie offload` and `prairie psi` as they are run.

mod common;

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Output, Stdio};

use common::{prairie, run, stderr, stdout};

/// The one-line error of a command that must fail.
fn refusal(output: &Output) -> String {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(output.stdout.is_empty() && text.lines().count() == 1, "{text}");
    text
}

#[test]
fn a_wrong_configuration_is_refused_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("offload.toml");
    fs::write(&file, "[[rule]]\ncgroups = [\"a\"]\nreclaim_ration = 0.1\n").unwrap();
    for command in ["run", "check"] {
        let output = run(directory.path(), &["offload", command, "--config", "offload.toml"]);
        let text = refusal(&output);
        assert!(text.contains("offload.toml, line 3"), "{text}");
        assert!(text.contains("did you mean `reclaim_ratio`?"), "{text}");
    }
    let output = run(directory.path(), &["offload", "run", "--config", "missing.toml"]);
    assert!(refusal(&output).contains("cannot read missing.toml"));
}

#[test]
fn without_a_daemon_status_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let output = run(directory.path(), &["offload", "status", "--socket", "nobody.sock"]);
    assert!(refusal(&output).contains("nobody.sock: no daemon answers"));
}

#[test]
fn a_check_names_a_cure_for_all_that_is_not_good() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("o.toml"), "[[rule]]\ncgroups = [\"none/such\"]\n").unwrap();
    let output = run(directory.path(), &["offload", "check", "--config", "o.toml", "--json"]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let ready = document["ready"].as_bool().unwrap();
    assert_eq!(output.status.code(), Some(if ready { 0 } else { 1 }));
    let findings = document["findings"].as_array().unwrap();
    for finding in findings {
        let harmless = finding["verdict"] == "good" || finding["verdict"] == "note";
        assert!(harmless || finding["cure"] != "", "{finding}");
    }
    let unmatched = "rule 1: no cgroup matches \"none/such\"";
    assert!(findings.iter().any(|finding| finding["found"] == unmatched), "{document}");
    let text = stdout(&run(directory.path(), &["offload", "check", "--config", "o.toml"]));
    assert!(text.contains(unmatched) && text.contains("cgroup v2"), "{text}");
}

#[test]
fn the_guardian_puts_back_what_its_pipe_held_when_the_daemon_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let limit = directory.path().join("memory.high");
    fs::write(&limit, "4096").unwrap();
    let inode = fs::metadata(directory.path()).unwrap().ino();
    // A shell in the daemon's place: it borrows, and is killed with the pipe open.
    let borrow = format!("echo 'hold 0 {inode} 4096 max {}'; kill -9 $$", limit.display());
    let mut daemon = std::process::Command::new("sh")
        .args(["-c", &borrow])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let guardian = std::process::Command::new(env!("CARGO_BIN_EXE_prairie"))
        .args(["offload", "guard"])
        .stdin(daemon.stdout.take().unwrap())
        .status()
        .unwrap();
    assert!(!daemon.wait().unwrap().success(), "the shell was killed");
    assert!(guardian.success(), "{guardian}");
    assert!(fs::read_to_string(&limit).unwrap().starts_with("max"), "the limit was not put back");
}

#[test]
fn restore_reads_the_record_and_empties_it() {
    let directory = tempfile::tempdir().unwrap();
    let limit = directory.path().join("memory.high");
    fs::write(&limit, "4096").unwrap();
    let inode = fs::metadata(directory.path()).unwrap().ino();
    let record = directory.path().join("leases");
    let mut file = fs::File::create(&record).unwrap();
    writeln!(file, "hold 0 {inode} 4096 8192 {}", limit.display()).unwrap();
    write!(file, "hold 1 {inode} 40").unwrap();
    let output = run(directory.path(), &["offload", "restore", "--leases", "leases"]);
    assert!(output.status.success() && stderr(&output).contains("restored 1 limit"));
    assert!(fs::read_to_string(&limit).unwrap().starts_with("8192"));
    assert_eq!(fs::read_to_string(&record).unwrap(), "");
    let again = run(directory.path(), &["offload", "restore", "--leases", "leases"]);
    assert!(again.status.success() && again.stderr.is_empty());
}

#[test]
fn restore_finds_the_record_by_the_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let limit = directory.path().join("memory.high");
    fs::write(&limit, "4096").unwrap();
    let inode = fs::metadata(directory.path()).unwrap().ino();
    let line = format!("hold 0 {inode} 4096 8192 {}\n", limit.display());
    fs::write(directory.path().join("elsewhere"), line).unwrap();
    let config = "[daemon]\nleases = \"elsewhere\"\n[[rule]]\ncgroups = [\"a\"]\n";
    fs::write(directory.path().join("offload.toml"), config).unwrap();
    let output = run(directory.path(), &["offload", "restore", "--config", "offload.toml"]);
    assert!(output.status.success() && stderr(&output).contains("restored 1 limit"));
    assert!(fs::read_to_string(&limit).unwrap().starts_with("8192"));
}

#[test]
fn restore_leaves_the_limits_of_a_running_daemon() {
    let directory = tempfile::tempdir().unwrap();
    let limit = directory.path().join("memory.high");
    fs::write(&limit, "4096").unwrap();
    let inode = fs::metadata(directory.path()).unwrap().ino();
    let record = directory.path().join("offload.leases");
    let line = format!("hold 0 {inode} 4096 8192 {}\n", limit.display());
    fs::write(&record, &line).unwrap();
    let daemon = prairie_daemon::lock::Lock::take(&record).unwrap();
    let arguments = ["offload", "restore", "--leases", "offload.leases"];
    let expected = format!("offload.leases: in use by process {}", std::process::id());
    assert!(refusal(&run(directory.path(), &arguments)).contains(&expected));
    assert_eq!(fs::read_to_string(&limit).unwrap(), "4096");
    assert_eq!(fs::read_to_string(&record).unwrap(), line);
    drop(daemon);
    assert!(run(directory.path(), &arguments).status.success());
    assert!(fs::read_to_string(&limit).unwrap().starts_with("8192"));
}

#[test]
fn psi_prints_what_was_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    if !Path::new("/proc/pressure").is_dir() {
        prairie_testing::skip("no pressure stall information");
        return;
    }
    let arguments = ["psi", "--count", "2", "--interval", "50ms", "--json"];
    let output = prairie(directory.path(), &arguments).stdin(Stdio::null()).output().unwrap();
    let text = stdout(&output);
    assert_eq!(text.lines().count(), 2, "{text}{}", stderr(&output));
    for line in text.lines() {
        let reading: serde_json::Value = serde_json::from_str(line).unwrap();
        for resource in ["cpu", "memory", "io"] {
            let some = reading[resource]["some"].as_f64().unwrap();
            assert!((0.0..=2.0).contains(&some), "{line}");
            assert!(reading[resource]["full"].as_f64().unwrap() <= some + 0.1, "{line}");
        }
    }
    let output = run(directory.path(), &["psi", "no/such/cgroup"]);
    assert!(refusal(&output).contains("no such cgroup"));
    let output = run(directory.path(), &["psi", "--interval", "1us"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("at least 10ms"));
}

/// Checks keep to the width, and formats of reports are refused where there is none.
#[test]
fn text_keeps_to_the_width_and_has_no_format() {
    let dir = tempfile::tempdir().unwrap();
    for command in ["offload", "regions"] {
        let output = run(dir.path(), &[command, "check", "--width", "72"]);
        let text = stdout(&output);
        assert!(text.lines().all(|line| line.chars().count() <= 72), "{text}");
    }
    for arguments in [
        &["offload", "check", "--format", "csv"][..],
        &["regions", "check", "--format", "csv"],
        &["psi", "--format", "csv"],
        &["migrate", "check", "--variant", "two-ptrs", "--format", "csv"],
    ] {
        let output = run(dir.path(), arguments);
        let expected = "--format csv: this command prints no report, expected text or json";
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(stderr(&output).trim_end(), format!("prairie: {expected} (see --help)"));
        assert!(output.stdout.is_empty());
    }
    for arguments in [["export", "--format", "json"], ["completions", "bash", "--format=csv"]] {
        let output = run(dir.path(), &arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(": this command prints only text"), "{}", stderr(&output));
    }
    for arguments in [&["heap", "stats", "--all"][..], &["migrate", "check", "--variant", "list"]] {
        let output = run(dir.path(), &[arguments, &["--format", "csv"]].concat());
        let text = stdout(&output);
        assert!(text.starts_with("section,table,row,column,value"), "{}", stderr(&output));
    }
}

/// The cgroup may be left out where nothing is disturbed by reading all of them.
#[test]
fn a_profile_without_ages_needs_no_cgroup() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &["offload", "profile", "--no-ages"]);
    assert_ne!(output.status.code(), Some(2), "{}", stderr(&output));
    let output = run(dir.path(), &["offload", "profile"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}
