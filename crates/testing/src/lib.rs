//! What tests of several crates share: skips that are counted, a check of metrics, and PostgreSQL.
//!
//! A test that cannot run here calls [`skip`] and returns. `make test` lists all skips with their
//! reasons at its end, by the file that `PRAIRIE_SKIPS` names. `PRAIRIE_NO_SKIPS=1` makes a skip
//! fail: for machines that are known to have all that the tests need.

mod postgres;

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;
use std::process::{Command, Stdio};

pub use postgres::postgres;

/// Counts a skip of the calling test.
///
/// # Panics
/// If `PRAIRIE_NO_SKIPS` is set, or the file of skips cannot be written.
#[track_caller]
pub fn skip(reason: impl Display) {
    let line = line(&reason);
    let allowed = std::env::var_os("PRAIRIE_NO_SKIPS").is_none_or(|value| value.is_empty());
    assert!(allowed, "PRAIRIE_NO_SKIPS is set: {line}");
    note(&line);
}

/// Counts a skip for lack of a program that continuous integration need not have, and so never
/// fails.
#[track_caller]
pub fn skip_without(program: &str) {
    note(&line(&format_args!("{program} is not installed")));
}

/// Checks metrics in Prometheus' text format with `promtool`; counts a skip where there is none.
///
/// # Panics
/// If `promtool` objects to a name, a unit, or the text.
#[track_caller]
pub fn check_metrics(text: &str) {
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped());
    let Ok(mut promtool) = promtool.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn() else {
        return skip_without("promtool");
    };
    let mut stdin = promtool.stdin.take().expect("it is piped");
    stdin.write_all(text.as_bytes()).expect("promtool reads all");
    drop(stdin);
    let output = promtool.wait_with_output().expect("promtool ends");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "promtool: {said}");
}

/// `crate tests/file.rs: test: reason`, in one line.
#[track_caller]
fn line(reason: &dyn Display) -> String {
    let place = Location::caller().file();
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("main");
    format!("{place}: {test}: {reason}").replace('\n', " ").trim_end().to_owned()
}

fn note(line: &str) {
    println!("skipped: {line}");
    let Some(path) = std::env::var_os("PRAIRIE_SKIPS") else { return };
    let file = OpenOptions::new().append(true).create(true).open(&path);
    // One write for each line, so that lines of tests that run at once do not mix.
    let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    written.unwrap_or_else(|error| panic!("PRAIRIE_SKIPS={}: {error}", path.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This test in another process, under settings.
    fn child(settings: &[(&str, &std::path::Path)]) -> std::process::ExitStatus {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "tests::skips_twice", "--ignored"]);
        command.env_remove("PRAIRIE_SKIPS").env_remove("PRAIRIE_NO_SKIPS");
        command.envs(settings.iter().copied()).output().unwrap().status
    }

    #[test]
    #[ignore = "run by the test below"]
    fn skips_twice() {
        skip_without("a program");
        skip("a reason\nof two lines");
    }

    #[test]
    fn skips_are_counted_and_can_be_forbidden() {
        let name = format!("prairie-skips-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        assert!(child(&[("PRAIRIE_SKIPS", &path)]).success());
        let lines = std::fs::read_to_string(&path).unwrap();
        assert_eq!(lines.lines().count(), 2, "{lines}");
        assert!(lines.contains("tests::skips_twice: a program is not installed\n"), "{lines}");
        assert!(lines.ends_with("tests::skips_twice: a reason of two lines\n"), "{lines}");
        assert!(!child(&[("PRAIRIE_NO_SKIPS", "1".as_ref())]).success());
        std::fs::remove_file(&path).unwrap();
    }
}
