//! At rest a poll is a glance at free memory; whatever changes ends rest at that poll.
#![allow(missing_docs)]

mod tree;

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use prairie_regions::choice::Place;
use prairie_regions::daemon::Daemon;
use prairie_regions::status::Status;
use tree::{FRAMES, Tree, trouble, work};

/// A daemon that has been set up and has come to rest.
fn rested(tree: &Arc<Tree>) -> (Daemon, Status) {
    let mut daemon = tree.daemon(false);
    work(&mut daemon, 0, 100);
    let status = daemon.status().lock().clone();
    assert!(status.nodes[0].set_up && status.trouble.is_empty(), "{status:?}");
    (daemon, status)
}

#[test]
fn a_poll_at_rest_reads_no_page_flags_and_no_zones() {
    let tree = Tree::new();
    let (mut daemon, before) = rested(&tree);
    let mut second = 100;
    while daemon.status().lock().samples == before.samples {
        work(&mut daemon, second, 1);
        second += 1;
    }
    // There has just been a sample. If the daemon read another, it would report it.
    let zones = fs::read(tree.path("proc/zoneinfo")).unwrap();
    fs::write(tree.path("proc/zoneinfo"), "no zones\n").unwrap();
    work(&mut daemon, second, 8);
    assert_eq!(trouble(&daemon), "");
    fs::write(tree.path("proc/zoneinfo"), zones).unwrap();
    let before = daemon.status().lock().clone();
    work(&mut daemon, second + 8, 297);
    let after = daemon.status().lock().clone();
    assert_eq!(after.blocks_read, before.blocks_read, "no page flags");
    let (samples, glances) = (after.samples - before.samples, after.glances - before.glances);
    assert!((27..=32).contains(&samples), "{samples} samples in 305 s");
    assert!((1200..=1700).contains(&glances), "{glances} glances in 305 s: four a second");
    assert_eq!(after.operations, before.operations);
}

#[test]
fn kernel_memory_that_is_used_up_ends_rest_at_the_next_poll() {
    for wait in [0, 4, 11] {
        let tree = Tree::new();
        let (mut daemon, before) = rested(&tree);
        work(&mut daemon, 100, wait);
        *tree.kernel_used.lock().unwrap() = 4 * FRAMES - 600;
        tree.update();
        work(&mut daemon, 100 + wait, 2);
        let after = daemon.status().lock().clone();
        assert!(after.operations > before.operations, "after {wait} s: {after:?}");
        assert!(tree.count(Place::Kernel) > 4);
    }
}

#[test]
fn a_burst_is_answered_before_the_next_poll() {
    for tenths in [1, 5, 9] {
        let tree = Tree::new();
        let mut daemon = tree.daemon(false);
        work(&mut daemon, 0, 100);
        // From a poll on: a tenth of a second later, a third of a block is gone at once.
        let polled = |daemon: &Daemon| daemon.status().lock().samples;
        let (mut at, before) = (100_000, polled(&daemon));
        while polled(&daemon) == before {
            at += 100;
            daemon.tick(Duration::from_millis(at));
        }
        let status = daemon.status().lock().clone();
        *tree.kernel_used.lock().unwrap() = 4 * FRAMES - 600;
        tree.update();
        let since = Duration::from_millis(at + tenths * 100);
        daemon.tick(since);
        daemon.tick(since + Duration::from_millis(250));
        assert!(daemon.timer().is_busy() || polled(&daemon) > status.samples, "{tenths}");
    }
}

#[test]
fn page_cache_that_is_used_up_ends_rest_at_the_next_poll() {
    let meminfo = |kib| format!("SwapFree: 0 kB\nHugetlb: 0 kB\nInactive(file): {kib} kB\n");
    let tree = Tree::new();
    tree.put("proc/meminfo", &meminfo(90_000));
    let (mut daemon, before) = rested(&tree);
    tree.put("proc/meminfo", &meminfo(80_000));
    work(&mut daemon, 100, 2);
    assert!(daemon.status().lock().samples > before.samples);
}

#[test]
fn without_buddyinfo_each_poll_is_a_sample() {
    let tree = Tree::new();
    fs::remove_file(tree.path("proc/buddyinfo")).unwrap();
    let mut daemon = tree.daemon(false);
    // Conversions write the file, which is not opened any more.
    work(&mut daemon, 0, 100);
    let before = daemon.status().lock().clone();
    work(&mut daemon, 100, 60);
    let after = daemon.status().lock().clone();
    assert!(after.samples - before.samples >= 59);
}
