//! Huge pages on demand: blocks are emptied, hugetlb pages taken at once, and given back the same
//! way.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prairie_daemon::log::Log;
use prairie_host::Roots;

use crate::choice::{self, Block, Place};
use crate::host::Host;
use crate::limits;
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
    /// How long 128 MiB of a block may take.
    pub operation_time: Duration,
    /// Asked before each block, and while one is emptied: whether to stop.
    pub stop: &'a dyn Fn() -> bool,
}

impl Reserve<'_> {
    /// Brings a node's pool of pages of `bytes` to `wanted` pages; returns the number that it has.
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn reserve(&self, record: &Mutex<Record>, bytes: u64, wanted: u64) -> io::Result<u64> {
        let pool = Pool::of(self.roots, self.node, bytes);
        let before = pool.pages()?;
        let mut pages = pool.set(wanted)?;
        if pages < wanted && bytes > 4 << 20 {
            pages = self.take_movable(record, &pool, wanted)?.max(pages);
        }
        while pages < wanted && bytes == GIGABYTE * 4096 && !(self.stop)() {
            match self.convert_gigabyte(record, &pool, wanted)? {
                Some(more) => pages = more,
                None => break,
            }
        }
        if wanted < before {
            self.give_back(record)?;
        }
        Ok(pages)
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

    /// Turns the emptiest whole gigabyte to the kernel region and takes the pages that fit there: a
    /// block may have two gigabytes, and others may use the pool, too. Returns the pool's pages;
    /// nothing if no gigabyte can be emptied.
    fn convert_gigabyte(
        &self,
        record: &Mutex<Record>,
        pool: &Pool,
        wanted: u64,
    ) -> io::Result<Option<u64>> {
        let before = pool.pages()?;
        if before >= wanted {
            return Ok(Some(before));
        }
        for own in self.gigabytes()? {
            let mut converted = Vec::with_capacity(own.len());
            for block in &own {
                if (self.stop)() || !self.convert(record, block, Place::Kernel)? {
                    break;
                }
                converted.push(*block);
            }
            let whole = converted.len() == own.len();
            let after = if whole { pool.set(wanted)? } else { before };
            if after > before {
                converted.iter().try_for_each(|block| lock(record).took(block.number))?;
                return Ok(Some(after));
            }
            if (self.stop)() {
                // Memory runs short: the kernel region keeps what it got.
                return Ok(None);
            }
            for block in converted {
                self.convert(record, &block, Place::Movable)?;
            }
        }
        Ok(None)
    }

    /// The blocks of each gigabyte that could be emptied, emptiest gigabyte first.
    fn gigabytes(&self) -> io::Result<Vec<Vec<Block>>> {
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
            let room = movable.usable().saturating_sub(free) + sample.kernel.borrowable;
            if own.len() as u64 == each && own.iter().all(fits) && cost + movable.high <= room {
                found.push((cost, own));
            }
        }
        found.sort_by_key(|(cost, _)| *cost);
        Ok(found.into_iter().map(|(_, own)| own).collect())
    }

    /// Returns blocks to the movable zone that reservations took from it, if they hold nothing that
    /// stays. Blocks by which the kernel region grew since then are not theirs.
    fn give_back(&self, record: &Mutex<Record>) -> io::Result<()> {
        let mut host = Host::open(self.roots)?;
        let taken = lock(record).state().taken.clone();
        for mut block in host.blocks(&[])? {
            if !taken.contains(&block.number) || block.node != self.node || (self.stop)() {
                continue;
            }
            host.scan(&mut block, Duration::ZERO);
            if block.place == Place::Kernel && choice::obstacle(&block).is_none() {
                self.convert(record, &block, Place::Movable)?;
            }
        }
        Ok(())
    }

    fn convert(&self, record: &Mutex<Record>, block: &Block, to: Place) -> io::Result<bool> {
        let number = block.number;
        let from = if to == Place::Kernel { Place::Movable } else { Place::Kernel };
        lock(record).busy(number, from)?;
        let mut timer = Timer::start()?;
        let files = self.files.clone();
        let to_move = block.occupancy.map_or(0, |found| found.to_move());
        let limit = limits::operation_time(self.operation_time, to_move);
        timer.begin(limit, move || operation::convert(&*files, number, to));
        let done = timer.wait_unless(self.stop).expect("a call is under way");
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
