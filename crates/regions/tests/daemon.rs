//! The daemon in a tree of files that looks like a kernel's, with faults.
#![allow(missing_docs)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use prairie_daemon::log::{Format, Log, Verbosity};
use prairie_host::memory_blocks::FOLDER;
use prairie_host::{BlockState, MemoryBlock, PageFlags, Roots, memory_blocks};
use prairie_regions::choice::Place;
use prairie_regions::config::Config;
use prairie_regions::daemon::{Daemon, Start};
use prairie_regions::operation::BlockFiles;
use prairie_regions::record::Record;
use prairie_regions::settings::Setting;
use prairie_regions::undo::{Undo, undo};

/// Small blocks, so that the page flags of all of them are a small file.
const FRAMES: u64 = 4096;
const BLOCKS: u64 = 20;

/// A host whose kernel memory fills block 0.
#[derive(Debug)]
struct Tree {
    root: tempfile::TempDir,
    /// Errors that the kernel answers with, by block.
    faults: Mutex<BTreeMap<u64, i32>>,
    /// Who puts blocks online right after they went offline, as what.
    competitor: Mutex<Option<&'static str>>,
    words: Mutex<Vec<(u64, String)>>,
}

impl Tree {
    fn new() -> Arc<Tree> {
        let tree = Tree {
            root: tempfile::tempdir().unwrap(),
            faults: Mutex::default(),
            competitor: Mutex::default(),
            words: Mutex::default(),
        };
        for folder in ["proc/sys/vm", "proc/pressure"] {
            fs::create_dir_all(tree.path(folder)).unwrap();
        }
        tree.put("proc/vmstat", "allocstall_normal 0\nallocstall_movable 0\noom_kill 0\n");
        tree.put("proc/meminfo", "MemTotal: 327680 kB\nSwapFree: 0 kB\nHugetlb: 0 kB\n");
        tree.put("proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
        tree.put("proc/sys/vm/lowmem_reserve_ratio", "256\t256\t32\t0\t0\n");
        tree.put("proc/sys/vm/min_free_kbytes", "4096\n");
        let mut words = vec![PageFlags::BUDDY.0; (FRAMES * BLOCKS) as usize];
        words[..FRAMES as usize].fill(PageFlags::SLAB.0);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        fs::write(tree.path("proc/kpageflags"), bytes).unwrap();
        for block in 0..BLOCKS {
            tree.set(block, "online", "Normal");
        }
        tree.put(&format!("{FOLDER}/block_size_bytes"), &format!("{:x}\n", FRAMES * 4096));
        tree.update();
        Arc::new(tree)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn roots(&self) -> Roots {
        Roots::at(&self.path("proc"))
    }

    fn set(&self, block: u64, state: &str, zone: &str) {
        let folder = self.path(&format!("{FOLDER}/memory{block}"));
        fs::create_dir_all(folder.join("node0")).unwrap();
        fs::write(folder.join("state"), state).unwrap();
        fs::write(folder.join("valid_zones"), zone).unwrap();
    }

    fn blocks(&self) -> Vec<MemoryBlock> {
        memory_blocks::read(&self.roots()).unwrap().blocks
    }

    fn count(&self, place: Place) -> u64 {
        let blocks = self.blocks();
        blocks.iter().filter(|b| prairie_regions::operation::place(b) == place).count() as u64
    }

    /// `/proc/zoneinfo` as the blocks are.
    fn update(&self) {
        let kernel = self.count(Place::Kernel) * FRAMES;
        let movable = self.count(Place::Movable) * FRAMES;
        let text = format!(
            "Node 0, zone Normal\n pages free {}\n min 100\n high 200\n managed {kernel}\n \
             protection: (0, 0)\nNode 0, zone Movable\n pages free {movable}\n high 200\n \
             managed {movable}\n protection: (0, 0)\n",
            kernel.saturating_sub(FRAMES)
        );
        // In place and in one write, because the daemon keeps it open and reads it meanwhile.
        let path = self.path("proc/zoneinfo");
        let file = File::options().create(true).truncate(false).write(true).open(path).unwrap();
        file.write_all_at(format!("{text:\n<512}").as_bytes(), 0).unwrap();
    }

    fn daemon(self: &Arc<Tree>, dry_run: bool) -> Daemon {
        let mut config = Config::default();
        config.daemon.record = self.path("record");
        let mut record = Record::load(&config.daemon.record, "b").unwrap();
        if !dry_run {
            record.begin().unwrap();
        }
        let log = Log::new(Format::Text, Verbosity::Changes, Box::new(io::sink()));
        let roots = self.roots();
        let start = Start { config, roots, record, log, dry_run, grow_only: false };
        Daemon::new(start).unwrap().with_files(self.clone())
    }
}

impl BlockFiles for Tree {
    fn read(&self, block: u64) -> io::Result<Option<MemoryBlock>> {
        memory_blocks::read_block(&self.roots(), block).map_err(io::Error::other)
    }

    fn write(&self, block: u64, word: &str) -> io::Result<()> {
        self.words.lock().unwrap().push((block, word.to_owned()));
        if let Some(code) = self.faults.lock().unwrap().get(&block) {
            return Err(io::Error::from_raw_os_error(*code));
        }
        if !self.path(&format!("{FOLDER}/memory{block}")).exists() {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        let competitor = *self.competitor.lock().unwrap();
        let now = self.read(block)?.unwrap();
        if (now.state == BlockState::Online) == word.starts_with("online") {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        match word {
            "offline" => match competitor {
                Some(zone) => self.set(block, "online", zone),
                None => self.set(block, "offline", "Normal Movable"),
            },
            "online_movable" => self.set(block, "online", "Movable"),
            _ => self.set(block, "online", "Normal"),
        }
        self.update();
        Ok(())
    }
}

/// Runs a daemon for `seconds` of its own clock; operations take real time.
fn work(daemon: &mut Daemon, from: u64, seconds: u64) {
    for step in 0..seconds * 10 {
        let now = Duration::from_millis(from * 1000 + step * 100);
        daemon.tick(now);
        let until = Instant::now() + Duration::from_secs(5);
        while daemon.timer().is_busy() && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
            daemon.tick(now);
        }
    }
}

fn trouble(daemon: &Daemon) -> String {
    daemon.status().lock().trouble.clone()
}

fn undo_all(tree: &Arc<Tree>, record: &mut Record) -> usize {
    let log = Log::new(Format::Text, Verbosity::Quiet, Box::new(io::sink()));
    let work = Undo {
        roots: &tree.roots(),
        files: tree.clone(),
        log: &log,
        operation_time: Duration::from_secs(4),
        until: Instant::now() + Duration::from_secs(60),
        stop: &|| false,
    };
    undo(record, &work).unwrap().left.len()
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
    assert_eq!(undo_all(&tree, &mut record), 0);
    assert_eq!(tree.count(Place::Kernel), BLOCKS);
    assert!(record.state().is_clean());
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
    assert_eq!(status.operations_last_hour, status.operations, "the tries are not counted");
    assert_eq!(status.blocks_refused, 0);
    tree.faults.lock().unwrap().clear();
    work(&mut daemon, 200, 60);
    assert_eq!(tree.count(Place::Offline), 0);
}

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
fn without_permission_nothing_more_is_tried() {
    let tree = Tree::new();
    *tree.faults.lock().unwrap() = (0..BLOCKS).map(|block| (block, libc::EPERM)).collect();
    let mut daemon = tree.daemon(false);
    work(&mut daemon, 0, 60);
    assert_eq!(tree.words.lock().unwrap().len(), 1);
    assert!(trouble(&daemon).starts_with("no more operations: "), "{}", trouble(&daemon));
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
fn unreadable_files_are_one_line() {
    let tree = Tree::new();
    let mut daemon = tree.daemon(false);
    work(&mut daemon, 0, 20);
    let converted = tree.words.lock().unwrap().len();
    tree.put("proc/zoneinfo", "no zones\n");
    work(&mut daemon, 20, 10);
    assert!(trouble(&daemon).starts_with("the zones cannot be read: "), "{}", trouble(&daemon));
    assert_eq!(tree.words.lock().unwrap().len(), converted, "nothing is done blindly");
}

#[test]
fn a_host_without_blocks_or_zones_is_refused_in_a_line() {
    let tree = Tree::new();
    fs::remove_file(tree.path(&format!("{FOLDER}/block_size_bytes"))).unwrap();
    let host = prairie_regions::host::Host::open(&tree.roots()).unwrap_err().to_string();
    assert!(host.contains("block_size_bytes: "), "{host}");
    let report = prairie_regions::check::check(&tree.roots()).unwrap();
    assert!(!report.qualifies && report.findings.len() == 1, "{report:?}");
    let none = prairie_regions::host::Host::open(&Roots::at(Path::new("/nowhere/proc")));
    assert!(none.is_err());
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
