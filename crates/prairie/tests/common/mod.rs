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

/// The files of a kernel with a border at 128 MiB between unmovable and movable memory, beside the
/// folder `proc`; `moved` pageblocks later.
pub fn write_regions(folder: &Path, moved: u64) {
    let node = folder.join("sys/kernel/mm/contiguitas/node0");
    fs::create_dir_all(&node).unwrap();
    fs::create_dir_all(folder.join("proc/pressure")).unwrap();
    let stalls = |us: u64| format!("some avg10=1.50 avg60=0.10 avg300=0.00 total={us}\n");
    let (below, above) = (131_072 + 2048 * moved, 262_144 - 2048 * moved);
    let counters = "wake_ups 12\npageblocks_grown GROWN\npageblocks_shrunk 3\ngrow_failures 1\n\
                    shrink_failures 2\naborted_handovers 1\npageblocks_retired 6\n\
                    pageblocks_recalled 4\nslab_drops 2\ncache_drops 1\nturns_refused 5\nmove_us 250000\n\
                    longest_handover_us 31000\nwaits 9\nwaits_in_vain 2\nwait_us 500000\n\
                    pin_waits 1\noom_rescues 1\nloans 1\ncompactions_skipped 8\n\
                    retries 20\nretries_in_vain 1\n";
    for (name, text) in [
        ("border_pfn", format!("{}\n", 32_768 + 512 * moved)),
        ("unmovable_kb", format!("{below}\n")),
        ("movable_kb", format!("{above}\n")),
        ("unmovable_available_kb", "16384\n".to_owned()),
        ("movable_available_kb", "65536\n".to_owned()),
        ("retired_kb", "4096\n".to_owned()),
        ("unmovable_low_kb", "8192\n".to_owned()),
        ("unmovable_target_kb", "16384\n".to_owned()),
        ("unmovable_high_kb", "32768\n".to_owned()),
        ("movable_low_kb", "2048\n".to_owned()),
        ("floor_kb", "65536\n".to_owned()),
        ("ceiling_kb", "294912\n".to_owned()),
        ("unmovable_pressure", stalls(250_000 + 1000 * moved)),
        ("movable_pressure", stalls(750_000)),
        ("counters", counters.replace("GROWN", &(7 + moved).to_string())),
    ] {
        fs::write(node.join(name), text).unwrap();
    }
    for (name, us) in [("memory_unmovable", 250_000 + 1000 * moved), ("memory_movable", 750_000)] {
        fs::write(folder.join("proc/pressure").join(name), stalls(us)).unwrap();
    }
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
