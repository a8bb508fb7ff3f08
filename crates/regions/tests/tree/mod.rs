//! A tree of files that looks like a kernel's, with faults.
#![allow(dead_code, unreachable_pub)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// Small blocks, so that the page flags of all of them are a small file.
pub const FRAMES: u64 = 4096;
pub const BLOCKS: u64 = 20;

/// A host whose kernel memory fills block 0.
#[derive(Debug)]
pub struct Tree {
    pub root: tempfile::TempDir,
    /// Errors that the kernel answers with, by block.
    pub faults: Mutex<BTreeMap<u64, i32>>,
    /// Who puts blocks online right after they went offline, as what.
    pub competitor: Mutex<Option<&'static str>>,
    pub words: Mutex<Vec<(u64, String)>>,
    /// Frames that the kernel uses.
    pub kernel_used: Mutex<u64>,
    /// Page cache fills memory, the kernel zone down to a twelfth of the movable one.
    pub greedy: Mutex<bool>,
}

impl Tree {
    pub fn new() -> Arc<Tree> {
        let tree = Tree {
            root: tempfile::tempdir().unwrap(),
            faults: Mutex::default(),
            competitor: Mutex::default(),
            words: Mutex::default(),
            kernel_used: Mutex::new(FRAMES),
            greedy: Mutex::default(),
        };
        for folder in ["proc/sys/vm", "proc/pressure"] {
            fs::create_dir_all(tree.path(folder)).unwrap();
        }
        tree.put("proc/vmstat", "allocstall_normal 0\nallocstall_movable 0\noom_kill 0\n");
        tree.put("proc/meminfo", "MemTotal: 327680 kB\nSwapFree: 0 kB\nHugetlb: 0 kB\n");
        tree.put("proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
        tree.put("proc/sys/vm/lowmem_reserve_ratio", "256\t256\t32\t0\t0\n");
        tree.put("proc/sys/vm/min_free_kbytes", "4096\n");
        tree.put("proc/kpageflags", "");
        tree.fill(0..BLOCKS, PageFlags::BUDDY);
        tree.fill(0..1, PageFlags::SLAB);
        for block in 0..BLOCKS {
            tree.set(block, "online", "Normal");
        }
        tree.put(&format!("{FOLDER}/block_size_bytes"), &format!("{:x}\n", FRAMES * 4096));
        tree.update();
        Arc::new(tree)
    }

    /// Fills blocks with frames of one kind.
    pub fn fill(&self, blocks: Range<u64>, flags: PageFlags) {
        self.fill_frames(blocks.start * FRAMES..blocks.end * FRAMES, flags);
    }

    /// Fills frames with one kind.
    pub fn fill_frames(&self, frames: Range<u64>, flags: PageFlags) {
        let file = File::options().write(true).open(self.path("proc/kpageflags")).unwrap();
        let bytes = flags.0.to_ne_bytes().repeat((frames.end - frames.start) as usize);
        file.write_all_at(&bytes, frames.start * 8).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub fn put(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    pub fn roots(&self) -> Roots {
        Roots::at(&self.path("proc"))
    }

    pub fn set(&self, block: u64, state: &str, zone: &str) {
        let folder = self.path(&format!("{FOLDER}/memory{block}"));
        fs::create_dir_all(folder.join("node0")).unwrap();
        fs::write(folder.join("state"), state).unwrap();
        fs::write(folder.join("valid_zones"), zone).unwrap();
    }

    pub fn blocks(&self) -> Vec<MemoryBlock> {
        memory_blocks::read(&self.roots()).unwrap().blocks
    }

    pub fn count(&self, place: Place) -> u64 {
        let blocks = self.blocks();
        blocks.iter().filter(|b| prairie_regions::operation::place(b) == place).count() as u64
    }

    /// `/proc/zoneinfo` as the blocks are.
    pub fn update(&self) {
        let kernel = self.count(Place::Kernel) * FRAMES;
        let movable = self.count(Place::Movable) * FRAMES;
        // As one order, and as the kernel writes it. Before zoneinfo: it is glanced at first.
        let [cache, movable_cache] = self.cache(kernel, movable);
        let free = kernel.saturating_sub(*self.kernel_used.lock().unwrap()) - cache;
        let movable_free = movable - movable_cache;
        let text = format!("Node 0, zone   Normal {free}\nNode 0, zone  Movable {movable_free}\n");
        let path = self.path("proc/buddyinfo");
        let file = File::options().create(true).truncate(false).write(true).open(path).unwrap();
        file.write_all_at(format!("{text:\n<128}").as_bytes(), 0).unwrap();
        self.update_zones(kernel, movable);
    }

    /// Page cache in the kernel zone and in the movable one.
    fn cache(&self, kernel: u64, movable: u64) -> [u64; 2] {
        let room = kernel.saturating_sub(*self.kernel_used.lock().unwrap());
        match *self.greedy.lock().unwrap() {
            true => [room.saturating_sub(movable / 12 + 200), movable],
            false => [0; 2],
        }
    }

    fn update_zones(&self, kernel: u64, movable: u64) {
        let [cache, movable_cache] = self.cache(kernel, movable);
        let text = format!(
            "Node 0, zone Normal\n pages free {}\n min 100\n high 200\n managed {kernel}\n \
             protection: (0, 0)\n nr_zone_inactive_file {cache}\nNode 0, zone Movable\n \
             pages free {}\n high 200\n managed {movable}\n protection: (0, 0)\n \
             nr_zone_inactive_file {movable_cache}\n",
            kernel.saturating_sub(*self.kernel_used.lock().unwrap()) - cache,
            movable - movable_cache,
        );
        // In place and in one write, because the daemon keeps it open and reads it meanwhile.
        let path = self.path("proc/zoneinfo");
        let file = File::options().create(true).truncate(false).write(true).open(path).unwrap();
        file.write_all_at(format!("{text:\n<512}").as_bytes(), 0).unwrap();
    }

    pub fn daemon(self: &Arc<Tree>, dry_run: bool) -> Daemon {
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

/// A tree with a block that never empties: the kernel retries until a signal comes.
#[derive(Debug)]
pub struct Pinned {
    tree: Arc<Tree>,
    block: u64,
    pins: (UnixStream, UnixStream),
    reached: AtomicBool,
}

impl Pinned {
    pub fn new(tree: &Arc<Tree>, block: u64) -> Arc<Pinned> {
        let (pins, reached) = (UnixStream::pair().unwrap(), AtomicBool::new(false));
        Arc::new(Pinned { tree: tree.clone(), block, pins, reached })
    }

    /// Whether the block is being emptied, or was.
    pub fn is_reached(&self) -> bool {
        self.reached.load(Ordering::Relaxed)
    }
}

impl BlockFiles for Pinned {
    fn read(&self, block: u64) -> io::Result<Option<MemoryBlock>> {
        self.tree.read(block)
    }

    fn write(&self, block: u64, word: &str) -> io::Result<()> {
        if (block, word) != (self.block, "offline") {
            return self.tree.write(block, word);
        }
        self.reached.store(true, Ordering::Relaxed);
        (&self.pins.0).read(&mut [0]).map(drop)
    }
}

/// Runs a daemon for `seconds` of its own clock; operations take real time.
pub fn work(daemon: &mut Daemon, from: u64, seconds: u64) {
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

pub fn trouble(daemon: &Daemon) -> String {
    daemon.status().lock().trouble.clone()
}
