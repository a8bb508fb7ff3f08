//! Dirty page cache, and the daemon that writes it back (`mm/page-writeback.c`).

use std::collections::VecDeque;

use super::Machine;
use super::clock::Next;
use super::page::{Flags, PageId, Use};

/// The flusher looks around this often (`dirty_writeback_centisecs`).
const INTERVAL_NS: u64 = 5_000_000_000;
/// Pages dirty for longer are written regardless of their number (`dirty_expire_centisecs`).
const EXPIRE_NS: u64 = 30_000_000_000;
/// Pages written in one go.
const BATCH: usize = 1024;

/// Dirty pages, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Writeback {
    /// Pages in the order in which they became dirty, and when. Some are clean again by now.
    queue: VecDeque<(PageId, u64)>,
    dirty: u64,
    /// Pages on their way to the disk.
    in_flight: Vec<PageId>,
    wanted_by_reclaim: bool,
}

impl Machine {
    /// Marks a page of a file dirty.
    pub(super) fn dirty(&mut self, id: PageId) {
        let flags = &mut self.memory.pages[id].flags;
        if !flags.has(Flags::DIRTY) {
            flags.set(Flags::DIRTY);
            self.writeback.dirty += 1;
            self.writeback.queue.push_back((id, self.clock.now_ns()));
        }
    }

    /// Marks a page clean.
    pub(super) fn clean(&mut self, id: PageId) {
        let flags = &mut self.memory.pages[id].flags;
        flags.take(Flags::WRITEBACK);
        if flags.take(Flags::DIRTY) {
            self.writeback.dirty -= 1;
        }
    }

    /// Lets a writer wait once too much is dirty (`balance_dirty_pages`).
    pub(super) fn balance_dirty_pages(&mut self) {
        if self.writeback.dirty > self.dirtyable() * self.scenario.vm.dirty_ratio / 100 {
            let wait = self.disk.backlog_ns(self.clock.now_ns()).clamp(10_000_000, 200_000_000);
            self.slice.wait_until_ns = self.slice.wait_until_ns.max(self.clock.now_ns() + wait);
        }
    }

    /// Frames that could be page cache (`global_dirtyable_memory`).
    fn dirtyable(&self) -> u64 {
        self.memory.free_frames() + self.memory.pages.frames_used_as(Use::File)
    }

    /// Reclaim met dirty pages at the end of the list.
    pub(super) fn wake_flusher_for_reclaim(&mut self) {
        self.writeback.wanted_by_reclaim = true;
    }

    /// A round of the flusher: ends what the disk has finished, writes what is due.
    pub(super) fn run_flusher(&mut self) -> Next {
        let now = self.clock.now_ns();
        for id in std::mem::take(&mut self.writeback.in_flight) {
            // A page that was dropped meanwhile has lost the flag with its number.
            if self.memory.pages[id].flags.has(Flags::WRITEBACK) {
                self.clean(id);
            }
        }
        let background = self.dirtyable() * self.scenario.vm.dirty_background_ratio / 100;
        let hurried = std::mem::take(&mut self.writeback.wanted_by_reclaim);
        let much = hurried || self.writeback.dirty > background;
        let mut batch = Vec::new();
        while batch.len() < BATCH {
            match self.writeback.queue.front() {
                Some(&(id, since)) if much || now.saturating_sub(since) > EXPIRE_NS => {
                    self.writeback.queue.pop_front();
                    let flags = &mut self.memory.pages[id].flags;
                    if flags.has(Flags::DIRTY) && !flags.has(Flags::WRITEBACK) {
                        flags.set(Flags::WRITEBACK);
                        batch.push(id);
                    }
                }
                _ => break,
            }
        }
        if batch.is_empty() {
            return Next::SleepUntil(now + INTERVAL_NS / if hurried { 50 } else { 10 });
        }
        self.spend(self.scenario.costs.scan_ns * batch.len() as u64);
        let done = self.disk.submit(now, batch.len() as u64);
        self.writeback.in_flight = batch;
        Next::SleepUntil(done)
    }
}
