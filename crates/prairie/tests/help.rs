//! The help of every command, compared with `tests/help/COMMAND.txt`. After an intended change run
//! the test with `PRAIRIE_UPDATE_HELP=1`, which writes the files.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use common::{prairie, stdout, subcommands};

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
