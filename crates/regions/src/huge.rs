//! Huge pages on demand: blocks are emptied, hugetlb pages taken at once, and given back the same
//! way.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prairie_daemon::log::Log;
use prairie_host::Roots;

use crate::choice::{self, Block, Place};
use crate::host::Host;
use crate::operation::{self, BlockFilesDebug, Outcome};
use crate::record::Record;
use crate::settings::Setting;
use crate::timer::Timer;

/// Frames of a gigantic page.
const GIGABYTE: u64 = 1 << 18;

/// A pool of hugetlb pages of one size on one node.
#[derive(Clone, Debug)]
pub struct Pool {
    folder: PathBuf,
}

impl Pool {
    /// The pool of pages of `bytes` on `node`.
    pub fn of(roots: &Roots, node: u32, bytes: u64) -> Pool {
        let size = format!("hugepages-{}kB", bytes / 1024);
        let folder = roots.sys.join(format!("devices/system/node/node{node}/hugepages"));
        Pool { folder: folder.join(size) }
    }

    /// Pages in it, used or not.
    ///
    /// # Errors
    /// I/O errors of the system: this kernel has no pages of that size.
    pub fn pages(&self) -> io::Result<u64> {
        self.number("nr_hugepages")
    }

    /// Free pages in it.
    ///
    /// # Errors
    /// As [`Pool::pages`].
    pub fn free(&self) -> io::Result<u64> {
        self.number("free_hugepages")
    }

    fn number(&self, name: &str) -> io::Result<u64> {
        let path = self.folder.join(name);
        let text = fs::read_to_string(&path).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })?;
        text.trim().parse().map_err(|_| io::Error::other(format!("{}: no number", path.display())))
    }

    /// Requests a pool of `pages` pages from the kernel; returns the number that it has.
    ///
    /// # Errors
    /// As [`Pool::pages`].
    pub fn set(&self, pages: u64) -> io::Result<u64> {
        fs::write(self.folder.join("nr_hugepages"), format!("{pages}\n"))?;
        self.pages()
    }
}

/// What a reservation works with.
pub struct Reserve<'a> {
    /// Where the kernel's files are.
    pub roots: &'a Roots,
    /// The blocks' files.
    pub files: Arc<dyn BlockFilesDebug>,
    /// Where it tells what it does.
    pub log: &'a Log,
    /// The node.
    pub node: u32,
    /// How long one block may take.
    pub operation_time: Duration,
    /// Asked before each block: whether to stop.
    pub stop: &'a dyn Fn() -> bool,
}

/// What a reservation came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reserved {
    /// Pages that the pool has.
    pub pages: u64,
    /// Blocks that reservations took from the movable zone and have not returned.
    pub taken: BTreeSet<u64>,
}

