//! What is left to do after a daemon that was killed at the worst moment.

mod tree;

use std::fs;
use std::io::{self, BufReader, Cursor, Read};
use std::time::{Duration, Instant};

use prairie_daemon::log::{Format, Log, Verbosity};
use prairie_regions::choice::Place;
use prairie_regions::config::Config;
use prairie_regions::guardian::{Acted, act, watch};
use prairie_regions::lock::Lock;
use prairie_regions::operation::place;
use prairie_regions::record::Record;
use prairie_regions::request::Request;
use prairie_regions::reserve::without_daemon;
use prairie_regions::undo::Undo;

use tree::Tree;

/// The block on its way, and one that arrived before.
const UNDER_WAY: u64 = 7;
const ARRIVED: u64 = 8;

/// A tree with a block offline, as a daemon left it that was killed between `offline` and
/// `online_movable`; its configuration; and what it wrote into the guardian's pipe.
fn killed(tree: &Tree) -> (Config, String) {
    fs::create_dir_all(tree.path("proc/sys/kernel/random")).unwrap();
    tree.put("proc/sys/kernel/random/boot_id", "b\n");
    let mut config = Config::default();
    config.daemon.record = tree.path("record");
    config.daemon.guardian_grace = Duration::ZERO;
    let mut record = Record::load(&config.daemon.record, "b").unwrap();
    record.begin().unwrap();
    record.busy(ARRIVED, Place::Kernel).unwrap();
    tree.set(ARRIVED, "online", "Movable");
    record.idle(ARRIVED, Some(Place::Movable)).unwrap();
    record.busy(UNDER_WAY, Place::Kernel).unwrap();
    tree.set(UNDER_WAY, "offline", "Normal Movable");
    tree.update();
    (config, record.state().lines())
}

fn quiet() -> Log {
    Log::new(Format::Text, Verbosity::Quiet, Box::new(io::sink()))
}

#[test]
fn a_block_that_was_offline_comes_online_first_of_all() {
    let tree = Tree::new();
    let (config, pipe) = killed(&tree);
    let state = watch(Cursor::new(pipe)).unwrap();
    let acted = act(&state, &config, &tree.roots(), tree.clone(), quiet()).unwrap();
    assert_eq!(acted, Acted::Undone);
    let words = tree.words.lock().unwrap().clone();
    assert_eq!(words[0], (UNDER_WAY, "online_kernel".to_owned()), "{words:?}");
    // Both are where they were before the daemon, and nothing is left to undo.
    for block in tree.blocks().iter().filter(|b| [UNDER_WAY, ARRIVED].contains(&b.number)) {
        assert_eq!(place(block), Place::Kernel, "{block:?}");
    }
    assert!(!config.daemon.record.exists());
}

/// A pipe whose last line comes with a signal for the whole service.
struct Stopped<'a>(Cursor<&'a [u8]>);

impl Read for Stopped<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        signal_hook::low_level::raise(signal_hook::consts::SIGTERM)?;
        self.0.read(buffer)
    }
}

#[test]
fn a_signal_does_not_end_the_guardian_before_the_daemon() {
    let state = watch(BufReader::new(Stopped(Cursor::new(b"busy 7\nend\n")))).unwrap();
    assert!(state.ended && state.busy.contains(&7), "{state:?}");
}

#[test]
fn where_a_daemon_came_again_the_guardian_leaves_the_block_to_it() {
    let tree = Tree::new();
    let (config, pipe) = killed(&tree);
    let lock = Lock::take(&tree.roots(), "daemon").unwrap().unwrap();
    let state = watch(Cursor::new(pipe)).unwrap();
    let acted = act(&state, &config, &tree.roots(), tree.clone(), quiet()).unwrap();
    assert_eq!(acted, Acted::Relieved);
    assert!(tree.words.lock().unwrap().is_empty());
    drop(lock);
}

/// A reservation in the guardian's grace relieves it: the command does what the guardian would have
/// done.
#[test]
fn a_reservation_in_the_grace_restores_what_the_daemon_left() {
    for (relieved, left) in [(true, Place::Kernel), (false, Place::Movable)] {
        let tree = Tree::new();
        let (config, _) = killed(&tree);
        let pool = "sys/devices/system/node/node0/hugepages/hugepages-2048kB";
        fs::create_dir_all(tree.path(pool)).unwrap();
        tree.put(&format!("{pool}/nr_hugepages"), "0\n");
        let mut record = Record::load(&config.daemon.record, "b").unwrap();
        record.begin().unwrap();
        let (roots, log) = (tree.roots(), quiet());
        let work = Undo {
            roots: &roots,
            files: tree.clone(),
            log: &log,
            operation_time: Duration::from_secs(4),
            until: Instant::now() + Duration::from_secs(60),
            stop: &|| false,
        };
        let request = Request { bytes: 2 << 20, pages: 3, node: 0 };
        assert_eq!(without_daemon(record, &work, request, relieved).unwrap(), 3);
        assert_eq!(tree.count(Place::Offline), 0);
        let places: Vec<_> = tree.blocks().iter().map(place).collect();
        assert_eq!(places[UNDER_WAY as usize], Place::Kernel);
        assert_eq!(places[ARRIVED as usize], left, "relieved: {relieved}");
    }
}
