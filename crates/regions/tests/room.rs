//! Room for compaction: `vm.watermark_scale_factor`, which is leased. Room for what a growth moves:
//! more of that while the kernel region grows, or proactive reclaim. And their faults.
#![allow(missing_docs)]

mod tree;

use std::fs;
use std::ops::Range;
use std::sync::Arc;

use prairie_host::PageFlags;
use prairie_regions::choice::Place;
use prairie_regions::config::{MakeRoom, Ratio};
use prairie_regions::daemon::Daemon;
use prairie_regions::settings::Setting;
use tree::{BLOCKS, FRAMES, Tree, trouble, work};

const FACTOR: &str = "proc/sys/vm/watermark_scale_factor";
const RECLAIM: &str = "sys/fs/cgroup/memory.reclaim";

/// A daemon that makes room in this way.
fn making_room(tree: &Arc<Tree>, make_room: MakeRoom) -> Daemon {
    let mut daemon = tree.daemon(false);
    let mut config = daemon.config().clone();
    config.settings.make_room = make_room;
    daemon.reload(config);
    daemon
}

/// A tree with both ways to make room.
fn with_reclaim() -> Arc<Tree> {
    let tree = Tree::new();
    tree.put(FACTOR, "10\n");
    fs::create_dir_all(tree.path(RECLAIM).parent().unwrap()).unwrap();
    tree.put(RECLAIM, "");
    tree
}

fn requested(tree: &Tree) -> String {
    fs::read_to_string(tree.path(RECLAIM)).unwrap()
}

/// Frames between the watermarks of the movable zone.
fn distance(tree: &Tree) -> u64 {
    factor(tree).parse::<u64>().unwrap() * tree.count(Place::Movable) * FRAMES / 10_000
}

/// What compaction needs here is half of what a growth needs: 1152 frames. Changes of the zone's size
/// by less than a quarter change nothing.
const COMPACTION: Range<u64> = 1152 * 3 / 4..1152 * 5 / 4;

fn factor(tree: &Tree) -> String {
    fs::read_to_string(tree.path(FACTOR)).unwrap().trim().to_owned()
}

/// A tree whose regions are set up and whose kernel memory has just grown by three blocks.
fn growing(tree: &Arc<Tree>) -> Daemon {
    let mut daemon = tree.daemon(false);
    grow(tree, &mut daemon);
    daemon
}

fn grow(tree: &Arc<Tree>, daemon: &mut Daemon) {
    work(daemon, 0, 20);
    assert_eq!(tree.count(Place::Kernel), 4);
    *tree.kernel_used.lock().unwrap() = 4 * FRAMES - 600;
    tree.update();
    work(daemon, 20, 3);
    assert!(tree.count(Place::Kernel) > 4, "it grows");
}

/// Page cache fills memory, and kernel memory has nearly all of its region: the daemon grows it.
fn growing_in_cache(tree: &Arc<Tree>, daemon: &mut Daemon) {
    work(daemon, 0, 20);
    tree.fill(4..BLOCKS, PageFlags::LRU | PageFlags::UPTODATE);
    *tree.greedy.lock().unwrap() = true;
    *tree.kernel_used.lock().unwrap() = 4 * FRAMES - 600;
    tree.update();
    work(daemon, 20, 3);
    assert!(tree.count(Place::Kernel) > 4, "it grows");
}

/// Without that, kswapd stops before the movable zone has the room in which compaction starts.
#[test]
fn compaction_has_room_from_the_end_of_the_setup_on() {
    for make_room in [MakeRoom::Reclaim, MakeRoom::Kswapd] {
        let tree = with_reclaim();
        let mut daemon = making_room(&tree, make_room);
        work(&mut daemon, 0, 2);
        let set_up = daemon.status().lock().nodes.iter().all(|node| node.set_up);
        assert!(set_up || factor(&tree) == "10", "zones of the setup have other sizes");
        work(&mut daemon, 2, 20);
        assert_eq!(tree.count(Place::Kernel), 4);
        assert!(COMPACTION.contains(&distance(&tree)), "{} frames", distance(&tree));
        let before = factor(&tree);
        work(&mut daemon, 22, 60);
        assert_eq!((factor(&tree), trouble(&daemon)), (before, String::new()));
        assert!(daemon.stop().unwrap().state().settings.is_empty());
        assert_eq!(factor(&tree), "10");
    }
}

/// A daemon that was killed has left its value and its record behind.
#[test]
fn a_daemon_that_follows_restores_what_was_before_the_first() {
    let tree = Tree::new();
    tree.put(FACTOR, "10\n");
    let mut first = tree.daemon(false);
    work(&mut first, 0, 20);
    let raised = factor(&tree);
    assert_ne!(raised, "10");
    std::mem::forget(first);
    let mut second = tree.daemon(false);
    work(&mut second, 20, 20);
    assert_eq!(factor(&tree), raised);
    second.stop().unwrap();
    assert_eq!(factor(&tree), "10");
}

