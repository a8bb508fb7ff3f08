//! Emergencies on a tree of files that looks like cgroup v2: offloading stops, limits are given back,
//! and the container of the lowest priority is named, and killed if that is configured.
#![allow(missing_docs)]

mod tree;

use std::fs;
use std::time::Duration;

use prairie_offload::daemon::Daemon;
use tree::{MIB, Tree};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const RULES: &str = "[class.batch]\npriority = 20\n\
    [[rule]]\ncgroups = [\"web/*\"]\nwarm_up = \"0s\"\nbackend = \"device\"\n\
    [[rule]]\ncgroups = [\"batch/*\"]\nclass = \"batch\"\nwarm_up = \"0s\"\n";

/// Two small jobs of a low priority, and a service; each with processes.
fn tree() -> Tree {
    let tree = Tree::new();
    for (name, mib) in [("web/a", 800), ("batch/b", 300), ("batch/c", 200)] {
        tree.cgroup(name, mib * MIB);
        tree.write(&format!("{name}/cgroup.kill"), "");
        tree.write(&format!("{name}/cgroup.events"), "populated 1\nfrozen 0\n");
    }
    tree.write("batch/c/memory.swap.current", &(150 * MIB).to_string());
    tree
}

fn config(emergency: &str) -> String {
    let daemon = "[daemon]\nreturn_cost = \"27us\"\ntriggers = false\ncall_time = \"1s\"\n";
    format!("{daemon}[emergency]\nafter = \"10s\"\nhold = \"20s\"\n{emergency}{RULES}")
}

/// A host whose tasks are all stalled for a share of time, in percent, from time to time.
struct Stalls {
    now: u64,
    total_us: u64,
}

impl Stalls {
    fn pass(&mut self, tree: &Tree, daemon: &mut Daemon, passed: u64, percent: u64) {
        for _ in 0..passed / 2 {
            self.total_us += percent * 20_000;
            self.now += 2;
            let line = |total: u64| format!("avg10=0.00 avg60=0.00 avg300=0.00 total={total}\n");
            let (some, full) = (line(self.total_us * 2), line(self.total_us));
            tree.write_proc("pressure/memory", &format!("some {some}full {full}"));
            daemon.tick(seconds(self.now));
        }
    }
}

fn killed(tree: &Tree) -> Vec<&'static str> {
    let names = ["web/a", "batch/b", "batch/c"];
    let text = |name: &str| fs::read_to_string(tree.path(name).join("cgroup.kill")).unwrap();
    names.into_iter().filter(|name| text(name) == "1\n").collect()
}

fn guards(daemon: &Daemon) -> Vec<String> {
    daemon.status().lock().cgroups.iter().map(|cgroup| cgroup.guard.clone()).collect()
}

#[test]
fn offloading_stops_and_limits_are_given_back() {
    let tree = tree();
    let mut daemon = tree.guarded_daemon(&config(""));
    let mut stalls = Stalls { now: 100, total_us: 0 };
    stalls.pass(&tree, &mut daemon, 20, 5);
    assert_eq!(tree.first_line("web/a/memory.zswap.max"), "0");
    tree.write("web/a/memory.zswap.max", "0\n");
    assert!(tree.asked("batch/b").is_some() && !guards(&daemon).contains(&"emergency".into()));
    // Six seconds, so that each container is sampled.
    stalls.pass(&tree, &mut daemon, 8, 50);
    assert_eq!(guards(&daemon), ["emergency"; 3]);
    assert_eq!(tree.first_line("web/a/memory.zswap.max"), "max", "given back");
    for name in ["web/a", "batch/b", "batch/c"] {
        tree.forget(name);
    }
    stalls.pass(&tree, &mut daemon, 18, 0);
    assert!(["web/a", "batch/b", "batch/c"].iter().all(|name| tree.asked(name).is_none()));
    assert_eq!(tree.first_line("web/a/memory.zswap.max"), "max");
    let status = daemon.status().lock().emergency.clone();
    assert!(
        (status.active, status.count, status.killed) == (true, 1, 0) && status.verdict.is_empty()
    );
    stalls.pass(&tree, &mut daemon, 40, 0);
    assert!(!daemon.status().lock().emergency.active && tree.asked("batch/b").is_some());
    assert_eq!(tree.first_line("web/a/memory.zswap.max"), "0", "it is routed again");
    assert!(killed(&tree).is_empty());
}

#[test]
fn a_container_is_named_and_killed_only_if_configured() {
    let tree = tree();
    let mut stalls = Stalls { now: 100, total_us: 0 };
    let mut daemon = tree.daemon(&config(""));
    stalls.pass(&tree, &mut daemon, 16, 50);
    let verdict = daemon.status().lock().emergency.verdict.clone();
    let expected = "batch/c: would be killed with kill = true: priority 20 is the lowest, \
                    350.0 MiB in RAM and swap the most of 2";
    assert_eq!(verdict, expected);
    assert!(killed(&tree).is_empty());

    let mut dry = tree.dry_daemon(&config("kill = true\n"));
    stalls.pass(&tree, &mut dry, 16, 50);
    assert!(dry.status().lock().emergency.verdict.starts_with("batch/c: dry run, else killed"));
    assert!(killed(&tree).is_empty());

    let mut daemon = tree.daemon(&config("kill = true\n"));
    stalls.pass(&tree, &mut daemon, 16, 50);
    assert_eq!(killed(&tree), ["batch/c"]);
    // It is gone; what is left of the pressure is the next one's.
    tree.write("batch/c/cgroup.events", "populated 0\nfrozen 0\n");
    stalls.pass(&tree, &mut daemon, 10, 50);
    assert_eq!(killed(&tree), ["batch/c"], "15 s after the first one");
    stalls.pass(&tree, &mut daemon, 8, 50);
    assert_eq!(killed(&tree), ["batch/b", "batch/c"]);
    assert_eq!(daemon.status().lock().emergency.killed, 2);
}

#[test]
fn systemd_oomd_is_left_to_decide() {
    let tree = tree();
    tree.write_proc("812/comm", "systemd-oomd\n");
    let mut stalls = Stalls { now: 100, total_us: 0 };
    let mut daemon = tree.daemon(&config("kill = true\n"));
    stalls.pass(&tree, &mut daemon, 40, 90);
    assert!(killed(&tree).is_empty());
    let verdict = daemon.status().lock().emergency.verdict.clone();
    assert!(verdict.starts_with("batch/c: not killed, systemd-oomd decides"), "{verdict}");
    assert_eq!(guards(&daemon), ["emergency"; 3]);
}

#[test]
fn a_kernel_without_cgroup_kill_is_reported() {
    let tree = tree();
    fs::remove_file(tree.path("batch/c/cgroup.kill")).unwrap();
    let mut stalls = Stalls { now: 100, total_us: 0 };
    let mut daemon = tree.daemon(&config("kill = true\n"));
    stalls.pass(&tree, &mut daemon, 16, 50);
    let emergency = daemon.status().lock().emergency.clone();
    assert!(emergency.verdict.starts_with("batch/c: cannot be killed: cgroup.kill: "));
    assert_eq!(emergency.killed, 0);
    // Garbage in the host's file: no emergency, and no panic.
    for text in ["", "full\n", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"] {
        tree.write_proc("pressure/memory", text);
        stalls.now += 2;
        daemon.tick(seconds(stalls.now));
    }
}
