//! Another configuration for a running daemon, on a tree of files that looks like cgroup v2.
#![allow(missing_docs)]

mod tree;

use std::time::Duration;

use tree::{MIB, Tree};

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
