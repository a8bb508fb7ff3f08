//! One run over a zone: two scanners that walk towards each other (`compact_zone`).
//!
//! ```text
//! zone start                                                          zone end
//!    | moved away . . . . | migrate ---->        <---- free | filled . . . . |
//! ```

use alloc::vec::Vec;

use super::hints::Hints;
use super::suitable::{
    EXTFRAG_THRESHOLD, Suitable, frames_in_blocks, suitable, suitable_in_blocks,
};
use super::{Compactable, Cost, Memory, Mode, Outcome, PAGEBLOCK, Pages, score};
use crate::indices::FreeBlocks;
use crate::layout::Frame;
use crate::{MigrateType, Order, ZoneKind};

/// The purpose of a run (`struct compact_control`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// The block wanted; `None` to compact as far as possible (`order == -1`).
    pub order: Option<Order>,
    /// The type of the request.
    pub migrate_type: MigrateType,
    /// The highest zone that the request may use.
    pub highest_zone: ZoneKind,
    /// How hard to try.
    pub mode: Mode,
    /// Whether an allocation waits for it.
    pub direct: bool,
    /// Whether to begin at the ends of the zone.
    pub whole_zone: bool,
    /// Whether to scan pageblocks that gave nothing when last scanned.
    pub ignore_skip_hint: bool,
    /// Whether pages may move into pageblocks of any type (`ignore_block_suitable`).
    pub ignore_block_type: bool,
    /// Frames that are to be free in whole pageblocks before it stops, in defrag mode.
    pub until_blocks: Option<u64>,
    /// The score at which proactive compaction stops (`proactive_compaction`).
    pub until_score: Option<u32>,
    /// The fragmentation index up to which a zone is skipped (`vm.extfrag_threshold`).
    pub extfrag_threshold: i64,
}

impl Default for Control {
    /// What writing to `/proc/sys/vm/compact_memory` asks for (`compact_node`).
    fn default() -> Control {
        Control {
            order: None,
            migrate_type: MigrateType::Unmovable,
            highest_zone: ZoneKind::Movable,
            mode: Mode::Sync,
            direct: false,
            whole_zone: true,
            ignore_skip_hint: true,
            ignore_block_type: false,
            until_blocks: None,
            until_score: None,
            extfrag_threshold: EXTFRAG_THRESHOLD,
        }
    }
}

/// A run under way.
pub(super) struct Run<'a, 'm, P, S> {
    pub(super) memory: &'a mut Memory<'m, P, S>,
    pub(super) hints: &'a mut Hints,
    pub(super) control: &'a Control,
    /// The next frame of the migrate scanner (`migrate_pfn`).
    pub(super) migrate: Frame,
    /// Where the free scanner is (`free_pfn`).
    pub(super) free: Frame,
    /// Isolated pages to move; the last is moved first.
    pub(super) sources: Vec<Frame>,
    /// Isolated free frames; the last is used first.
    pub(super) targets: Vec<Frame>,
    /// The pageblock is scanned again: this time to its end.
    pub(super) rescan: bool,
    pub(super) cost: Cost,
    whole_zone: bool,
}

/// Whether `frame` is the first of a pageblock.
pub(super) fn is_aligned(frame: Frame) -> bool {
    frame.align_down(Order::HUGE) == frame
}

/// Compacts one zone. Time linear in the frames between the scanners.
pub fn compact_zone<P: Compactable, S: Pages>(
    memory: &mut Memory<'_, P, S>,
    hints: &mut Hints,
    control: &Control,
) -> (Outcome, Cost) {
    if let Some(order) = control.order {
        let (threshold, highest) = (control.extfrag_threshold, control.highest_zone);
        let (placement, zone) = (&*memory.placement, memory.zone);
        let verdict = match control.until_blocks {
            Some(wanted) => suitable_in_blocks(placement, zone, order, highest, threshold, wanted),
            None => suitable(placement, zone, order, highest, threshold),
        };
        match verdict {
            Suitable::Satisfied => return (Outcome::Success, Cost::default()),
            Suitable::Skip => return (Outcome::Skipped, Cost::default()),
            Suitable::Compact => {}
        }
        if hints.deferral.is_restarting(order) {
            hints.forget_skips(memory);
        }
    }
    let mut run = Run::new(memory, hints, control);
    let outcome = run.scan();
    run.release();
    (outcome, run.cost)
}

impl<'a, 'm, P: Compactable, S: Pages> Run<'a, 'm, P, S> {
    fn new(
        memory: &'a mut Memory<'m, P, S>,
        hints: &'a mut Hints,
        control: &'a Control,
    ) -> Run<'a, 'm, P, S> {
        let zone = memory.zone();
        let cached = hints.migrate[usize::from(control.mode != Mode::Async)];
        let (migrate, free) = if control.whole_zone {
            (zone.start, Frame(zone.end.0 - 1).align_down(Order::HUGE))
        } else {
            if cached >= zone.end {
                hints.migrate = [zone.start; 2];
            }
            (if cached >= zone.end { zone.start } else { cached }, hints.free)
        };
        let anew = hints.first_migrate.is_some_and(|first| migrate <= first);
        Run {
            memory,
            hints,
            control,
            migrate,
            free,
            sources: Vec::new(),
            targets: Vec::new(),
            rescan: false,
            cost: Cost::default(),
            whole_zone: control.whole_zone || anew,
        }
    }

