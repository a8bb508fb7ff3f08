//! One operation on one block, from offline to online: what the kernel may answer, and what is
//! done about it.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use prairie_frames::ZoneKind;
use prairie_host::{BlockState, BlockZone, MemoryBlock, Roots, memory_blocks};
use serde::Serialize;

use crate::choice::Place;

/// The files of memory blocks.
pub trait BlockFiles: Send + Sync {
    /// The block as it is; nothing where it is gone.
    ///
    /// # Errors
    /// I/O errors of the system, and texts that no kernel writes.
    fn read(&self, block: u64) -> io::Result<Option<MemoryBlock>>;

    /// Writes a word into its `state`. May block until a signal comes.
    ///
    /// # Errors
    /// The kernel's answer.
    fn write(&self, block: u64, word: &str) -> io::Result<()>;
}

/// Block files that can be shown.
pub trait BlockFilesDebug: BlockFiles + std::fmt::Debug {}
impl<T: BlockFiles + std::fmt::Debug> BlockFilesDebug for T {}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The block is where it should be.
    Done,
    /// An unmovable page is in it (`EBUSY`).
    Busy,
    /// It did not empty in time (`EINTR`): pins, or hugetlb pages in use.
    TimedOut,
    /// The kernel refuses such a block (`EINVAL`): a hole, or two zones.
    Refused,
    /// No permission (`EPERM`, `EACCES`, a read-only file system).
    Denied,
    /// The block vanished.
    Gone,
    /// Another program put it online again, in the other region.
    Competing,
    /// It is offline and does not come back: lost memory. With the kernel's answer.
    LeftOffline(String),
    /// Any other answer.
    Failed(String),
}

impl Outcome {
    /// In words, with what it means.
    pub fn words(&self) -> String {
        match self {
            Outcome::Done => "done".to_owned(),
            Outcome::Busy => "refused: an unmovable page is in it".to_owned(),
            Outcome::TimedOut => "interrupted: it did not empty in time".to_owned(),
            Outcome::Refused => "refused: it has a hole or straddles zones".to_owned(),
            Outcome::Denied => "not permitted to write its state".to_owned(),
            Outcome::Gone => "the block is gone".to_owned(),
            Outcome::Competing => {
                "another program put it online first (udev rule or agent)".to_owned()
            }
            Outcome::LeftOffline(why) => format!("left offline: {why}"),
            Outcome::Failed(why) => format!("failed: {why}"),
        }
    }

    /// The kernel's answer to a word.
    fn of(error: &io::Error) -> Outcome {
        match error.raw_os_error() {
            Some(libc::EBUSY | libc::EAGAIN) => Outcome::Busy,
            Some(libc::EINTR) => Outcome::TimedOut,
            Some(libc::EINVAL) => Outcome::Refused,
            Some(libc::EPERM | libc::EACCES | libc::EROFS) => Outcome::Denied,
            Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => Outcome::Gone,
            _ => Outcome::Failed(error.to_string()),
        }
    }
}

/// An operation that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The block.
    pub block: u64,
    /// Where it was to go.
    pub to: Place,
    /// How it ended.
    pub outcome: Outcome,
    /// How long that took.
    pub took: Duration,
    /// Where the block is now.
    pub place: Option<Place>,
}

/// Where a block is, by its state and zone.
pub fn place(block: &MemoryBlock) -> Place {
    match (block.state, block.zone) {
        (BlockState::Offline, _) => Place::Offline,
        (BlockState::Online, BlockZone::One(ZoneKind::Movable)) => Place::Movable,
        (BlockState::Online, BlockZone::One(ZoneKind::Normal | ZoneKind::Dma32)) => Place::Kernel,
        _ => Place::Fixed,
    }
}

/// The word that puts a block online in a region.
const fn online(to: Place) -> &'static str {
    match to {
        Place::Movable => "online_movable",
        _ => "online_kernel",
    }
}

/// Moves a block to the other region. It is brought back online in any case.
pub fn convert(files: &dyn BlockFiles, block: u64, to: Place) -> Done {
    let started = Instant::now();
    let outcome = try_convert(files, block, to);
    let now = files.read(block).ok().flatten();
    let place = now.as_ref().map(place);
    Done { block, to, outcome, took: started.elapsed(), place }
}

