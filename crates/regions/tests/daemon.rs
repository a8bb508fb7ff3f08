//! The daemon in a tree of files that looks like a kernel's.
#![allow(missing_docs)]

mod tree;

use std::fs;
use std::io;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prairie_daemon::log::{Format, Log, Verbosity};
use prairie_host::PageFlags;
use prairie_regions::choice::{Block, Place};
use prairie_regions::kswapd;
use prairie_regions::operation::place;
use prairie_regions::record::Record;
use prairie_regions::settings::Setting;
use prairie_regions::undo::{Undo, Undone, undo};
use tree::{BLOCKS, FRAMES, Pinned, Tree, trouble, work};

fn undo_all(tree: &Arc<Tree>, record: &mut Record) -> Undone {
    let log = Log::new(Format::Text, Verbosity::Quiet, Box::new(io::sink()));
    let work = Undo {
        roots: &tree.roots(),
        files: tree.clone(),
        log: &log,
        operation_time: Duration::from_secs(4),
        until: Instant::now() + Duration::from_secs(60),
        stop: &|| false,
    };
    undo(record, &work).unwrap()
}

/// With hundreds of blocks, reading all that are left before each one takes minutes.
#[test]
fn an_undo_reads_each_block_twice_at_most() {
    let tree = Tree::new();
    let mut daemon = tree.daemon(false);
    work(&mut daemon, 0, 20);
    let mut record = daemon.stop().unwrap();
    let undone = undo_all(&tree, &mut record);
    assert_eq!((undone.returned as u64, undone.left.len()), (BLOCKS - 4, 0));
    assert!(undone.blocks_read <= 2 * (BLOCKS - 4), "{} blocks read", undone.blocks_read);
}

/// Candidates are ranked by a few of their page flags; the one that is chosen is read whole. Here each
/// block but one holds a hugetlb page where a sketch does not look.
#[test]
fn a_block_is_read_whole_before_it_grows() {
    let tree = Tree::new();
    let mut daemon = tree.daemon(false);
    work(&mut daemon, 0, 20);
    let movable: Vec<u64> =
        tree.blocks().iter().filter(|b| place(b) == Place::Movable).map(|b| b.number).collect();
    let clean = movable[5];
    for block in movable.iter().filter(|block| **block != clean) {
        tree.fill_frames(block * FRAMES + 100..block * FRAMES + 101, PageFlags::HUGE);
    }
    *tree.kernel_used.lock().unwrap() = 4 * FRAMES - 600;
    tree.update();
    work(&mut daemon, 20, 20);
    let grown: Vec<u64> = movable
        .iter()
        .filter(|n| tree.blocks().iter().any(|b| b.number == **n && place(b) == Place::Kernel))
        .copied()
        .collect();
    assert_eq!(grown, [clean]);
}

/// A block that has just come online is empty. The page flags say otherwise here: they are not read.
#[test]
fn a_block_that_came_online_is_known_to_be_empty() {
    let tree = Tree::new();
    tree.fill(1..BLOCKS, PageFlags::LRU);
    let mut daemon = tree.daemon(false);
    work(&mut daemon, 0, 3);
    let movable = || daemon.blocks().iter().filter(|block| block.place == Place::Movable);
    let is_empty = |block: &&Block| block.occupancy.is_some_and(|found| found.free == FRAMES);
    // In three seconds, a few blocks are read as their turn comes.
    assert!(movable().count() > 8 && movable().filter(is_empty).count() + 6 >= movable().count());
    // None of them is taken for a block that was read.
    assert!(movable().filter(is_empty).all(|block| block.scanned == Duration::ZERO));
}

/// Interrupted by Ctrl-C: the block under way comes back, and no further one is tried.
#[test]
fn an_undo_that_is_interrupted_leaves_no_block_offline() {
    let tree = Tree::new();
    let mut daemon = tree.daemon(false);
    work(&mut daemon, 0, 20);
    let mut record = daemon.stop().unwrap();
    let pinned = Pinned::new(&tree, 9);
    let log = Log::new(Format::Text, Verbosity::Quiet, Box::new(io::sink()));
    let work = Undo {
        roots: &tree.roots(),
        files: pinned.clone(),
        log: &log,
        operation_time: Duration::from_secs(60),
        until: Instant::now() + Duration::from_secs(600),
        stop: &|| pinned.is_reached(),
    };
    let began = Instant::now();
    let undone = undo(&mut record, &work).unwrap();
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert_eq!(tree.count(Place::Offline), 0);
    assert!(undone.left.iter().any(|(_, why)| why == "interrupted"), "{undone:?}");
    assert!(record.state().busy.is_empty());
}