/// What the new configuration says about a setting takes effect at once.
#[test]
fn a_reload_restores_what_is_no_longer_leased() {
    let ratio =
        |tree: &Tree| fs::read_to_string(tree.path("proc/sys/vm/lowmem_reserve_ratio")).unwrap();
    let tree = Tree::new();
    tree.put(FACTOR, "10\n");
    let before = ratio(&tree);
    let mut daemon = tree.daemon(false);
    work(&mut daemon, 0, 20);
    assert_ne!((factor(&tree).as_str(), ratio(&tree)), ("10", before.clone()));
    let mut config = daemon.config().clone();
    config.settings.make_room = MakeRoom::Off;
    config.settings.lowmem_reserve_ratio = Ratio::Leave;
    daemon.reload(config.clone());
    work(&mut daemon, 20, 5);
    assert_eq!((factor(&tree).as_str(), ratio(&tree)), ("10", before));
    assert!(daemon.record().state().settings.is_empty());
    config.settings.lowmem_reserve_ratio = Ratio::Fixed(20);
    daemon.reload(config);
    work(&mut daemon, 25, 5);
    assert_eq!(ratio(&tree), "256\t256\t20\t0\t0\n");
}

/// Killed between the line of the record and the second write.
#[test]
fn a_second_lease_that_was_not_written_is_restored() {
    let tree = Tree::new();
    tree.put(FACTOR, "10\n");
    let mut daemon = tree.daemon(false);
    work(&mut daemon, 0, 20);
    let raised = factor(&tree).parse().unwrap();
    let wanted = "999".parse().unwrap();
    daemon.record().lease(Setting::WatermarkScaleFactor, &wanted, &raised).unwrap();
    assert!(daemon.stop().unwrap().state().settings.is_empty());
    assert_eq!(factor(&tree), "10");
}

/// The file is missing for a while.
#[test]
fn a_lease_that_failed_is_tried_again() {
    const FILE: &str = "proc/sys/vm/lowmem_reserve_ratio";
    let tree = Tree::new();
    let before = fs::read_to_string(tree.path(FILE)).unwrap();
    fs::remove_file(tree.path(FILE)).unwrap();
    let mut daemon = tree.daemon(false);
    work(&mut daemon, 0, 20);
    assert!(trouble(&daemon).starts_with("kernel settings are left"), "{}", trouble(&daemon));
    tree.put(FILE, &before);
    work(&mut daemon, 20, 60);
    assert_ne!(fs::read_to_string(tree.path(FILE)).unwrap(), before);
    assert_eq!(trouble(&daemon), "");
    daemon.stop().unwrap();
    assert_eq!(fs::read_to_string(tree.path(FILE)).unwrap(), before);
}

/// Enough for kswapd to free a block and an eighth of it in the movable zone.
#[test]
fn it_is_raised_while_the_region_grows_and_lowered_soon_after() {
    let tree = Tree::new();
    tree.put(FACTOR, "10\n");
    let mut daemon = growing(&tree);
    let raised: u64 = factor(&tree).parse().unwrap();
    let movable = (BLOCKS - 4) * FRAMES;
    let freed = 2 * raised * movable / 10_000;
    assert!((FRAMES..2 * FRAMES).contains(&freed), "factor {raised} frees {freed} frames");
    work(&mut daemon, 23, 60);
    assert!(COMPACTION.contains(&distance(&tree)), "{} frames", distance(&tree));
    assert_eq!(trouble(&daemon), "");
    daemon.stop().unwrap();
    assert_eq!(factor(&tree), "10");
}

/// A growth of a large zone raises it so little that the change is not worth a write.
#[test]
fn it_is_lowered_however_little_it_was_raised() {
    let factor_of_growth = FRAMES * 9 / 16 * 10_000 / ((BLOCKS - 4) * FRAMES);
    let before = (factor_of_growth * 9 / 10).to_string();
    let tree = Tree::new();
    tree.put(FACTOR, &format!("{before}\n"));
    let mut daemon = growing(&tree);
    assert_ne!(factor(&tree), before);
    work(&mut daemon, 23, 60);
    assert_eq!((factor(&tree), trouble(&daemon)), (before, String::new()));
}

#[test]
fn a_daemon_that_ends_meanwhile_restores_it() {
    let tree = Tree::new();
    tree.put(FACTOR, "10\n");
    let daemon = growing(&tree);
    assert_ne!(factor(&tree), "10");
    assert!(daemon.stop().unwrap().state().settings.is_empty());
    assert_eq!(factor(&tree), "10");
}

