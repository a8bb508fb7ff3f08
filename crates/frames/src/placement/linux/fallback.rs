//! Taking memory of a foreign type when one's own lists are empty.

use super::flags::AllocFlags;
use super::taken_from::TakenFrom;
use super::zone::LinuxZone;
use super::{Config, Context};
use crate::free_area::End;
use crate::layout::Frame;
use crate::table::{FrameTable, State};
use crate::{BlockCounts, MigrateType, Order};

/// The types that a type falls back to, best first (`fallbacks`).
pub(super) const FALLBACKS: [[MigrateType; 2]; 3] = [
    [MigrateType::Reclaimable, MigrateType::Movable],
    [MigrateType::Reclaimable, MigrateType::Unmovable],
    [MigrateType::Unmovable, MigrateType::Movable],
];

/// From this order on, even a movable request takes the rest of the pageblock along.
pub(super) const HALF_HUGE: Order = Order::new(Order::HUGE.get() / 2).unwrap();

/// A fallback as the tracepoint `mm_page_alloc_extfrag` reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// First frame of the block found.
    pub frame: Frame,
    /// Its order.
    pub order: Order,
    /// The type wanted.
    pub wanted: MigrateType,
    /// The type of the list it was on.
    pub from: MigrateType,
    /// Whether its pageblock was of the wanted type afterwards.
    pub change_ownership: bool,
}

impl LinuxZone {
    /// Takes a block for `migrate_type`, from foreign lists if need be (`__rmqueue`). Also returns
    /// the type whose list it came from in the end. `found` is where the same refill took its last
    /// block.
    pub(super) fn take_typed(
        &mut self,
        context: &mut Context<'_>,
        order: Order,
        migrate_type: MigrateType,
        flags: AllocFlags,
        found: &mut TakenFrom,
    ) -> Option<(Frame, MigrateType)> {
        const CMA: MigrateType = MigrateType::Cma;
        if flags.has(AllocFlags::CMA)
            && self.area.frames_on(CMA.index()) > self.area.free_frames() / 2
        {
            // More than half of what is free lies in the areas: fill these first.
            if let Some(frame) = self.area.take_smallest(context.table, order, CMA.index()) {
                return Some((frame, CMA));
            }
        }
        loop {
            let own = self.area.take_smallest(context.table, order, migrate_type.index());
            if let Some(frame) = own {
                return Some((frame, migrate_type));
            }
            if flags.has(AllocFlags::CMA)
                && let Some(frame) = self.area.take_smallest(context.table, order, CMA.index())
            {
                return Some((frame, CMA));
            }
            if context.config.hygiene {
                return self.claim_or_steal(context, order, migrate_type, flags, found);
            }
            if !self.fall_back(context, order, migrate_type, flags) {
                return None;
            }
        }
    }

    /// Moves at least one fitting block from a foreign list to the lists of `migrate_type`
    /// (`__rmqueue_fallback`); false if there is none.
    ///
    /// The largest block is taken, since its pageblock is likely to be the emptiest. A movable
    /// request that cannot claim takes the smallest instead, for it does no lasting harm anywhere.
    #[cold]
    fn fall_back(
        &mut self,
        context: &mut Context<'_>,
        order: Order,
        migrate_type: MigrateType,
        flags: AllocFlags,
    ) -> bool {
        let min = if flags.has(AllocFlags::NOFRAGMENT) { order.max(Order::HUGE) } else { order };
        let foreign = FALLBACKS[migrate_type.index()];
        let occupied = foreign.map(|kind| u32::from(self.area.occupied(kind.index())));
        let bits = occupied[0] | occupied[1];
        let Some(mut found) = bits.checked_ilog2().filter(|&o| o >= u32::from(min.get())) else {
            return false;
        };
        let can_claim = |order: u32| {
            order >= u32::from(HALF_HUGE.get()) || migrate_type != MigrateType::Movable
        };
        if !can_claim(found) && found > u32::from(order.get()) {
            found = (bits & (u32::MAX << order.get())).trailing_zeros();
        }
        let first = usize::from(occupied[0] >> found & 1 == 0);
        let found_order = Order::new(found as u8).expect("an order of the area");
        let frame = self.area.list(found_order, foreign[first].index()).front();
        let frame = frame.expect("an occupied list");

        self.steal(context, frame, migrate_type, flags, can_claim(found));
        context.counts.extfrag(Fallback {
            frame,
            order: found_order,
            wanted: migrate_type,
            from: foreign[first],
            change_ownership: context.blocks.get(frame) == migrate_type,
        });
        true
    }

    /// Whether a fallback for `order` would take the rest of the pageblock along
    /// (`find_suitable_fallback` with `only_stealable`).
    pub(super) fn could_claim(&self, order: Order, migrate_type: MigrateType) -> bool {
        let from = match migrate_type {
            MigrateType::Movable => order.max(HALF_HUGE),
            _ => order,
        };
        let foreign = FALLBACKS.get(migrate_type.index()).into_iter().flatten();
        foreign.into_iter().any(|kind| self.area.smallest(from, kind.index()).is_some())
    }