#[test]
fn everything_is_undone_though_the_record_cannot_be_written() {
    let tree = Tree::new();
    let mut daemon = tree.daemon(false);
    work(&mut daemon, 0, 20);
    while fs::metadata(tree.path("record")).unwrap().len() <= 64 << 10 {
        daemon.record().restored(Setting::MovableGiganticPages).unwrap();
    }
    fs::create_dir(tree.path("record.new")).unwrap();
    let mut record = daemon.stop().unwrap();
    assert_eq!(undo_all(&tree, &mut record).left, []);
    assert_eq!(tree.count(Place::Kernel), BLOCKS);
    assert!(record.state().is_clean());
}

#[test]
fn the_regions_are_set_up_and_everything_is_undone() {
    let tree = Tree::new();
    let mut daemon = tree.daemon(false);
    work(&mut daemon, 0, 20);
    assert_eq!(tree.count(Place::Movable), BLOCKS - 4, "a fifth stays");
    assert_eq!(trouble(&daemon), "");
    let status = daemon.status().lock().clone();
    assert_eq!((status.blocks_movable, status.operations), (BLOCKS - 4, BLOCKS - 4));
    assert!(status.nodes[0].set_up && status.recent.len() == 16, "{status:?}");
    let ratio = Setting::LowmemReserveRatio.read(&tree.roots()).unwrap().to_string();
    assert_eq!(ratio, "256,256,12,0,0");
    let mut record = daemon.stop().unwrap();
    let restored = Setting::LowmemReserveRatio.read(&tree.roots()).unwrap().to_string();
    assert_eq!(restored, "256,256,32,0,0");
    assert_eq!(undo_all(&tree, &mut record).left, []);
    assert_eq!(tree.count(Place::Kernel), BLOCKS);
    assert!(record.state().is_clean());
}

/// A task of the test's own stands for kswapd.
#[test]
fn kswapd_has_its_priority_raised_until_the_end() {
    let tree = Tree::new();
    let mut task = Command::new("sleep").arg("60").spawn().unwrap();
    let folder = format!("proc/{}", task.id());
    fs::create_dir(tree.path(&folder)).unwrap();
    tree.put(&format!("{folder}/stat"), &format!("{} (kswapd0) S 2 0 0", task.id()));
    let roots = tree.roots();
    let before = kswapd::read(&roots).unwrap();
    let is_allowed = kswapd::write(&roots, "19").and(kswapd::write(&roots, &before)).is_ok();
    let mut daemon = tree.daemon(false);
    work(&mut daemon, 0, 5);
    assert_eq!(kswapd::read(&roots).unwrap(), if is_allowed { "10" } else { &before });
    let record = daemon.stop().unwrap();
    assert_eq!(kswapd::read(&roots).unwrap(), before);
    assert!(!record.state().settings.contains_key(&Setting::KswapdPriority));
    task.kill().unwrap();
    task.wait().unwrap();
}

/// Free kernel memory stays as it was whatever is converted, because page cache fills it.
#[test]
fn page_cache_in_the_kernel_zone_does_not_feed_growth() {
    let tree = Tree::new();
    let mut daemon = tree.daemon(false);
    work(&mut daemon, 0, 20);
    assert_eq!(tree.count(Place::Kernel), 4);
    *tree.greedy.lock().unwrap() = true;
    tree.update();
    work(&mut daemon, 20, 20);
    assert_eq!(tree.count(Place::Kernel), 4, "no kernel memory is needed");
    // A burst of one block raises the reserve above what user memory leaves alone.
    *tree.kernel_used.lock().unwrap() = 2 * FRAMES;
    tree.update();
    work(&mut daemon, 40, 30);
    let grown = tree.count(Place::Kernel) - 4;
    assert!((1..=3).contains(&grown), "{grown} blocks for a demand of one");
}

