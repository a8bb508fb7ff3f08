//! Huge pages on request while the daemon runs.
#![allow(missing_docs)]

mod tree;

use std::fs;
use std::io;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use prairie_daemon::log::{Format, Log, Verbosity};
use prairie_regions::choice::Place;
use prairie_regions::daemon::Daemon;
use prairie_regions::huge::Reserve;
use prairie_regions::record::Record;
use prairie_regions::request::{self, Answer, Request};
use tree::{BLOCKS, Pinned, Tree, trouble, work};

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

/// A tree whose pool has three pages, and a record of a block that a reservation took, and of one by
/// which the kernel region grew. Both were movable at boot.
fn taken_and_grown() -> (Arc<Tree>, Record) {
    let tree = Tree::new();
    fs::create_dir_all(tree.path(POOL)).unwrap();
    tree.put(&format!("{POOL}/nr_hugepages"), "3\n");
    let mut record = Record::load(&tree.path("record"), "b").unwrap();
    record.begin().unwrap();
    for block in [TAKEN, GROWN] {
        record.busy(block, Place::Movable).unwrap();
        record.idle(block, Some(Place::Kernel)).unwrap();
    }
    record.took(TAKEN).unwrap();
    (tree, record)
}

const TAKEN: u64 = 7;
const GROWN: u64 = 8;

fn quiet() -> Log {
    Log::new(Format::Text, Verbosity::Quiet, Box::new(io::sink()))
}

#[test]
fn only_blocks_that_were_taken_are_given_back() {
    let (tree, record) = taken_and_grown();
    let work = Reserve {
        roots: &tree.roots(),
        files: tree.clone(),
        log: &quiet(),
        node: 0,
        operation_time: Duration::from_secs(4),
        stop: &|| false,
    };
    let record = Mutex::new(record);
    assert_eq!(work.reserve(&record, 2 << 20, 0).unwrap(), 0);
    let words = tree.words.lock().unwrap().clone();
    assert_eq!(words, [(TAKEN, "offline".to_owned()), (TAKEN, "online_movable".to_owned())]);
    let record = record.into_inner().unwrap();
    assert!(record.state().taken.is_empty());
    assert!(record.state().blocks.contains_key(&GROWN), "the region keeps it");
}

#[test]
fn a_reservation_ends_while_a_block_is_emptied() {
    let (tree, record) = taken_and_grown();
    let hanging = Pinned::new(&tree, TAKEN);
    let began = Instant::now();
    let work = Reserve {
        roots: &tree.roots(),
        files: hanging.clone(),
        log: &quiet(),
        node: 0,
        operation_time: Duration::from_secs(60),
        stop: &|| hanging.is_reached(),
    };
    work.reserve(&Mutex::new(record), 2 << 20, 0).unwrap();
    assert!(hanging.is_reached());
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert_eq!(tree.count(Place::Offline), 0);
}

/// A block has a limit of its own, a reservation has another.
#[test]
fn a_reservation_ends_at_its_time_limit() {
    let (tree, record) = taken_and_grown();
    drop(record);
    let hanging = Pinned::new(&tree, TAKEN);
    let mut daemon = tree.daemon(false).with_files(hanging.clone());
    let mut config = daemon.config().clone();
    config.limits.operation_time = Duration::from_secs(60);
    daemon.reload(config);
    daemon.listen(request::serve(&tree.path("record")).unwrap());
    let path = tree.path("record");
    let request = Request { bytes: 2 << 20, pages: 0, node: 0 };
    let asked = thread::spawn(move || request::ask(&path, request).unwrap());
    let began = Instant::now();
    while !asked.is_finished() && began.elapsed() < Duration::from_secs(30) {
        let late = if hanging.is_reached() { 601 } else { 0 };
        daemon.tick(Duration::from_secs(late));
        thread::sleep(Duration::from_millis(1));
    }
    assert!(asked.is_finished(), "it goes on after ten minutes");
    assert_eq!(asked.join().unwrap(), Answer::Pages(0, String::new()));
}
