//! The migrate scanner: from the bottom of the zone, pages to move (`isolate_migratepages`).

use super::zone::{Run, is_aligned};
use super::{CLUSTER, Compactable, Mode, PAGEBLOCK, Pages};
use crate::layout::Frame;
use crate::table::State;
use crate::{MigrateType, Order};

impl<P: Compactable, S: Pages> Run<'_, '_, P, S> {
    /// Isolates pages of the first suitable pageblock, up to a cluster of them. False if there was
    /// none in it; the scanner has moved on all the same.
    pub(super) fn isolate_sources(&mut self) -> bool {
        let mut low = self.migrate;
        let mut block = low.align_down(Order::HUGE);
        while block.0 + PAGEBLOCK <= self.free.0 {
            let end = Frame(block.0 + PAGEBLOCK);
            let rests = is_aligned(low) && self.skips(block);
            if self.is_populated(block) && !rests {
                if self.is_suitable_source(block) {
                    self.isolate_sources_in(low, end);
                    break;
                }
                self.hints.pass_migrate(end, self.control.mode);
            }
            (self.migrate, low, block) = (end, end, end);
        }
        !self.sources.is_empty()
    }

    /// Direct asynchronous compaction spares pageblocks of other types, where emptying one for
    /// this request would not help its type (`suitable_migration_source`).
    fn is_suitable_source(&self, block: Frame) -> bool {
        let table = &self.memory.table;
        let huge = table.state(block) == State::Allocated && table.order(block) >= Order::HUGE;
        if huge {
            return false;
        }
        if self.control.mode != Mode::Async || !self.control.direct {
            return true;
        }
        let found = self.memory.placement.pageblock_type(block);
        match self.control.migrate_type {
            MigrateType::Movable => matches!(found, MigrateType::Movable | MigrateType::Cma),
            wanted => found == wanted,
        }
    }

    /// Isolates pages of one pageblock from `from` on (`isolate_migratepages_block`).
    ///
    /// A direct asynchronous run wants a single block of its order: where one page of an aligned
    /// block of that size cannot be moved, the rest of it is left alone.
    fn isolate_sources_in(&mut self, from: Frame, end: Frame) {
        let hurried = self.control.direct && self.control.mode == Mode::Async;
        let order = self.control.order.unwrap_or(Order::BASE);
        let step = order.frames() as u32;
        let after = |at: u32| (at + 1).next_multiple_of(step);
        let (mut low, mut stop) = (from.0, after(from.0));
        let (mut looked, mut marked) = (false, false);
        while low < end.0 {
            if hurried && low >= stop {
                if !self.sources.is_empty() {
                    break;
                }
                stop = after(low);
            }
            self.cost.migrate_scanned += 1;
            let at = Frame(low);
            if !looked && is_aligned(at) {
                if self.skips(at) {
                    low = end.0;
                    break;
                }
                looked = true;
            }
            let table = &self.memory.table;
            let (state, frames) = (table.state(at), table.order(at).frames() as u32);
            match state {
                State::Free => {
                    low += frames;
                    continue;
                }
                State::Allocated if frames == 1 && self.can_isolate(at) => {
                    if !marked && is_aligned(at) && !self.control.ignore_skip_hint {
                        self.hints.set_skip(at);
                    }
                    marked = true;
                    self.sources.push(at);
                    low += 1;
                    if self.sources.len() >= CLUSTER && !self.rescan {
                        break;
                    }
                    continue;
                }
                // Compound pages are passed at once.
                State::Allocated => low += frames,
                _ => low += 1,
            }
            if hurried {
                self.sources.clear();
                if low <= stop {
                    low = stop;
                    stop += step;
                }
            }
        }
        low = low.min(end.0);
        self.cost.isolated += self.sources.len() as u64;
        if low == end.0 && (self.sources.is_empty() || self.rescan) {
            if looked && !marked {
                self.hints.set_skip(from);
            }
            self.hints.pass_migrate(end, self.control.mode);
        }
        self.migrate = Frame(low);
    }

    fn can_isolate(&self, frame: Frame) -> bool {
        self.memory.pages.can_isolate(self.memory.table, frame, self.control.mode)
    }
}