    /// Decides how much of a foreign pageblock goes along with the block found in it
    /// (`steal_suitable_fallback`).
    fn steal(
        &mut self,
        context: &mut Context<'_>,
        frame: Frame,
        migrate_type: MigrateType,
        flags: AllocFlags,
        whole_block: bool,
    ) {
        let order = context.table.order(frame);
        let old = context.blocks.get(frame);
        if old == MigrateType::HighAtomic {
            // The reserve's size counts these pageblocks; none may leave it here.
            self.move_to_tail(context.table, frame, migrate_type);
        } else if order >= Order::HUGE {
            context.blocks.set_all(frame, order, migrate_type);
            self.move_to_tail(context.table, frame, migrate_type);
        } else {
            self.boost_watermark(context, flags);
            let whole_block = whole_block && context.config.claiming;
            if !whole_block || !self.claim(context, frame, migrate_type, old) {
                context.counts.single_steals += 1;
                self.move_to_tail(context.table, frame, migrate_type);
            }
        }
    }

    /// Takes all free blocks of a pageblock along, and the pageblock itself if at least half of it
    /// is free or in a use akin to the request's. False if the zone's borders forbid it.
    ///
    /// The kernel checks every frame in use and takes those for movable that are on an LRU list or
    /// belong to a driver that can move them. Here the table's counts show what was requested as
    /// movable, in constant time: the same but for movable memory on its way between lists.
    fn claim(
        &mut self,
        context: &mut Context<'_>,
        frame: Frame,
        migrate_type: MigrateType,
        old: MigrateType,
    ) -> bool {
        let movable = u64::from(context.table.block(frame).movable);
        let Some(free) = self.move_free_blocks(context, frame, migrate_type) else { return false };
        context.counts.block_steals += 1;
        if is_claimable(migrate_type, old, free, movable) || !context.config.grouping {
            context.blocks.set(frame, migrate_type);
            context.counts.claims += 1;
        }
        true
    }

    /// Moves all free blocks of the pageblock of `frame` to the tails of the lists of
    /// `migrate_type`, in ascending order (`move_freepages_block`). Returns how many frames moved;
    /// `None` if the zone's borders forbid it.
    pub(super) fn move_free_blocks(
        &mut self,
        context: &mut Context<'_>,
        frame: Frame,
        migrate_type: MigrateType,
    ) -> Option<u64> {
        let mut at = self.start_of_pageblock(context.config, frame)?;
        let end = frame.align_down(Order::HUGE).offset(Order::HUGE.frames());
        let mut moved = 0;
        while at < end {
            if context.table.state(at) == State::Free {
                moved += self.move_to_tail(context.table, at, migrate_type).frames();
            }
            at = next_block(context.table, at);
        }
        Some(moved)
    }

    /// Frames on the free lists that lie in the pageblock of `frame`; `None` if the zone's borders
    /// keep its free blocks from moving.
    pub(super) fn listed_in_block(&self, context: &Context<'_>, frame: Frame) -> Option<u64> {
        let (table, mut at) = (&*context.table, self.start_of_pageblock(context.config, frame)?);
        let end = frame.align_down(Order::HUGE).offset(Order::HUGE.frames());
        let mut listed = 0;
        while at < end {
            if table.state(at) == State::Free {
                listed += table.order(at).frames();
            }
            at = next_block(table, at);
        }
        Some(listed)
    }

    /// Where to begin to go through the pageblock of `frame`; `None` if it reaches beyond the
    /// zone's end, or since 6.10 beyond its start (`prep_move_freepages_block`).
    fn start_of_pageblock(&self, config: &Config, frame: Frame) -> Option<Frame> {
        let start = frame.align_down(Order::HUGE);
        if start.offset(Order::HUGE.frames()) > self.zone.end {
            return None;
        }
        match self.zone.contains(start) {
            true => Some(start),
            false => (!config.hygiene).then_some(frame),
        }
    }

    /// Moves a free block to the tail of another list (`move_to_free_list`).
    pub(super) fn move_to_tail(
        &mut self,
        table: &mut FrameTable,
        frame: Frame,
        to: MigrateType,
    ) -> Order {
        let order = self.area.remove(table, frame);
        self.area.insert(table, frame, order, to.index(), End::Tail);
        order
    }
}

/// Where the block after the one at `at` begins.
fn next_block(table: &FrameTable, at: Frame) -> Frame {
    match table.state(at) {
        State::Free | State::Allocated | State::Cached => at.offset(table.order(at).frames()),
        State::Absent | State::Reserved | State::Inside => at.offset(1),
    }
}

/// Whether at least half of a pageblock is free or in a use akin to the request's.
pub(super) fn is_claimable(wanted: MigrateType, old: MigrateType, free: u64, movable: u64) -> bool {
    let pageblock = u64::from(BlockCounts::FRAMES);
    let alike = match (wanted, old) {
        (MigrateType::Movable, _) => movable,
        // Neither free nor movable: counts as unmovable.
        (_, MigrateType::Movable) => pageblock.saturating_sub(free + movable),
        // Unmovable and reclaimable cannot be distinguished.
        _ => 0,
    };
    free + alike >= pageblock / 2
}