#[test]
fn a_dry_run_writes_nothing() {
    let tree = Tree::new();
    let mut daemon = tree.daemon(true);
    work(&mut daemon, 0, 20);
    assert!(tree.words.lock().unwrap().is_empty());
    assert!(!tree.path("record").exists());
    assert!(!daemon.status().lock().recent.is_empty(), "it says what it would do");
}

/// Another daemon runs, or has left its record.
#[test]
fn a_dry_run_undoes_nothing_of_another_daemon() {
    let tree = Tree::new();
    let mut other = tree.daemon(false);
    work(&mut other, 0, 20);
    let before = tree.words.lock().unwrap().len();
    let record = fs::read(tree.path("record")).unwrap();
    let mut dry = tree.daemon(true);
    work(&mut dry, 0, 5);
    assert!(!dry.record().state().is_clean(), "it knows what the other one did");
    prairie_regions::run::stop(dry, &tree.roots()).unwrap();
    assert_eq!(tree.words.lock().unwrap().len(), before);
    assert_eq!(fs::read(tree.path("record")).unwrap(), record);
    let ratio = Setting::LowmemReserveRatio.read(&tree.roots()).unwrap().to_string();
    assert_eq!(ratio, "256,256,12,0,0", "the other one's");
}

#[test]
fn a_block_that_was_found_offline_comes_back_first() {
    let tree = Tree::new();
    tree.set(7, "offline", "Normal Movable");
    tree.update();
    let mut daemon = tree.daemon(false);
    work(&mut daemon, 0, 1);
    assert_eq!(tree.words.lock().unwrap()[0], (7, "online_kernel".to_owned()));
    assert_eq!(tree.count(Place::Offline), 0);
}

#[test]
fn a_block_that_stays_offline_is_tried_each_minute() {
    let tree = Tree::new();
    tree.set(7, "offline", "Normal Movable");
    tree.update();
    *tree.faults.lock().unwrap() = [(7, libc::ENOMEM)].into();
    let mut daemon = tree.daemon(false);
    work(&mut daemon, 0, 200);
    let words = tree.words.lock().unwrap();
    let tries = words.iter().filter(|word| word.0 == 7).count();
    drop(words);
    // At 0, 60, 120, and 180 s; each tries four words.
    assert_eq!(tries, 4 * 4);
    assert!(trouble(&daemon).starts_with("block 7 is offline"), "{}", trouble(&daemon));
    let status = daemon.status().lock().clone();
    assert_eq!(status.operations_last_hour, 0, "neither the tries nor the setup are counted");
    assert_eq!(status.blocks_refused, 0);
    tree.faults.lock().unwrap().clear();
    work(&mut daemon, 200, 60);
    assert_eq!(tree.count(Place::Offline), 0);
}

#[test]
fn slabs_are_drained_through_their_own_folders() {
    let tree = Tree::new();
    for name in [":0000192", "dentry"] {
        fs::create_dir_all(tree.path("sys/kernel/slab").join(name)).unwrap();
        tree.put(&format!("sys/kernel/slab/{name}/shrink"), "");
    }
    let slab = tree.path("sys/kernel/slab");
    std::os::unix::fs::symlink("dentry", slab.join("merged")).unwrap();
    fs::create_dir(slab.join("without")).unwrap();
    prairie_regions::host::Host::open(&tree.roots()).unwrap().drain_slabs();
    for name in [":0000192", "dentry"] {
        assert_eq!(fs::read_to_string(slab.join(name).join("shrink")).unwrap(), "1");
    }
}

#[test]
fn a_check_counts_what_could_move() {
    let tree = Tree::new();
    let report = prairie_regions::check::check(&tree.roots()).unwrap();
    let gain = report.gain;
    assert_eq!((gain.blocks, gain.could_move, gain.movable), (BLOCKS, BLOCKS - 1, 0));
    assert_eq!((gain.polluted_blocks, gain.packed_blocks), (1, 1));
    assert_eq!(gain.unmovable_bytes, FRAMES * 4096);
    assert_eq!(report.stuck.len(), 1);
    assert!(report.stuck[0].why.contains("unmovable"), "{report:?}");
    assert!(tree.words.lock().unwrap().is_empty(), "nothing is written");
}
