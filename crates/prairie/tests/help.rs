//! The help of every command, compared with `tests/help/COMMAND.txt`. After an intended change run
//! the test with `PRAIRIE_UPDATE_HELP=1`, which writes the files.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{prairie, run, stderr, stdout, subcommands};

/// The help of a command, at the width of a pipe.
fn help(words: &[String]) -> String {
    let here = tempfile::tempdir().unwrap();
    let mut arguments: Vec<&str> = words.iter().map(String::as_str).collect();
    arguments.push("--help");
    let output = prairie(here.path(), &arguments).env_remove("COLUMNS").output().unwrap();
    assert!(output.status.success(), "{arguments:?}");
    stdout(&output)
}

/// Compares the help of a command and of those below it.
fn compare(
    words: &[String],
    folder: &Path,
    files: &mut BTreeSet<PathBuf>,
    wrong: &mut Vec<String>,
) {
    let found = help(words);
    let name = if words.is_empty() { "prairie".to_owned() } else { words.join("-") };
    let path = folder.join(name + ".txt");
    if std::env::var_os("PRAIRIE_UPDATE_HELP").is_some() {
        fs::create_dir_all(folder).unwrap();
        fs::write(&path, &found).unwrap();
    } else if fs::read_to_string(&path).unwrap_or_default() != found {
        wrong.push(path.display().to_string());
    }
    files.insert(path);
    for below in subcommands(&found) {
        compare(&[words, &[below]].concat(), folder, files, wrong);
    }
}

#[test]
fn the_help_of_every_command_is_as_written_down() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/help");
    let (mut files, mut wrong) = (BTreeSet::new(), Vec::new());
    compare(&[], &folder, &mut files, &mut wrong);
    assert!(wrong.is_empty(), "changed; PRAIRIE_UPDATE_HELP=1 updates them: {wrong:#?}");
    assert!(files.len() >= 25, "{files:?}");
    let left: BTreeSet<PathBuf> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, files, "files of commands that are gone");
}

/// Names of values in help, one for each kind of value: a count is not `N` here and `NUMBER` there.
const VALUE_NAMES: &str = "ADDR AFTER BEFORE CGROUP COMMAND CONDITION DAYS DIR FILE \
    FORMAT INPUT N NAME NAMES PERCENT PID PROGRAM RATE SHARE SHELL SIZE SIZES SOCKET SOURCE TIME \
    PER_MILLE I/N NAME=VALUE NAME|FILE SIZE|PERCENT FORMAT[:FILE] PARTIAL,FULL FILE.png|.svg";

/// Help that nobody gets is a failure.
#[test]
fn help_on_a_full_device_fails() {
    let here = tempfile::tempdir().unwrap();
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let output = prairie(here.path(), &["--help"]).stdout(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), "prairie: standard output: No space left on device\n");
    let output = prairie(here.path(), &["--unheard-of"]).stderr(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

/// Rust's runtime opens `/dev/null` in place of a closed standard output.
#[test]
fn output_to_a_closed_standard_output_fails() {
    let here = tempfile::tempdir().unwrap();
    for arguments in [&["--help"][..], &["survey"], &["completions", "bash"]] {
        let script = r#"exec "$@" >&-"#;
        let command = prairie(here.path(), arguments);
        let output = Command::new("sh")
            .args(["-c", script, "sh"])
            .arg(command.get_program())
            .args(command.get_args())
            .current_dir(here.path())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert_eq!(stderr(&output), "prairie: standard output: closed\n", "{arguments:?}");
    }
}

#[test]
fn values_of_one_kind_have_one_name() {
    let known: Vec<&str> = VALUE_NAMES.split_whitespace().collect();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/help")).unwrap() {
        let path = entry.unwrap().path();
        let help = fs::read_to_string(&path).unwrap();
        for part in help.split('<').skip(1) {
            let Some((name, _)) = part.split_once('>') else { continue };
            let is_name = name.starts_with(|first: char| first.is_ascii_uppercase());
            let kind = match name.split_once('.') {
                // The format of a file is its suffix.
                Some(("FILE", suffix)) if !suffix.contains('|') => "FILE",
                _ => name,
            };
            assert!(!is_name || known.contains(&kind), "{}: {name}", path.display());
        }
    }
}

/// The scripts that build, boot, and measure kernels say what they do, and do nothing.
#[test]
fn scripts_have_help() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for folder in ["kernel", "vm"] {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            if path.is_dir() || mode & 0o111 == 0 {
                continue;
            }
            let output = Command::new(&path).arg("--help").output().unwrap();
            let name = path.display();
            assert!(output.status.success(), "{name}: {}", stderr(&output));
            assert!(stdout(&output).contains("Usage: "), "{name}: {}", stdout(&output));
        }
    }
}

/// What contradicts itself ends with 2 before anything is read.
#[test]
fn arguments_that_contradict_each_other_are_refused() {
    let here = tempfile::tempdir().unwrap();
    for (arguments, expected) in [
        ("survey --summary - --json", "--summary - with --json"),
        ("survey --summary - --full", "'--full'"),
        ("survey --summary - --section map", "'--section"),
        ("survey --summary - --format csv", "expected no --format"),
        ("survey --summary a.txt", "expected .jsonl or .parquet"),
        ("survey --summary a.jsonl --every 1h", "expected a directory or -"),
        ("survey --summary - --label a=1 --label b=1 --label a=2", "--label a: given twice"),
        ("survey --summary - --proc /proc", "expected --host"),
        ("survey --theme dark", "--map"),
        ("survey --no-map --section map", "expected one of them"),
        ("survey --html -", "expected a file"),
        ("survey --width 39", "expected 40 to 1000"),
        ("export --textfile metrics.txt", "ends in .prom"),
        ("export --listen 0.0.0.0:9", "--allow-remote"),
        ("top --once --at tomorrow", "--at tomorrow: not a time"),
        ("top --once --log log", "only with --at"),
        ("top --once --format md", "--format md"),
        ("replay a.parquet --systems linux,linux", "named twice"),
        ("lab translation --degrees 1", "expected two"),
        ("migrate check --random 5 --model message", "expected the transaction layer"),
        ("fleet run --days 0 --out study", "--days 0"),
    ] {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let output = run(here.path(), &arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(expected) && said.ends_with("(see --help)\n"), "{said}");
        assert_eq!((said.lines().count(), stdout(&output).len()), (1, 0), "{arguments:?}: {said}");
    }
    assert_eq!(fs::read_dir(here.path()).unwrap().count(), 0, "nothing is written");
}
