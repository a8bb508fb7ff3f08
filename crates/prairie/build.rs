//! Gives release builds the commit that they are built from, as `PRAIRIE_BUILD_COMMIT`.
//!
//! Builds for debugging and tests have none, because each commit would compile the command again. A
//! build without git, as from a source package, takes it from the variable `PRAIRIE_COMMIT`.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=PRAIRIE_COMMIT");
    if std::env::var("PROFILE").as_deref() != Ok("release") {
        return;
    }
    let given = std::env::var("PRAIRIE_COMMIT").ok().filter(|commit| !commit.is_empty());
    if let Some(commit) = given.or_else(of_git) {
        println!("cargo::rustc-env=PRAIRIE_BUILD_COMMIT={commit}");
    }
}

/// The commit of the working tree, with `-dirty` if files differ from it.
fn of_git() -> Option<String> {
    // What changes with a commit, and with what is added to the next one.
    for name in ["logs/HEAD", "index"] {
        if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", name]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changed.is_empty() { commit } else { format!("{commit}-dirty") })
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = output.status.success().then_some(output.stdout)?;
    Some(String::from_utf8(text).ok()?.trim().to_owned())
}
