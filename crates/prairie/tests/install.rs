//! What packages contain: completions and manual pages of every command.
#![allow(missing_docs)]

mod common;

use std::fs;
use std::process::Command;

use common::{run, stdout, subcommands};

#[test]
fn completions_name_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let commands = subcommands(&stdout(&run(folder.path(), &["--help"])));
    assert!(commands.len() >= 12, "{commands:?}");
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&run(folder.path(), &["completions", shell]));
        for command in &commands {
            assert!(script.contains(command.as_str()), "{shell}: {command}");
        }
        if shell == "bash" {
            fs::write(folder.path().join("prairie.bash"), &script).unwrap();
        }
    }
    let check = Command::new("bash").arg("-n").arg(folder.path().join("prairie.bash")).status();
    // Without bash nothing is checked, and nothing needs its completions.
    assert!(check.map_or(true, |status| status.success()));
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    assert!(run(folder.path(), &["man", "pages"]).status.success());
    let page = |name: &str| fs::read_to_string(folder.path().join("pages").join(name)).unwrap();
    assert!(page("prairie.1").contains("survey"));
    let survey = page("prairie-survey.1");
    assert!(survey.contains("summary") && survey.contains("Examples"), "{survey}");
    assert!(page("prairie-offload-run.1").contains("config"));
    let pages = fs::read_dir(folder.path().join("pages")).unwrap().count();
    assert!(pages >= 30, "{pages} pages");
}
