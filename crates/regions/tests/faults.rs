//! Faults and bad input: one clear line each, and never worse than no daemon.
#![allow(missing_docs)]

mod tree;

use std::fs;
use std::path::Path;

use prairie_daemon::finding::Verdict;
use prairie_host::memory_blocks::FOLDER;
use prairie_host::{PageFlags, Roots};
use prairie_regions::check;
use prairie_regions::choice::Place;
use prairie_regions::host::Host;
use prairie_regions::settings::Setting;
use tree::{BLOCKS, FRAMES, Tree, trouble, work};

#[test]
fn refusals_are_not_repeated() {
    for code in [libc::EBUSY, libc::EINTR, libc::EINVAL] {
        let tree = Tree::new();
        *tree.faults.lock().unwrap() = (15..BLOCKS).map(|block| (block, code)).collect();
        let mut daemon = tree.daemon(false);
        work(&mut daemon, 0, 300);
        for block in 15..BLOCKS {
            let words = tree.words.lock().unwrap();
            assert_eq!(words.iter().filter(|word| word.0 == block).count(), 1, "{code} {block}");
        }
        assert_eq!(tree.count(Place::Movable), 14, "the others");
        assert_eq!(trouble(&daemon), "");
    }
}

#[test]
fn without_permission_nothing_more_is_tried_for_a_while() {
    for code in [libc::EPERM, libc::EACCES, libc::EROFS] {
        let tree = Tree::new();
        *tree.faults.lock().unwrap() = (0..BLOCKS).map(|block| (block, code)).collect();
        let mut daemon = tree.daemon(false);
        work(&mut daemon, 0, 60);
        assert_eq!(tree.words.lock().unwrap().len(), 1);
        assert!(trouble(&daemon).starts_with("operations are paused: "), "{}", trouble(&daemon));
        assert_eq!(tree.count(Place::Kernel), BLOCKS, "as it was");
        work(&mut daemon, 60, 300);
        let tries = tree.words.lock().unwrap().len();
        assert_eq!(tries, 3, "after a minute, and two more");
        // The policy that forbade it is gone.
        tree.faults.lock().unwrap().clear();
        work(&mut daemon, 360, 120);
        assert!(tree.count(Place::Movable) > 0, "it goes on");
        assert_eq!(trouble(&daemon), "");
    }
}

/// A directory stands where the record is to be written again.
#[test]
fn a_record_that_cannot_be_written_holds_operations_up_for_a_while() {
    let tree = Tree::new();
    let mut daemon = tree.daemon(false);
    // It is written again when it is long.
    while fs::metadata(tree.path("record")).unwrap().len() <= 64 << 10 {
        daemon.record().restored(Setting::MovableGiganticPages).unwrap();
    }
    fs::create_dir(tree.path("record.new")).unwrap();
    work(&mut daemon, 0, 30);
    assert!(tree.words.lock().unwrap().is_empty(), "nothing happens without a record");
    assert!(trouble(&daemon).starts_with("operations are paused: the record"));
    fs::remove_dir(tree.path("record.new")).unwrap();
    work(&mut daemon, 30, 60);
    assert_eq!((tree.count(Place::Movable), trouble(&daemon)), (BLOCKS - 4, String::new()));
}

#[test]
fn a_competing_onliner_is_named() {
    let tree = Tree::new();
    *tree.competitor.lock().unwrap() = Some("Normal");
    let mut daemon = tree.daemon(false);
    work(&mut daemon, 0, 60);
    assert_eq!(tree.count(Place::Offline), 0);
    let recent = daemon.status().lock().recent.join("\n");
    assert!(recent.contains("another program put it online"), "{recent}");
    let writes = tree.words.lock().unwrap().len() as u64;
    assert!(writes <= 2 * BLOCKS, "{writes}: each block is tried once");
}

#[test]
fn blocks_vanish_and_appear() {
    let tree = Tree::new();
    let mut daemon = tree.daemon(false);
    work(&mut daemon, 0, 20);
    let gone = tree.path(&format!("{FOLDER}/memory19"));
    fs::remove_dir_all(&gone).unwrap();
    tree.update();
    work(&mut daemon, 20, 120);
    assert_eq!(daemon.blocks().len() as u64, BLOCKS - 1);
    tree.set(19, "online", "Movable");
    tree.update();
    work(&mut daemon, 140, 120);
    assert_eq!(daemon.blocks().len() as u64, BLOCKS);
    assert_eq!((trouble(&daemon), tree.count(Place::Offline)), (String::new(), 0));
}

#[test]
fn a_block_that_vanishes_while_it_is_converted_is_forgotten() {
    let tree = Tree::new();
    // It is listed, and gone when it is written.
    *tree.faults.lock().unwrap() = [(19, libc::ENODEV)].into();
    let mut daemon = tree.daemon(false);
    work(&mut daemon, 0, 300);
    let words = tree.words.lock().unwrap();
    assert_eq!(words.iter().filter(|word| word.0 == 19).count(), 1, "{words:?}");
    drop(words);
    assert_eq!(trouble(&daemon), "");
    assert!(!daemon.stop().unwrap().state().busy.contains(&19));
}