    /// Isolates, moves and looks whether it is enough, again and again.
    fn scan(&mut self) -> Outcome {
        let hurried = self.control.direct && self.control.mode == Mode::Async;
        let mut in_step =
            self.control.mode == Mode::Async && self.hints.migrate[0] == self.hints.migrate[1];
        let mut last_moved: Option<Frame> = None;
        loop {
            if let Some(outcome) = self.finished() {
                return outcome;
            }
            let begin = self.migrate;
            // Otherwise pages that cannot move would be retried forever.
            self.rescan = last_moved.is_some_and(|last| last.pageblock() == begin.pageblock());
            if !self.isolate_sources() {
                if in_step {
                    self.hints.migrate[1] = self.hints.migrate[0];
                }
                continue;
            }
            in_step = false;
            last_moved = Some(begin);
            match self.move_sources() {
                Moved::All => {}
                Moved::NoTarget if !self.have_met() => return Outcome::Contended,
                Moved::NoTarget | Moved::Some => {
                    if hurried && let Some(order) = self.control.order {
                        let end = (self.migrate.0).next_multiple_of(order.frames() as u32);
                        self.migrate = Frame(end);
                        last_moved = None;
                    }
                }
            }
        }
    }

    /// Moves the isolated pages, each to a frame of the free scanner's (`migrate_pages`).
    fn move_sources(&mut self) -> Moved {
        let mut moved = Moved::All;
        let mut left = core::mem::take(&mut self.sources);
        while let Some(from) = left.pop() {
            if self.targets.is_empty() {
                // As many as are left to move.
                left.push(from);
                core::mem::swap(&mut self.sources, &mut left);
                self.isolate_targets();
                core::mem::swap(&mut self.sources, &mut left);
                left.pop();
            }
            let Some(to) = self.targets.pop() else {
                self.cost.failed += 1;
                return Moved::NoTarget;
            };
            if self.memory.migrate(from, to, self.control.mode) {
                self.cost.moved += 1;
            } else {
                self.targets.push(to);
                self.cost.failed += 1;
                moved = Moved::Some;
            }
        }
        moved
    }

    /// Whether to stop, and with what (`__compact_finished`).
    fn finished(&mut self) -> Option<Outcome> {
        if self.have_met() {
            let zone = self.memory.zone().clone();
            self.hints.restart(&zone);
            self.hints.stale |= self.control.direct;
            let all = self.whole_zone;
            return Some(if all { Outcome::Complete } else { Outcome::PartialSkipped });
        }
        if let Some(target) = self.control.until_score {
            let counts = self.memory.placement.movable_counts(self.memory.zone);
            let free = FreeBlocks { counts: &counts };
            let score = score::external_fragmentation(free, Order::HUGE);
            return (score <= target).then_some(Outcome::Success);
        }
        if let Some(wanted) = self.control.until_blocks {
            let counts = self.memory.placement.movable_counts(self.memory.zone);
            return (frames_in_blocks(&counts) > wanted).then_some(Outcome::Success);
        }
        let order = self.control.order?;
        // A pageblock is emptied to its end, so that what it was broken for has room to grow.
        let (placement, zone) = (&self.memory.placement, self.memory.zone);
        let satisfied = is_aligned(self.migrate)
            && placement.has_block_for(zone, order, self.control.migrate_type);
        satisfied.then_some(Outcome::Success)
    }

    /// Whether the scanners are in the same pageblock, or past each other
    /// (`compact_scanners_met`).
    fn have_met(&self) -> bool {
        self.free.pageblock() <= self.migrate.pageblock()
    }

    /// Gives unused free pages back, and lets the next free scanner begin there
    /// (`release_freepages`).
    fn release(&mut self) {
        let mut highest = None;
        for frame in core::mem::take(&mut self.targets).into_iter().rev() {
            highest = highest.max(Some(frame.align_down(Order::HUGE)));
            self.memory.placement.give_block(self.memory.table, frame, Order::BASE);
        }
        if let Some(block) = highest {
            self.hints.free = self.hints.free.max(block);
        }
    }

    /// Whether a pageblock rests until its skip bit is cleared (`isolation_suitable`).
    pub(super) fn skips(&self, block: Frame) -> bool {
        !self.control.ignore_skip_hint && self.hints.is_skipped(block)
    }

    /// Whether both ends of a pageblock, as far as it is the zone's, are memory of the zone
    /// (`pageblock_pfn_to_page`).
    pub(super) fn is_populated(&self, block: Frame) -> bool {
        let zone = self.memory.zone();
        block.0 + PAGEBLOCK > zone.start.0
            && block < zone.end
            && self.memory.table.block(block).present() > 0
            && self.memory.placement.has_pageblock(self.memory.zone, block)
    }
}

enum Moved {
    All,
    Some,
    NoTarget,
}