impl Reserve<'_> {
    /// Brings a node's pool of pages of `bytes` to `wanted` pages. `taken` are blocks that earlier
    /// reservations took from the movable zone.
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn reserve(
        &self,
        record: &Mutex<Record>,
        taken: BTreeSet<u64>,
        bytes: u64,
        wanted: u64,
    ) -> io::Result<Reserved> {
        let pool = Pool::of(self.roots, self.node, bytes);
        let before = pool.pages()?;
        let mut reserved = Reserved { pages: pool.set(wanted)?, taken };
        if reserved.pages < wanted && bytes > 4 << 20 {
            reserved.pages = self.take_movable(record, &pool, wanted)?.max(reserved.pages);
        }
        while reserved.pages < wanted && bytes == GIGABYTE * 4096 && !(self.stop)() {
            if !self.convert_gigabyte(record, &pool, &mut reserved)? {
                break;
            }
        }
        if wanted < before {
            self.give_back(record, &mut reserved.taken)?;
        }
        Ok(reserved)
    }

    /// Gigantic pages straight from the movable zone, on kernels that allow it.
    fn take_movable(&self, record: &Mutex<Record>, pool: &Pool, wanted: u64) -> io::Result<u64> {
        let setting = Setting::MovableGiganticPages;
        let Ok(now) = setting.read(self.roots) else { return pool.pages() };
        let on = "1".parse()?;
        if now == on {
            return pool.pages();
        }
        lock(record).lease(setting, &on, &now)?;
        setting.write(self.roots, &on)?;
        let pages = pool.set(wanted);
        setting.restore(self.roots, &on, &now)?;
        lock(record).restored(setting)?;
        pages
    }

    /// Turns the emptiest whole gigabyte to the kernel region and takes a page there. False if no
    /// gigabyte can be emptied.
    fn convert_gigabyte(
        &self,
        record: &Mutex<Record>,
        pool: &Pool,
        reserved: &mut Reserved,
    ) -> io::Result<bool> {
        for own in self.gigabytes()? {
            let mut converted = Vec::with_capacity(own.len());
            for block in &own {
                if (self.stop)() || !self.convert(record, *block, Place::Kernel)? {
                    break;
                }
                converted.push(*block);
            }
            let whole = converted.len() == own.len();
            let after = if whole { pool.set(reserved.pages + 1)? } else { reserved.pages };
            if after > reserved.pages {
                reserved.pages = after;
                reserved.taken.extend(own);
                return Ok(true);
            }
            if (self.stop)() {
                // Memory runs short: the kernel region keeps what it got.
                return Ok(false);
            }
            for block in converted {
                self.convert(record, block, Place::Movable)?;
            }
        }
        Ok(false)
    }

    /// The blocks of each gigabyte that could be emptied, emptiest gigabyte first.
    fn gigabytes(&self) -> io::Result<Vec<Vec<u64>>> {
        let mut host = Host::open(self.roots)?;
        let each = (GIGABYTE / host.block_frames).max(1);
        let mut blocks = host.blocks(&[])?;
        for block in blocks.iter_mut().filter(|block| block.node == self.node) {
            host.scan(block, Duration::ZERO);
        }
        let sample = host.sample(Duration::ZERO)?;
        let Some(sample) = sample.nodes.iter().find(|node| node.node == self.node) else {
            return Ok(Vec::new());
        };
        let mut found: Vec<(u64, Vec<Block>)> = Vec::new();
        let mut firsts: Vec<u64> = blocks.iter().map(|block| block.number / each).collect();
        firsts.dedup();
        for first in firsts {
            let own: Vec<Block> =
                blocks.iter().filter(|block| block.number / each == first).copied().collect();
            let fits = |block: &Block| {
                block.node == self.node
                    && block.place == Place::Movable
                    && choice::obstacle(block).is_none()
            };
            let cost = own.iter().filter_map(|b| b.occupancy).map(|o| o.to_move()).sum::<u64>();
            let free = own.iter().filter_map(|b| b.occupancy).map(|o| o.free).sum::<u64>();
            let movable = sample.movable;
            let room = movable.free.saturating_sub(free)
                + movable.cache / 4 * 3
                + sample.kernel.borrowable;
            if own.len() as u64 == each && own.iter().all(fits) && cost + movable.high <= room {
                found.push((cost, own));
            }
        }
        found.sort_by_key(|(cost, _)| *cost);
        Ok(found.into_iter().map(|(_, own)| own.iter().map(|b| b.number).collect()).collect())
    }

    /// Returns blocks to the movable zone that were taken from it and hold nothing that stays.
    fn give_back(&self, record: &Mutex<Record>, taken: &mut BTreeSet<u64>) -> io::Result<()> {
        let mut host = Host::open(self.roots)?;
        let homes: Vec<u64> = lock(record)
            .state()
            .blocks
            .iter()
            .filter(|(_, home)| **home == Place::Movable)
            .map(|(number, _)| *number)
            .collect();
        for mut block in host.blocks(&[])? {
            let ours = homes.contains(&block.number) || taken.contains(&block.number);
            if !ours || block.node != self.node || (self.stop)() {
                continue;
            }
            host.scan(&mut block, Duration::ZERO);
            if block.place == Place::Kernel && choice::obstacle(&block).is_none() {
                self.convert(record, block.number, Place::Movable)?;
                taken.remove(&block.number);
            }
        }
        Ok(())
    }

    fn convert(&self, record: &Mutex<Record>, number: u64, to: Place) -> io::Result<bool> {
        let from = if to == Place::Kernel { Place::Movable } else { Place::Kernel };
        lock(record).busy(number, from)?;
        let mut timer = Timer::start()?;
        let files = self.files.clone();
        timer.begin(self.operation_time, move || operation::convert(&*files, number, to));
        let done = timer.wait().expect("a call is under way");
        lock(record).idle(number, done.place)?;
        let ms = done.took.as_millis();
        let words = done.outcome.words();
        self.log.note("reserve", format_args!("block {number}: {words} [{ms} ms]"));
        Ok(done.outcome == Outcome::Done)
    }
}

/// The record, which the daemon writes, too.
fn lock(record: &Mutex<Record>) -> MutexGuard<'_, Record> {
    // A thread that panicked has left whole lines behind.
    record.lock().unwrap_or_else(PoisonError::into_inner)
}