#[test]
fn unreadable_files_are_one_line() {
    let tree = Tree::new();
    let mut daemon = tree.daemon(false);
    work(&mut daemon, 0, 20);
    let converted = tree.words.lock().unwrap().len();
    tree.put("proc/zoneinfo", "no zones\n");
    work(&mut daemon, 20, 10);
    assert!(trouble(&daemon).starts_with("the zones cannot be read: "), "{}", trouble(&daemon));
    assert_eq!(tree.words.lock().unwrap().len(), converted, "nothing is done blindly");
    tree.update();
    work(&mut daemon, 30, 10);
    assert_eq!(trouble(&daemon), "", "they can be read again");
}

#[test]
fn without_page_flags_the_daemon_does_not_start() {
    let tree = Tree::new();
    fs::remove_file(tree.path("proc/kpageflags")).unwrap();
    let error = Host::open(&tree.roots()).unwrap().require_flags().unwrap_err().to_string();
    assert!(error.contains("proc/kpageflags: cannot be read; hugetlb"), "{error}");
    let report = check::check(&tree.roots()).unwrap();
    let flags = report.findings.iter().find(|finding| finding.about == "page flags").unwrap();
    assert_eq!((report.qualifies, flags.verdict), (false, Verdict::Missing));
}

#[test]
fn page_flags_that_end_early_move_nothing() {
    let tree = Tree::new();
    fs::write(tree.path("proc/kpageflags"), [0; 800]).unwrap();
    let mut daemon = tree.daemon(false);
    work(&mut daemon, 0, 60);
    assert!(tree.words.lock().unwrap().is_empty());
    assert!(trouble(&daemon).starts_with("no memory can be confined: "), "{}", trouble(&daemon));
}

#[test]
fn a_host_without_movable_memory_is_left_as_it_is() {
    let tree = Tree::new();
    tree.fill(0..BLOCKS, PageFlags::SLAB);
    let mut daemon = tree.daemon(false);
    work(&mut daemon, 0, 120);
    assert!(tree.words.lock().unwrap().is_empty(), "nothing is tried");
    assert!(trouble(&daemon).starts_with("no memory can be confined: "), "{}", trouble(&daemon));
    let ratio = fs::read_to_string(tree.path("proc/sys/vm/lowmem_reserve_ratio")).unwrap();
    assert_eq!(ratio, "256\t256\t32\t0\t0\n", "no setting is leased");
    assert!(!check::check(&tree.roots()).unwrap().qualifies);
}

#[test]
fn ballooned_blocks_are_left_alone() {
    let tree = Tree::new();
    tree.fill(10..14, PageFlags::OFFLINE);
    let mut daemon = tree.daemon(false);
    work(&mut daemon, 0, 60);
    let words = tree.words.lock().unwrap();
    assert!(words.iter().all(|(block, _)| !(10..14).contains(block)), "{words:?}");
    assert!(words.len() > 2, "the others are converted");
    drop(words);
    let report = check::check(&tree.roots()).unwrap();
    let stuck: Vec<_> = report.stuck.iter().filter(|stuck| stuck.why.contains("balloon")).collect();
    assert_eq!(stuck.len(), 4);
    assert_eq!(stuck[0].remedy, "deflate the balloon");
}

#[test]
fn a_balloon_that_inflates_meanwhile_is_left_alone() {
    let tree = Tree::new();
    let mut daemon = tree.daemon(false);
    work(&mut daemon, 0, 20);
    tree.words.lock().unwrap().clear();
    // All but two movable blocks, and the kernel zones run short.
    tree.fill(4..BLOCKS - 2, PageFlags::OFFLINE);
    // What was read just before is believed for two seconds.
    work(&mut daemon, 20, 3);
    *tree.kernel_used.lock().unwrap() = 4 * FRAMES;
    tree.update();
    work(&mut daemon, 23, 30);
    let words = tree.words.lock().unwrap();
    assert!(!words.is_empty(), "it grows");
    assert!(words.iter().all(|(block, _)| *block >= BLOCKS - 2), "{words:?}");
}

#[test]
fn a_crash_kernel_that_is_reloaded_is_warned_of() {
    let tree = Tree::new();
    let warnings = || {
        let found = check::warnings(&tree.roots());
        found.into_iter().filter(|finding| finding.about == "kdump").collect::<Vec<_>>()
    };
    assert_eq!(warnings(), []);
    fs::create_dir_all(tree.path("sys/kernel")).unwrap();
    tree.put("sys/kernel/kexec_crash_loaded", "1\n");
    assert!(warnings()[0].found.contains("reloads the crash kernel at each conversion"));
    tree.put(&format!("{FOLDER}/crash_hotplug"), "0\n");
    assert!(warnings()[0].remedy.contains("operations_per_hour"));
    tree.put(&format!("{FOLDER}/crash_hotplug"), "1\n");
    assert_eq!(warnings(), [], "the kernel updates it itself");
}

#[test]
fn a_host_without_blocks_or_zones_is_refused_in_a_line() {
    let tree = Tree::new();
    fs::remove_file(tree.path(&format!("{FOLDER}/block_size_bytes"))).unwrap();
    let host = Host::open(&tree.roots()).unwrap_err().to_string();
    assert!(host.contains("block_size_bytes: "), "{host}");
    let report = check::check(&tree.roots()).unwrap();
    assert!(!report.qualifies && report.findings.len() == 1, "{report:?}");
    let none = Host::open(&Roots::at(Path::new("/nowhere/proc")));
    assert!(none.is_err());
}
