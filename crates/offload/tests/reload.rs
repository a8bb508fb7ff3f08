//! Another configuration for a running daemon, on a tree of files that looks like cgroup v2.
#![allow(missing_docs)]

mod tree;

use std::time::Duration;

use prairie_daemon::log::Format;
use prairie_offload::daemon::Daemon;
use tree::{MIB, Tree, captured};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const DAEMON: &str = "[daemon]\nreturn_cost = \"27us\"\ntriggers = false\ncall_time = \"1s\"\n";

fn rule(cgroups: &str, more: &str) -> String {
    format!("[[rule]]\ncgroups = [\"{cgroups}\"]\nwarm_up = \"0s\"\n{more}")
}

#[test]
fn another_back_end_begins_without_what_became_of_the_last() {
    for before in ["zswap", "auto", "tiers"] {
        let tree = Tree::new();
        tree.cgroup("work/a", 400 * MIB);
        tree.write("work/a/memory.zswap.writeback", "1\n");
        let pool = |zswap: u64| format!("zswap {}\nzswapped {}\n", zswap * MIB, 100 * MIB);
        // Pages that compress badly are sent past zswap.
        tree.stat("work/a", 400 * MIB, &pool(90));
        let config = |backend: &str| {
            format!("{DAEMON}{}", rule("work/*", &format!("backend = \"{backend}\"\n")))
        };
        let mut daemon = tree.guarded_daemon(&config(before));
        daemon.tick(seconds(0));
        daemon.tick(seconds(6));
        if before != "zswap" {
            assert_eq!(tree.first_line("work/a/memory.zswap.max"), "0", "{before}");
            tree.write("work/a/memory.zswap.max", "0\n");
        }
        tree.stat("work/a", 400 * MIB, &pool(30));
        let after = if before == "auto" { "tiers" } else { "auto" };
        daemon.reload(tree.config(&config(after)));
        for step in 2..6 {
            daemon.tick(seconds(6 * step));
        }
        assert_eq!(tree.first_line("work/a/memory.zswap.max"), "max", "{before}");
        assert_eq!(daemon.status().lock().cgroups[0].backend, after, "{before}");
    }
}

/// Stalls of the whole host in the two seconds before `now`.
fn stall(tree: &Tree, now: u64) {
    let line = format!("avg10=0.00 avg60=0.00 avg300=0.00 total={}\n", now * 1_000_000);
    tree.write_proc("pressure/memory", &format!("some {line}full {line}"));
}

#[test]
fn a_rule_that_is_gone_is_not_asked_for() {
    let tree = Tree::new();
    for name in ["batch/b", "web/a"] {
        tree.cgroup(name, 400 * MIB);
        tree.write(&format!("{name}/cgroup.events"), "populated 1\nfrozen 0\n");
    }
    tree.write("../p99", "1\n");
    let file = tree.path("../p99");
    let classes = format!(
        "{DAEMON}[emergency]\nafter = \"2s\"\n[class.web]\nwarm_up = \"0s\"\n\
         objective = {{ file = {file:?}, at_most = 5.0, every = \"2s\" }}\n"
    );
    let web = "[[rule]]\ncgroups = [\"web/*\"]\nclass = \"web\"\n";
    let mut daemon = tree.daemon(&format!("{classes}{}{web}", rule("batch/*", "")));
    for at in 0..4 {
        stall(&tree, 0);
        daemon.tick(seconds(2 * at));
    }
    assert_eq!(daemon.containers()[1].rule, 1);
    // The class is missed, and a container is to be named, at the first look after the reload.
    tree.write("../p99", "9\n");
    stall(&tree, 8);
    daemon.reload(tree.config(&format!("{classes}{web}")));
    daemon.tick(seconds(8));
    let verdict = daemon.status().lock().emergency.verdict.clone();
    assert!(verdict.starts_with("web/a: would be killed"), "{verdict}");
    daemon.tick(seconds(10));
    let status = daemon.status().lock().clone();
    assert_eq!((status.cgroups.len(), status.classes[0].objective.as_str()), (1, "missed"));
}

#[test]
fn a_write_limit_counts_from_the_reload_that_adds_it() {
    let tree = Tree::new();
    tree.cgroup("work/a", 400 * MIB);
    let written = |mib: u64| tree.write_proc("vmstat", &format!("pswpout {}\n", mib << 8));
    written(1 << 20);
    let rule = rule("work/*", "");
    let mut daemon = tree.daemon(&format!("{DAEMON}{rule}"));
    daemon.tick(seconds(0));
    daemon.tick(seconds(6));
    // 100 MiB an hour; a terabyte was written before.
    daemon.reload(tree.config(&format!("{DAEMON}swap_writes_per_day = \"2400M\"\n{rule}")));
    for step in 2..6 {
        daemon.tick(seconds(6 * step));
    }
    let left = |daemon: &Daemon| daemon.status().lock().write_budget_bytes.unwrap() / MIB;
    assert_eq!(left(&daemon), 100);
    written((1 << 20) + 40);
    for step in 6..12 {
        daemon.tick(seconds(6 * step));
    }
    assert!((60..63).contains(&left(&daemon)), "{} MiB", left(&daemon));
}

#[test]
fn an_emergency_ends_with_the_policy_that_found_it() {
    for after in ["", "[emergency]\nfull_percent = 90\n"] {
        let tree = Tree::new();
        tree.cgroup("work/a", 400 * MIB);
        let rule = rule("work/*", "");
        let mut daemon = tree.daemon(&format!("{DAEMON}[emergency]\n{rule}"));
        for at in 0..4 {
            stall(&tree, 2 * at);
            daemon.tick(seconds(2 * at));
        }
        assert!(daemon.status().lock().emergency.active);
        daemon.reload(tree.config(&format!("{DAEMON}{after}{rule}")));
        let emergency = daemon.status().lock().emergency.clone();
        assert_eq!((emergency.active, emergency.full_share, emergency.count), (false, 0.0, 1));
        for at in 4..10 {
            daemon.tick(seconds(2 * at));
        }
        assert_eq!(daemon.status().lock().cgroups[0].guard, "", "{after}");
    }
}

#[test]
fn keys_that_wait_for_the_next_start_are_named() {
    let tree = Tree::new();
    let (log, told) = captured(Format::Text);
    let rule = rule("work/*", "");
    let mut daemon = tree.daemon_with(&format!("{DAEMON}{rule}"), log, false);
    let same = format!("{DAEMON}discover = \"20s\"\ndeadline = \"1s\"\n{rule}");
    daemon.reload(tree.config(&same));
    assert!(!told.text().contains("next start"), "{}", told.text());
    let other = format!(
        "[daemon]\nreturn_cost = \"30us\"\nworkers = 2\nsocket = \"/run/o.sock\"\n\
         metrics = \"127.0.0.1:9750\"\nleases = \"/run/o.leases\"\nseries = \"o.parquet\"\n{rule}"
    );
    daemon.reload(tree.config(&other));
    let expected = "socket, leases, metrics, workers, return_cost, triggers, series: changed, \
                    takes effect at the next start";
    assert!(told.text().contains(expected), "{}", told.text());
}
