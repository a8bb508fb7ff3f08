//! Classes on a tree of files that looks like cgroup v2: objectives that are met and missed, and
//! priorities where room is scarce.
#![allow(missing_docs)]

mod tree;

use std::time::Duration;

use prairie_daemon::metrics::encode;
use prairie_daemon::status::Status as _;
use prairie_offload::daemon::Daemon;
use tree::{MIB, Tree};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const DAEMON: &str =
    "[daemon]\nreturn_cost = \"27us\"\ntriggers = false\ncall_time = \"1s\"\ndiscover = \"60s\"\n";

/// The guard of each container, by path.
fn guards(daemon: &Daemon) -> Vec<String> {
    daemon.status().lock().cgroups.iter().map(|cgroup| cgroup.guard.clone()).collect()
}

/// A container of a class whose p99 is read from a file of the tree, and one without a class.
fn with_objective(tree: &Tree) -> Daemon {
    tree.cgroup("batch/b", 400 * MIB);
    tree.cgroup("web/a", 400 * MIB);
    let file = tree.path("../p99");
    tree.daemon(&format!(
        "{DAEMON}[class.web]\nwarm_up = \"0s\"\n\
         objective = {{ file = {file:?}, at_most = 5.0, every = \"2s\" }}\n\
         [[rule]]\ncgroups = [\"web/*\"]\nclass = \"web\"\n\
         [[rule]]\ncgroups = [\"batch/*\"]\nwarm_up = \"0s\"\n"
    ))
}

#[test]
fn a_class_that_misses_its_objective_is_left_alone() {
    let tree = Tree::new();
    tree.write("../p99", "4.5\n");
    let mut daemon = with_objective(&tree);
    for at in 0..4 {
        daemon.tick(seconds(3 * at));
    }
    assert_eq!(tree.asked("web/a"), Some(51 * 4096), "met");
    tree.forget("web/a");
    tree.write("../p99", "5.5 ms\n");
    daemon.tick(seconds(12));
    assert_eq!(guards(&daemon)[1], "", "half a period says nothing of pressure");
    for at in 5..30 {
        daemon.tick(seconds(3 * at));
        let missed = daemon.status().lock().cgroups[1].clone();
        assert_eq!((missed.guard.as_str(), missed.class.as_str()), ("objective", "web"), "{at}");
    }
    assert_eq!(tree.asked("web/a"), None);
    assert!(tree.asked("batch/b").is_some(), "others are served");
    let text = encode(daemon.status().lock().metrics());
    assert!(text.contains("prairie_offload_class_objective{class=\"web\"} 5.5\n"), "{text}");
    assert!(text.contains("prairie_offload_class_objective_at_most{class=\"web\"} 5.0\n"));
    // Met again: after the hold of a minute, half as much.
    tree.write("../p99", "4.9\n");
    for at in 30..49 {
        daemon.tick(seconds(3 * at));
        assert_eq!(guards(&daemon)[1], "objective", "{at}");
    }
    assert_eq!(tree.asked("web/a"), None);
    for at in 49..53 {
        daemon.tick(seconds(3 * at));
    }
    assert_eq!(tree.asked("web/a"), Some(25 * 4096));
}

#[test]
fn an_objective_that_cannot_be_read_for_three_intervals_stops_reclaim() {
    let tree = Tree::new();
    let mut daemon = with_objective(&tree);
    for at in 0..4 {
        daemon.tick(seconds(3 * at));
    }
    assert_eq!(guards(&daemon)[1], "objective-unknown", "never read");
    let trouble = daemon.status().lock().classes[0].trouble.clone();
    assert!(trouble.contains("p99: "), "{trouble}");
    tree.write("../p99", "1\n");
    daemon.tick(seconds(12));
    daemon.tick(seconds(15));
    assert_eq!(guards(&daemon)[1], "");
    tree.write("../p99", "none\n");
    daemon.tick(seconds(18));
    daemon.tick(seconds(21));
    assert_eq!(guards(&daemon)[1], "", "6 s without a value");
    daemon.tick(seconds(24));
    daemon.tick(seconds(27));
    assert_eq!(guards(&daemon)[1], "objective-unknown");
    let class = daemon.status().lock().classes[0].clone();
    assert_eq!((class.objective.as_str(), class.value), ("unknown", None));
    // A reload without the objective ends it.
    let rules = "[[rule]]\ncgroups = [\"web/*\"]\nwarm_up = \"0s\"\n";
    daemon.reload(tree.config(&format!("{DAEMON}{rules}")));
    daemon.tick(seconds(33));
    assert_eq!(guards(&daemon), [""]);
    assert!(daemon.status().lock().classes.is_empty());
}

