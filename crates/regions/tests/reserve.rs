//! Huge pages on request while the daemon runs.
#![allow(missing_docs)]

mod tree;

use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use prairie_regions::choice::Place;
use prairie_regions::daemon::Daemon;
use prairie_regions::request::{self, Answer, Request};
use tree::{BLOCKS, Tree, trouble, work};

const POOL: &str = "sys/devices/system/node/node0/hugepages/hugepages-2048kB";

fn daemon(tree: &Arc<Tree>, dry_run: bool) -> Daemon {
    let mut daemon = tree.daemon(dry_run);
    daemon.listen(request::serve(&tree.path("record")).unwrap());
    work(&mut daemon, 0, 20);
    daemon
}

/// What the daemon answers to a request for `pages`, as another process asks it.
fn ask(tree: &Tree, daemon: &mut Daemon, pages: u64) -> Answer {
    let record = tree.path("record");
    let request = Request { bytes: 2 << 20, pages, node: 0 };
    let asked = thread::spawn(move || request::ask(&record, request).unwrap());
    let (began, mut at) = (Instant::now(), 20_000);
    while !asked.is_finished() && began.elapsed() < Duration::from_secs(10) {
        at += 100;
        daemon.tick(Duration::from_millis(at));
        thread::sleep(Duration::from_millis(1));
    }
    asked.join().unwrap()
}

#[test]
fn the_daemon_brings_the_pool_to_its_size_and_goes_on() {
    let tree = Tree::new();
    fs::create_dir_all(tree.path(POOL)).unwrap();
    tree.put(&format!("{POOL}/nr_hugepages"), "0\n");
    let mut daemon = daemon(&tree, false);
    for pages in [7, 0] {
        assert_eq!(ask(&tree, &mut daemon, pages), Answer::Pages(pages, String::new()));
        let pool = fs::read_to_string(tree.path(&format!("{POOL}/nr_hugepages"))).unwrap();
        assert_eq!(pool.trim(), pages.to_string());
    }
    // It goes on to grow.
    *tree.kernel_used.lock().unwrap() = 4 * tree::FRAMES;
    tree.update();
    work(&mut daemon, 100, 20);
    assert!(tree.count(Place::Movable) < BLOCKS - 4, "the kernel region grew");
    daemon.stop().unwrap();
}

#[test]
fn a_size_that_the_kernel_does_not_have_is_refused_in_a_line() {
    let tree = Tree::new();
    let mut daemon = daemon(&tree, false);
    let answer = ask(&tree, &mut daemon, 1);
    assert!(
        matches!(&answer, Answer::Refused(why) if why.contains("nr_hugepages: ")),
        "{answer:?}"
    );
    assert_eq!(trouble(&daemon), "");
}

#[test]
fn a_dry_run_reserves_nothing() {
    let tree = Tree::new();
    fs::create_dir_all(tree.path(POOL)).unwrap();
    tree.put(&format!("{POOL}/nr_hugepages"), "0\n");
    let mut daemon = daemon(&tree, true);
    let answer = ask(&tree, &mut daemon, 1);
    assert!(matches!(&answer, Answer::Refused(why) if why.contains("dry")), "{answer:?}");
    assert_eq!(fs::read_to_string(tree.path(&format!("{POOL}/nr_hugepages"))).unwrap(), "0\n");
}
