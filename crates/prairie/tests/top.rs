//! `prairie top` in a real terminal, that of tmux.
#![allow(missing_docs)]

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A tmux server of its own, ended with the test.
struct Tmux<'a> {
    socket: &'a Path,
}

impl Tmux<'_> {
    fn run(&self, arguments: &[&str]) -> Output {
        let mut tmux = Command::new("tmux");
        // Without the settings and the server of whoever runs the test.
        tmux.arg("-f/dev/null").arg("-S").arg(self.socket).env_remove("TMUX").args(arguments);
        tmux.output().expect("tmux runs")
    }

    fn screen(&self) -> String {
        common::stdout(&self.run(&["capture-pane", "-p"]))
    }

    /// Waits until the screen shows `text`.
    fn wait_for(&self, text: &str) -> String {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let screen = self.screen();
            if screen.contains(text) {
                return screen;
            }
            assert!(Instant::now() < deadline, "no {text:?} on the screen:\n{screen}");
            sleep(Duration::from_millis(50));
        }
    }

    fn press(&self, key: &str) {
        assert!(self.run(&["send-keys", key]).status.success(), "{key}");
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}

#[test]
fn keys_reach_every_panel_of_a_small_terminal() {
    if Command::new("tmux").arg("-V").output().is_err() {
        return prairie_testing::skip_without("tmux");
    }
    let folder = tempfile::tempdir().unwrap();
    let files = [
        ("buddyinfo", "Node 0, zone   Normal 7 1 1 1 1 1 1 1 2 1 1\n"),
        ("meminfo", "MemTotal: 65536 kB\nAnonPages: 1024 kB\n"),
        ("vmstat", "compact_stall 3\nthp_fault_alloc 5\n"),
    ];
    let proc = common::write_proc(folder.path(), &files);
    let socket = folder.path().join("tmux");
    let tmux = Tmux { socket: &socket };
    let exit = folder.path().join("exit");
    let command = format!(
        "LC_ALL=C.UTF-8 {} top --interval 200ms --frames-budget 0 --proc {}; echo $? >{}; sleep 60",
        env!("CARGO_BIN_EXE_prairie"),
        proc.display(),
        exit.display()
    );
    let started = tmux.run(&["new", "-d", "-x", "80", "-y", "24", &command]);
    assert!(started.status.success(), "{}", common::stderr(&started));
    let first = tmux.wait_for("prairie top");
    assert!(first.lines().all(|line| line.chars().count() <= 80), "{first}");
    tmux.wait_for("F10Quit");
    // What each panel alone shows of these files.
    let panels = [
        "there is no map",
        "F_u 64K",
        "the kernel's count",
        "since boot",
        "stalls",
        "no offload daemon",
    ];
    let mut screens = Vec::new();
    for (at, text) in panels.into_iter().enumerate() {
        tmux.press(&(at + 1).to_string());
        let screen = tmux.wait_for(text);
        assert!(screen.contains("F_u  2M["), "{screen}");
        screens.push(screen);
    }
    tmux.press("F1");
    tmux.wait_for("choose a panel");
    tmux.press("F1");
    tmux.press("q");
    let deadline = Instant::now() + Duration::from_secs(10);
    while !fs::read_to_string(&exit).is_ok_and(|code| code.ends_with('\n')) {
        assert!(Instant::now() < deadline, "q does not quit:\n{}", tmux.screen());
        sleep(Duration::from_millis(50));
    }
    assert_eq!(fs::read_to_string(&exit).unwrap(), "0\n");
    // The screen is as before.
    assert!(!tmux.screen().contains("F_u  2M["), "{}", tmux.screen());
}

/// A connection is lost, and the program that is left behind must not keep a CPU busy.
#[test]
fn a_terminal_that_hangs_up_ends_it() {
    if Command::new("tmux").arg("-V").output().is_err() {
        return prairie_testing::skip_without("tmux");
    }
    let folder = tempfile::tempdir().unwrap();
    let proc = common::write_proc(
        folder.path(),
        &[("buddyinfo", "Node 0, zone   Normal 7 1 1 1 1 1 1 1 2 1 1\n")],
    );
    let socket = folder.path().join("tmux");
    let tmux = Tmux { socket: &socket };
    let exit = folder.path().join("exit");
    let command = format!(
        "trap '' HUP; {} top --interval 200ms --frames-budget 0 --proc {}; echo $? >{}",
        env!("CARGO_BIN_EXE_prairie"),
        proc.display(),
        exit.display()
    );
    let started = tmux.run(&["new", "-d", "-x", "80", "-y", "24", &command]);
    assert!(started.status.success(), "{}", common::stderr(&started));
    tmux.wait_for("F10Quit");
    tmux.run(&["kill-server"]);
    let deadline = Instant::now() + Duration::from_secs(20);
    while !fs::read_to_string(&exit).is_ok_and(|code| code.ends_with('\n')) {
        assert!(Instant::now() < deadline, "it goes on without a terminal");
        sleep(Duration::from_millis(50));
    }
}
