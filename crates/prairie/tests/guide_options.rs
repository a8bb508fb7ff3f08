//! The options that the pages of `docs/src/guide` list are those of the command.
//!
//! A page has a pair of lines for each command that it describes:
//!
//! ```text
//! <!-- options: prairie survey -->
//! <!-- end options -->
//! ```
//!
//! Between them stand the arguments and options of `prairie survey -h`. After an intended change run
//! the test with `PRAIRIE_UPDATE_DOCS=1`, which writes them.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use common::{prairie, stdout, subcommands};

const BEGIN: &str = "<!-- options: ";
const END: &str = "<!-- end options -->";

/// The short help of a command, given as `prairie offload run`, at the width of a pipe.
fn help(command: &str) -> String {
    let here = tempfile::tempdir().unwrap();
    let words = command.split(' ').skip(1).chain(["-h"]);
    let words: Vec<&str> = words.collect();
    let output = prairie(here.path(), &words).env_remove("COLUMNS").output().unwrap();
    assert!(output.status.success(), "{command} -h");
    stdout(&output)
}

/// Usage, arguments, and options of a command as a block of the book. What follows the options,
/// such as lists of allocators, has pages of its own.
fn options(command: &str) -> String {
    let help = help(command);
    let sections = help.split("\n\n").map(str::trim_end);
    let listed = sections.filter(|section| {
        let heading = section.lines().next().unwrap_or_default();
        heading.starts_with("Usage:") || matches!(heading, "Arguments:" | "Options:")
    });
    let kept: Vec<String> = listed
        .map(|section| {
            let lines = section.lines().filter(|line| !line.trim_start().starts_with("-h, --help"));
            lines.collect::<Vec<_>>().join("\n")
        })
        .filter(|section| section != "Options:")
        .collect();
    format!("```text\n{}\n```", kept.join("\n\n"))
}

/// The page with every block of options as the commands print them now, and the commands.
fn updated(page: &str) -> (String, Vec<String>) {
    let (mut text, mut commands) = (String::new(), Vec::new());
    let mut rest = page;
    while let Some(at) = rest.find(BEGIN) {
        let after = at + BEGIN.len();
        let name_end = after + rest[after..].find(" -->").expect("an end of the marker");
        let command = rest[after..name_end].to_owned();
        let body = name_end + " -->".len();
        let end = body + rest[body..].find(END).unwrap_or_else(|| panic!("{command}: no {END}"));
        text += &rest[..body];
        text += &format!("\n{}\n{END}", options(&command));
        rest = &rest[end + END.len()..];
        commands.push(command);
    }
    (text + rest, commands)
}

/// The commands without subcommands.
fn leaves(command: &str, found: &mut Vec<String>) {
    let below = subcommands(&help(command));
    if below.is_empty() {
        found.push(command.to_owned());
    }
    for name in below {
        leaves(&format!("{command} {name}"), found);
    }
}

#[test]
fn guide_pages_list_the_options_of_every_command() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/guide");
    let mut pages: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.sort();
    let (mut listed, mut outdated) = (BTreeSet::new(), Vec::new());
    for path in pages {
        let page = fs::read_to_string(&path).unwrap();
        let (text, commands) = updated(&page);
        for command in commands {
            assert!(listed.insert(command.clone()), "{command} is listed twice");
        }
        if text == page {
            continue;
        }
        if std::env::var_os("PRAIRIE_UPDATE_DOCS").is_some() {
            fs::write(&path, text).unwrap();
        } else {
            outdated.push(path.display().to_string());
        }
    }
    assert!(outdated.is_empty(), "changed; PRAIRIE_UPDATE_DOCS=1 updates them: {outdated:#?}");
    let mut all = Vec::new();
    leaves("prairie", &mut all);
    assert!(all.len() >= 20, "{all:?}");
    let missing: Vec<_> = all.iter().filter(|command| !listed.contains(*command)).collect();
    assert!(missing.is_empty(), "no guide page has a marker for {missing:?}");
}