#[test]
fn an_objective_that_nobody_writes_any_more_becomes_unknown() {
    let tree = Tree::new();
    tree.write("../p99", "1\n");
    let mut daemon = with_objective(&tree);
    let mut step = 0;
    let mut guard = |seconds_old: u64| {
        let file = std::fs::File::options().write(true).open(tree.path("../p99")).unwrap();
        let written = std::time::SystemTime::now() - seconds(seconds_old);
        file.set_modified(written).unwrap();
        for _ in 0..6 {
            daemon.tick(seconds(3 * step));
            step += 1;
        }
        guards(&daemon)[1].clone()
    };
    assert_eq!(guard(0), "");
    assert_eq!(guard(4), "", "read every 2 s, valid for 6 s");
    assert_eq!(guard(60), "objective-unknown");
    assert_eq!(guard(0), "");
    guard(60);
    let trouble = daemon.status().lock().classes[0].trouble.clone();
    assert!(trouble.contains("p99: written 60 s ago, expected a new value every 2 s"), "{trouble}");
}

#[test]
fn where_swap_is_scarce_the_lower_class_goes_on() {
    let tree = Tree::new();
    tree.cgroup("batch/b", 400 * MIB);
    tree.cgroup("web/a", 400 * MIB);
    let mut daemon = tree.daemon(&format!(
        "{DAEMON}[class.web]\npriority = 80\nwarm_up = \"0s\"\n\
         [class.batch]\npriority = 20\nwarm_up = \"0s\"\n\
         [[rule]]\ncgroups = [\"web/*\"]\nclass = \"web\"\n\
         [[rule]]\ncgroups = [\"batch/*\"]\nclass = \"batch\"\n"
    ));
    let mut now = 0;
    let mut periods = |daemon: &mut Daemon, count: u64| {
        for _ in 0..count {
            daemon.tick(seconds(now));
            now += 3;
        }
    };
    periods(&mut daemon, 6);
    assert_eq!(guards(&daemon), ["", ""], "enough room");
    // 18 % are free: 60 % of the way from 30 % to the reserve of 10 %.
    tree.write_proc("swaps", "/dev/vda partition 1000000 820000 -2\n");
    periods(&mut daemon, 24);
    assert_eq!(guards(&daemon), ["", "yielding"]);
    // The lower class has nothing more to give.
    tree.write("batch/b/memory.current", &(30 * MIB).to_string());
    periods(&mut daemon, 24);
    assert_eq!(guards(&daemon), ["small", ""]);
}

#[test]
fn writes_are_shaped_before_they_stop() {
    let tree = Tree::new();
    tree.cgroup("work/a", 400 * MIB);
    // 100 MiB an hour.
    let config = format!(
        "{DAEMON}swap_writes_per_day = \"2400M\"\n\
         [[rule]]\ncgroups = [\"work/*\"]\nwarm_up = \"0s\"\nreclaim_ratio = 0.01\n"
    );
    let mut daemon = tree.daemon(&config);
    let mut at = 0;
    let mut asked_after = |mib_written: u64| {
        tree.write_proc("vmstat", &format!("pswpout {}\n", mib_written << 8));
        tree.forget("work/a");
        at += 6;
        daemon.tick(seconds(at));
        let status = daemon.status().lock().clone();
        let scarcity = (status.write_scarcity * 100.0).round() as u64;
        (tree.asked("work/a").map(|bytes| bytes >> 10), scarcity, status.cgroups[0].guard.clone())
    };
    asked_after(0);
    assert_eq!(asked_after(40), (Some(4096), 0, String::new()), "more than half is left");
    // 25 MiB are left, half of what is kept without withholding anything.
    let (asked, scarcity, _) = asked_after(75);
    assert!(asked.is_some_and(|kib| (2000..2200).contains(&kib)), "{asked:?}");
    assert!((48..=50).contains(&scarcity), "{scarcity}");
    let (asked, scarcity, _) = asked_after(99);
    assert!(asked.is_some_and(|kib| (60..200).contains(&kib)), "{asked:?}");
    assert!((95..98).contains(&scarcity), "{scarcity}");
    assert_eq!(asked_after(150), (None, 100, "write-budget".to_owned()));
}

/// Swapping to zram is counted by the kernel as writing to a device, but is none.
#[test]
fn writes_to_zram_wear_out_nothing() {
    for (swaps, mib, left) in [("", 0, 100), ("/dev/sda partition 1048576 0 -2\n", 30, 70)] {
        let tree = Tree::new();
        tree.cgroup("work/a", 400 * MIB);
        tree.write_proc("swaps", &format!("/dev/zram0 partition 1048576 0 100\n{swaps}"));
        let written = |zram: u64, disk: u64| {
            tree.write_proc("vmstat", &format!("pswpout {}\n", (zram + disk) << 8));
            let line =
                |name: &str, mib: u64| format!(" 253 0 {name} 1 0 8 1 9 0 {} 7\n", mib << 11);
            let stats = format!("{}{}", line("zram0", zram), line("sda", disk));
            tree.write_proc("diskstats", &stats);
        };
        written(10, 5);
        // 100 MiB an hour.
        let config =
            format!("{DAEMON}swap_writes_per_day = \"2400M\"\n[[rule]]\ncgroups = [\"work/*\"]\n");
        let mut daemon = tree.daemon(&config);
        daemon.tick(seconds(0));
        written(5_000, 5 + mib);
        for at in 1..4 {
            daemon.tick(seconds(6 * at));
        }
        let status = daemon.status().lock().clone();
        let budget = status.write_budget_bytes.map(|bytes| bytes / MIB);
        assert_eq!(budget, Some(left), "{swaps}");
    }
}
