//! The state of a zone between two runs: which pageblocks to skip, where the scanners were.

use alloc::vec;
use alloc::vec::Vec;

use super::{Compactable, Memory, Mode, PAGEBLOCK, Pages, deferral::Deferral};
use crate::layout::{Frame, Zone};
use crate::table::State;
use crate::{MigrateType, Mobility, Order};

/// A zone's memory of compaction.
#[derive(Clone, Debug)]
pub struct Hints {
    /// Where asynchronous and synchronous compaction go on (`compact_cached_migrate_pfn`).
    pub(super) migrate: [Frame; 2],
    /// Where the free scanner continues (`compact_cached_free_pfn`).
    pub(super) free: Frame,
    /// Where the migrate scanner restarts (`compact_init_migrate_pfn`), if a full run came to an
    /// end before.
    pub(super) first_migrate: Option<Frame>,
    /// The scanners met in a run of direct compaction: skip bits are stale
    /// (`compact_blockskip_flush`).
    pub(super) stale: bool,
    /// Pageblocks that gave nothing when last scanned (`PB_migrate_skip`), a bit each.
    skip: Vec<u64>,
    /// Pageblock of bit 0.
    base: usize,
    /// How often to try.
    pub deferral: Deferral,
}

impl Hints {
    /// A zone where nothing was tried yet.
    pub fn new(zone: &Zone) -> Hints {
        let base = zone.start.pageblock();
        let blocks = Frame(zone.end.0 - 1).pageblock() - base + 1;
        let mut hints = Hints {
            migrate: [zone.start; 2],
            free: zone.start,
            first_migrate: None,
            stale: false,
            skip: vec![0; blocks.div_ceil(64)],
            base,
            deferral: Deferral::default(),
        };
        hints.restart(zone);
        hints
    }

    /// Lets the next run begin at both ends (`reset_cached_positions`).
    pub(super) fn restart(&mut self, zone: &Zone) {
        self.migrate = [zone.start; 2];
        self.free = Frame(zone.end.0 - 1).align_down(Order::HUGE);
    }

    /// Whether the pageblock of `frame` gave nothing (`get_pageblock_skip`).
    pub fn is_skipped(&self, frame: Frame) -> bool {
        let block = frame.pageblock() - self.base;
        self.skip[block / 64] >> (block % 64) & 1 == 1
    }

    pub(super) fn set_skip(&mut self, frame: Frame) {
        let block = frame.pageblock() - self.base;
        self.skip[block / 64] |= 1 << (block % 64);
    }

    fn clear_skip(&mut self, frame: Frame) {
        let block = frame.pageblock() - self.base;
        self.skip[block / 64] &= !(1 << (block % 64));
    }

    /// The migrate scanner is through with the pageblock before `end` (`update_cached_migrate`).
    pub(super) fn pass_migrate(&mut self, end: Frame, mode: Mode) {
        self.migrate[0] = self.migrate[0].max(end);
        if mode != Mode::Async {
            self.migrate[1] = self.migrate[1].max(end);
        }
    }

    /// The free scanner is through with a pageblock (`update_pageblock_skip`).
    pub(super) fn pass_free(&mut self, block: Frame) {
        self.set_skip(block);
        self.free = self.free.min(block);
    }

    /// Clears the skip bits of pageblocks that may have free or movable pages again, and restarts
    /// the scanners at the outermost of them (`__reset_isolation_suitable`). Does nothing unless a
    /// run of direct compaction has ended since the last call. kswapd calls it before it sleeps.
    /// Time linear in the pageblocks of the zone.
    pub fn forget_skips<P: Compactable, S: Pages>(&mut self, memory: &Memory<'_, P, S>) {
        if !core::mem::take(&mut self.stale) {
            return;
        }
        let zone = memory.zone().clone();
        let (mut migrate, mut free) = (zone.start, Frame(zone.end.0 - 1));
        let (mut lowest, mut highest) = (None, None);
        while migrate < free {
            if self.may_give(memory, &zone, migrate, true, lowest.is_some()) && lowest.is_none() {
                lowest = Some(migrate);
                self.first_migrate = Some(migrate);
                self.migrate = [migrate; 2];
            }
            if self.may_give(memory, &zone, free, highest.is_some(), true) && highest.is_none() {
                highest = Some(free);
                self.free = free.align_down(Order::HUGE);
            }
            migrate = Frame(migrate.0.saturating_add(PAGEBLOCK));
            free = Frame(free.0.saturating_sub(PAGEBLOCK));
        }
        if lowest.unwrap_or(Frame(zone.end.0 - 1)) >= highest.unwrap_or(zone.start) {
            self.migrate = [migrate.min(Frame(zone.end.0 - 1)); 2];
            self.free = free.max(zone.start).align_down(Order::HUGE);
        }
    }

    /// Clears the skip bit of the pageblock of `frame` if a sample of it, one frame in eight, finds
    /// a page to move or a free one, as requested; shows whether it is a place to start
    /// (`__reset_isolation_pfn`).
    fn may_give<P: Compactable, S: Pages>(
        &mut self,
        memory: &Memory<'_, P, S>,
        zone: &Zone,
        frame: Frame,
        as_source: bool,
        as_target: bool,
    ) -> bool {
        let table = &memory.table;
        if table.block(frame).present() == 0 || !memory.placement.has_pageblock(memory.zone, frame)
        {
            return false;
        }
        if as_source && as_target && !self.is_skipped(frame) {
            return true;
        }
        let movable = memory.placement.pageblock_type(frame) == MigrateType::Movable;
        if !as_source && as_target && !movable {
            return false;
        }
        let start = frame.align_down(Order::HUGE).max(zone.start);
        let end = frame.align_down(Order::HUGE).0.saturating_add(PAGEBLOCK).min(zone.end.0);
        let gives = (start.0..end).step_by(8).map(Frame).any(|sample| match table.state(sample) {
            State::Free => as_target,
            State::Allocated => as_source && table.mobility(sample) == Mobility::Movable,
            _ => false,
        });
        if gives {
            self.clear_skip(frame);
        }
        gives
    }
}
