//! Running the real command, for all of its tests.

// Each test program uses its own part of this module.
#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A command in `directory`, without the caller's terminal.
pub fn prairie(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_prairie"));
    command.current_dir(directory).args(arguments).env_remove("CLICOLOR_FORCE");
    command.env_remove("COLUMNS");
    command
}

pub fn run(directory: &Path, arguments: &[&str]) -> Output {
    prairie(directory, arguments).output().unwrap()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The names of the subcommands that a help lists.
pub fn subcommands(help: &str) -> Vec<String> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty());
    // A description that continues in the next line begins further to the right.
    let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// A folder `proc` in `folder` with these files, for `--proc`.
pub fn write_proc(folder: &Path, files: &[(&str, &str)]) -> PathBuf {
    let proc = folder.join("proc");
    fs::create_dir_all(&proc).unwrap();
    for (name, text) in files {
        fs::write(proc.join(name), text).unwrap();
    }
    proc
}

pub fn files_in(directory: &Path) -> Vec<PathBuf> {
    let mut names: Vec<PathBuf> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Waits until the process catches SIGINT.
pub fn wait_for_handler(pid: u32) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let catches = || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t")).unwrap();
        u64::from_str_radix(mask, 16).unwrap() & 2 != 0
    };
    while !catches() {
        assert!(Instant::now() < deadline, "the command never caught SIGINT");
        sleep(Duration::from_millis(1));
    }
}
