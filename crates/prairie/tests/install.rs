//! What packages contain: completions and manual pages of every command.
#![allow(missing_docs)]

mod common;

use std::fs;
use std::path::Path;
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

/// A container image is all that its users get: the licenses are in it.
#[test]
fn the_container_image_contains_the_licenses() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.c"), "int main(void) { return 0; }\n").unwrap();
    let compiled =
        Command::new("cc").args(["-static", "-o", "a", "a.c"]).current_dir(&folder).status();
    if !compiled.is_ok_and(|status| status.success()) {
        prairie_testing::skip("needs a C compiler that links static programs");
        return;
    }
    let packed = Command::new(root.join("packaging/image"))
        .args([folder.path().join("a"), folder.path().join("image.tar")])
        .output()
        .unwrap();
    assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
    let unpacked = Command::new("sh")
        .args(["-c", "tar -xOf image.tar ./layer.tar | tar -x"])
        .current_dir(&folder)
        .status();
    assert!(unpacked.unwrap().success());
    let text = |name: &str| {
        fs::read_to_string(folder.path().join("usr/share/licenses/prairie").join(name)).unwrap()
    };
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        assert_eq!(text(name), fs::read_to_string(root.join(name)).unwrap());
    }
    let third_party = text("third-party-licenses.txt");
    for name in ["== clap ", "== musl: MIT", "== Rust standard library"] {
        assert!(third_party.contains(name), "{name}");
    }
}

/// Debian's tools show one line of at most 80 characters for each package.
#[test]
fn the_synopses_of_debian_packages_are_short() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for package in ["prairie", "heap-preload"] {
        let manifest = fs::read_to_string(crates.join(package).join("Cargo.toml")).unwrap();
        let synopsis = manifest.lines().find_map(|line| line.strip_prefix("description = "));
        let synopsis = synopsis.unwrap().trim_matches('"');
        assert!(synopsis.chars().count() < 80, "{synopsis}");
        // Debian's policy: no article, no full stop.
        assert!(!synopsis.ends_with('.') && !synopsis.starts_with("A "), "{synopsis}");
    }
}