#[test]
fn what_others_set_meanwhile_stays() {
    let tree = Tree::new();
    tree.put(FACTOR, "10\n");
    let mut daemon = growing(&tree);
    tree.put(FACTOR, "77\n");
    work(&mut daemon, 23, 60);
    assert_eq!(factor(&tree), "77");
    assert!(daemon.stop().unwrap().state().settings.is_empty());
    assert_eq!(factor(&tree), "77");
}

#[test]
fn a_higher_factor_is_left_alone() {
    let tree = Tree::new();
    tree.put(FACTOR, "900\n");
    let daemon = growing(&tree);
    assert_eq!(factor(&tree), "900");
    daemon.stop().unwrap();
    assert_eq!(factor(&tree), "900");
}

/// Kernels before 4.6 have no such file.
#[test]
fn without_the_file_or_a_number_in_it_the_region_grows_all_the_same() {
    for text in [None, Some("high\n"), Some("")] {
        let tree = Tree::new();
        if let Some(text) = text {
            tree.put(FACTOR, text);
        }
        let daemon = growing(&tree);
        assert_eq!(trouble(&daemon), "", "{text:?}");
        match text {
            Some(text) => assert_eq!(factor(&tree), text.trim()),
            None => assert!(!tree.path(FACTOR).exists()),
        }
    }
}

/// The link leads to a number that even root cannot write.
#[test]
fn a_file_that_refuses_writes_is_one_line_and_the_region_grows() {
    let fixed = "/proc/sys/kernel/cap_last_cap";
    let tree = Tree::new();
    std::os::unix::fs::symlink(fixed, tree.path(FACTOR)).unwrap();
    let mut daemon = growing(&tree);
    let said = trouble(&daemon);
    assert!(said.starts_with("kernel settings are left as they are: "), "{said}");
    work(&mut daemon, 23, 20);
    assert_eq!(trouble(&daemon), said);
    assert_eq!(tree.count(Place::Offline), 0);
    let left = daemon.stop().unwrap();
    assert!(left.state().settings.is_empty(), "{:?}", left.state().settings);
}

/// Page cache fills the movable zone: it is freed before a block moves, and no watermark is raised
/// for that.
#[test]
fn cache_is_reclaimed_before_a_full_block_moves() {
    let tree = with_reclaim();
    let mut daemon = making_room(&tree, MakeRoom::Reclaim);
    growing_in_cache(&tree, &mut daemon);
    let requested = requested(&tree);
    assert!(requested.parse::<u64>().is_ok_and(|bytes| bytes > 0), "{requested:?}");
    assert!(COMPACTION.contains(&distance(&tree)), "{} frames", distance(&tree));
    assert_eq!(trouble(&daemon), "");
}

#[test]
fn an_empty_block_needs_no_room() {
    let tree = with_reclaim();
    let mut daemon = making_room(&tree, MakeRoom::Reclaim);
    grow(&tree, &mut daemon);
    assert_eq!(requested(&tree), "");
    assert!(COMPACTION.contains(&distance(&tree)), "{} frames", distance(&tree));
    daemon.stop().unwrap();
}

#[test]
fn reclaim_is_the_default() {
    let tree = with_reclaim();
    let mut daemon = tree.daemon(false);
    growing_in_cache(&tree, &mut daemon);
    assert_ne!(requested(&tree), "");
    daemon.stop().unwrap();
}

/// Kswapd makes room if it is chosen, though there is another way.
#[test]
fn reclaim_is_not_used_if_kswapd_is_chosen() {
    let tree = with_reclaim();
    let mut daemon = making_room(&tree, MakeRoom::Kswapd);
    growing_in_cache(&tree, &mut daemon);
    assert_eq!(requested(&tree), "");
    assert!(distance(&tree) > COMPACTION.end, "{} frames", distance(&tree));
    daemon.stop().unwrap();
}

/// A request that the kernel does not take is the last one.
#[test]
fn where_reclaim_is_refused_the_factor_is_raised() {
    let tree = with_reclaim();
    fs::remove_file(tree.path(RECLAIM)).unwrap();
    std::os::unix::fs::symlink("/dev/full", tree.path(RECLAIM)).unwrap();
    let mut daemon = making_room(&tree, MakeRoom::Reclaim);
    growing_in_cache(&tree, &mut daemon);
    assert!(distance(&tree) > COMPACTION.end, "{} frames", distance(&tree));
    daemon.stop().unwrap();
    assert_eq!(factor(&tree), "10");
}

#[test]
fn turned_off_neither_is_used() {
    let tree = with_reclaim();
    let mut daemon = making_room(&tree, MakeRoom::Off);
    growing_in_cache(&tree, &mut daemon);
    assert_eq!((requested(&tree).as_str(), factor(&tree).as_str()), ("", "10"));
}