/// Brings an offline block back, in the region `to` if the kernel allows it.
pub fn bring_back(files: &dyn BlockFiles, block: u64, to: Place) -> Done {
    let started = Instant::now();
    let outcome = put_online(files, block, to);
    let now = files.read(block).ok().flatten();
    Done { block, to, outcome, took: started.elapsed(), place: now.as_ref().map(place) }
}

fn try_convert(files: &dyn BlockFiles, block: u64, to: Place) -> Outcome {
    let now = match files.read(block) {
        Ok(Some(now)) => now,
        Ok(None) => return Outcome::Gone,
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    match place(&now) {
        at if at == to => return Outcome::Done,
        Place::Offline => return put_online(files, block, to),
        Place::Fixed => return Outcome::Refused,
        Place::Kernel | Place::Movable => {}
    }
    if let Err(error) = files.write(block, "offline") {
        let outcome = Outcome::of(&error);
        // The answer may have come late: what counts is whether it is offline now.
        let is_offline = |now: &MemoryBlock| now.state == BlockState::Offline;
        if !files.read(block).is_ok_and(|now| now.as_ref().is_some_and(is_offline)) {
            return outcome;
        }
    }
    put_online(files, block, to)
}

/// Tries the region that is wanted, then the other, then whatever the kernel prefers: a block that
/// stays offline is lost memory.
fn put_online(files: &dyn BlockFiles, block: u64, to: Place) -> Outcome {
    let other = if to == Place::Movable { Place::Kernel } else { Place::Movable };
    let mut answer = String::new();
    for word in [online(to), online(to), online(other), "online"] {
        let written = files.write(block, word);
        if let Err(error) = &written {
            answer = error.to_string();
            if Outcome::of(error) == Outcome::Gone {
                return Outcome::Gone;
            }
        }
        match files.read(block) {
            Ok(None) => return Outcome::Gone,
            Ok(Some(now)) if now.state == BlockState::Online => {
                return match (place(&now) == to, written.is_ok()) {
                    (true, _) => Outcome::Done,
                    (false, false) => Outcome::Competing,
                    (false, true) => {
                        Outcome::Failed(format!("online again in its old region after {answer:?}"))
                    }
                };
            }
            _ => {}
        }
    }
    Outcome::LeftOffline(answer)
}

/// The real files. Those that are written stay open: under memory pressure a path walk may fail.
#[derive(Debug)]
pub struct Sysfs {
    roots: Roots,
    open: Mutex<BTreeMap<u64, File>>,
}

impl Sysfs {
    /// The files below `roots`.
    pub fn new(roots: Roots) -> Sysfs {
        Sysfs { roots, open: Mutex::new(BTreeMap::new()) }
    }

    fn with<T>(&self, block: u64, work: impl Fn(&File) -> io::Result<T>) -> io::Result<T> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = open.get(&block) {
            let worked = work(file);
            match &worked {
                // The block was taken away, and perhaps came again: its file is another one now.
                Err(error) if Outcome::of(error) == Outcome::Gone => drop(open.remove(&block)),
                _ => return worked,
            }
        }
        let folder = self.roots.sys.join("devices/system/memory").join(format!("memory{block}"));
        let file = OpenOptions::new().write(true).open(folder.join("state"))?;
        let worked = work(&file);
        open.insert(block, file);
        worked
    }
}

impl BlockFiles for Sysfs {
    fn read(&self, block: u64) -> io::Result<Option<MemoryBlock>> {
        memory_blocks::read_block(&self.roots, block).map_err(|error| match error {
            prairie_host::Error::Io { source, .. } => source,
            other => io::Error::other(other),
        })
    }

    fn write(&self, block: u64, word: &str) -> io::Result<()> {
        self.with(block, |file| {
            let written = match file.write_at(word.as_bytes(), 0) {
                Err(error) if error.raw_os_error() == Some(libc::ESPIPE) => {
                    (&*file).write(word.as_bytes())
                }
                written => written,
            };
            written.map(drop)
        })
    }
}
