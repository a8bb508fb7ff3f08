//! The memory of the machine: what is free or in use at the start, and what joins later.

use prairie_frames::placement::{Placement, Request};
use prairie_frames::{BlockCounts, Frame, MigrateType, Mobility, Order, ZoneKind};

use super::{Initial, Replay, each};
use crate::initial_state::{Content, InitialState};

/// Memory joins in sections, as the kernel grows a zone whose struct pages are not all
/// initialized yet (`deferred_grow_zone`, `mm/page_alloc.c`): 128 MiB.
const SECTION: u32 = 1 << 15;

impl<P: Placement> Replay<P> {
    /// Hands the memory of the machine over to the policy, and places what is in use.
    pub(super) fn hand_over(&mut self, found: &InitialState, initial: Initial) {
        if initial == Initial::AsFound {
            for (pageblock, migrate_type) in found.pageblock_types() {
                self.placement.mark_pageblock(pageblock, migrate_type);
            }
        }
        // Memory in use has to lie in the table before the policy learns of what is free around.
        for stretch in &found.stretches {
            match stretch.content {
                Content::Fixed(mobility) => {
                    for frame in each(stretch.start, stretch.frames) {
                        self.table.reserve(frame, mobility);
                    }
                }
                Content::Held(mobility) if initial == Initial::AsFound => {
                    self.hold(found, stretch.start, stretch.frames, mobility);
                }
                Content::Untouched => self.leave_untouched(stretch.start, stretch.frames),
                Content::Held(_) | Content::Free => {}
            }
        }
        for stretch in &found.stretches {
            let is_free = stretch.content == Content::Free;
            let is_replaced =
                initial == Initial::Replaced && matches!(stretch.content, Content::Held(_));
            if is_free || is_replaced {
                self.seed(stretch.start, stretch.frames);
            }
        }
        self.placement.start(&mut self.table);
        self.placement.maintain(&mut self.table);
        if initial == Initial::Replaced {
            for stretch in &found.stretches {
                if let Content::Held(mobility) = stretch.content {
                    self.replace(found, stretch.start, stretch.frames, mobility);
                }
            }
        }
    }

    /// Gives free memory to the policy in the largest aligned blocks.
    fn seed(&mut self, start: Frame, frames: u64) {
        let end = start.offset(frames);
        let mut at = start;
        while at < end {
            let order = at.largest_block(end, Order::LARGEST_FREE);
            self.table.add_memory(at, order);
            self.placement.seed(&mut self.table, at, order);
            at = at.offset(order.frames());
        }
    }

    /// Remembers the whole pageblocks of memory that may join later.
    fn leave_untouched(&mut self, start: Frame, frames: u64) {
        let block = BlockCounts::FRAMES as usize;
        let (start, end) = (start.index(), start.index() + frames as usize);
        self.untouched[start.div_ceil(block)..(end / block).max(start.div_ceil(block))].fill(true);
    }

    /// Lets frames stay where they were found, each held under its own number.
    fn hold(&mut self, found: &InitialState, start: Frame, frames: u64, mobility: Mobility) {
        self.for_blocks(found, start, frames, |replay, frame, order| {
            replay.table.add_memory(frame, order);
            replay.table.allocate(frame, order, mobility, frame.0);
            replay.held.insert(frame.0, order);
            replay.counts.initial_frames += order.frames();
        });
    }

    /// Lets the policy place what was found in use.
    fn replace(&mut self, found: &InitialState, start: Frame, frames: u64, mobility: Mobility) {
        let migrate_type = match mobility {
            Mobility::Movable => MigrateType::Movable,
            _ => MigrateType::Unmovable,
        };
        // Memory that was in the movable zone may go there again.
        let zone = self.layout.zone_of(start).map(|zone| &self.layout.zones()[zone].span);
        let node = zone.map_or(0, |zone| zone.node);
        let highest_zone = zone.map_or(ZoneKind::Normal, |zone| zone.kind.max(ZoneKind::Normal));
        self.for_blocks(found, start, frames, |replay, frame, order| {
            replay.counts.initial_frames += order.frames();
            let place = Request { highest_zone, node, ..Request::default() };
            let request = Request { order, migrate_type, mobility, ..place };
            match replay.placement.allocate(&mut replay.table, &request, frame.0) {
                Some(_) => replay.held.insert(frame.0, order),
                None => replay.counts.initial_without_place += order.frames(),
            }
            replay.pass(0);
        });
    }

    /// Walks the compound pages and single frames of a stretch in use.
    fn for_blocks(
        &mut self,
        found: &InitialState,
        start: Frame,
        frames: u64,
        mut visit: impl FnMut(&mut Self, Frame, Order),
    ) {
        let end = start.offset(frames);
        let mut cursor = found.compounds.partition_point(|&(frame, _)| frame < start);
        let mut at = start;
        while at < end {
            let order = found.block_at(at, &mut cursor);
            let fits = at.offset(order.frames()) <= end && order <= Order::LARGEST_FREE;
            let order = if fits { order } else { Order::BASE };
            visit(self, at, order);
            at = at.offset(order.frames());
        }
    }

    /// Hands over the section around `frame` if it was not initialized before.
    pub(super) fn join(&mut self, frame: Frame) {
        if !self.untouched[frame.pageblock()] {
            return;
        }
        let first = Frame(frame.0 & !(SECTION - 1)).pageblock();
        let last = (first + (SECTION >> Order::HUGE.get()) as usize).min(self.untouched.len());
        for pageblock in first..last {
            if std::mem::take(&mut self.untouched[pageblock]) {
                self.counts.joined_frames += u64::from(BlockCounts::FRAMES);
                let start = Frame((pageblock as u32) << Order::HUGE.get());
                self.seed(start, u64::from(BlockCounts::FRAMES));
            }
        }
    }
}
