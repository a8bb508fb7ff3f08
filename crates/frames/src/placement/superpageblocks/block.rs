//! One superpageblock: its free lists and the types of its pageblocks.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::{Counts, MOVABLE, TYPES};
use crate::free_area::{End, FreeArea};
use crate::layout::Frame;
use crate::table::{FrameTable, State};
use crate::{BlockCounts, MigrateType, Order};

/// Frames in a pageblock.
const PAGEBLOCK: u32 = BlockCounts::FRAMES as u32;

/// 1 GiB of a zone, or what the zone has of it.
#[derive(Clone, Debug)]
pub(super) struct Superpageblock {
    pub(super) range: Range<Frame>,
    pub(super) area: FreeArea<TYPES>,
    /// Frames that the allocator was ever given.
    pub(super) managed: u64,
    /// By pageblock, the list that its free memory goes to.
    types: Vec<u8>,
    /// Pageblocks that are not movable.
    foreign: u32,
}

impl Superpageblock {
    pub(super) fn new(range: Range<Frame>) -> Superpageblock {
        let blocks = Frame(range.end.0 - 1).pageblock() - range.start.pageblock() + 1;
        Superpageblock {
            area: FreeArea::new(range.clone(), Order::LARGEST_FREE),
            range,
            managed: 0,
            types: vec![MOVABLE as u8; blocks],
            foreign: 0,
        }
    }

    /// Whether a pageblock of it is unmovable or reclaimable.
    pub(super) fn is_tainted(&self) -> bool {
        self.foreign > 0
    }

    pub(super) fn free_frames(&self) -> u64 {
        self.area.free_frames()
    }

    fn index(&self, frame: Frame) -> usize {
        frame.pageblock() - self.range.start.pageblock()
    }

    pub(super) fn type_of(&self, frame: Frame) -> usize {
        usize::from(self.types[self.index(frame)])
    }

    fn set_type(&mut self, frame: Frame, list: usize) {
        let at = self.index(frame);
        self.foreign -= u32::from(usize::from(self.types[at]) != MOVABLE);
        self.foreign += u32::from(list != MOVABLE);
        self.types[at] = list as u8;
    }

    /// Memory is handed over. A pageblock in which unmovable memory was found is unmovable.
    pub(super) fn add(&mut self, table: &FrameTable, frame: Frame, order: Order) {
        self.managed += order.frames();
        self.mark_found(table, frame, order);
    }

    fn mark_found(&mut self, table: &FrameTable, frame: Frame, order: Order) {
        for at in (frame.0..frame.0 + order.frames() as u32).step_by(PAGEBLOCK as usize) {
            let counts = table.block(Frame(at));
            if counts.unmovable + counts.unknown > 0 {
                self.set_type(Frame(at), MigrateType::Unmovable.index());
            }
        }
    }

    /// Looks at what is in use: whole pageblocks of it were never handed over.
    pub(super) fn start(&mut self, table: &FrameTable) {
        let (start, end) = (self.range.start.align_down(Order::HUGE).0, self.range.end.0);
        for at in (start..end).step_by(PAGEBLOCK as usize) {
            self.mark_found(table, Frame(at.max(self.range.start.0)), Order::BASE);
            let counts = table.block(Frame(at));
            self.managed += u64::from(counts.movable + counts.unmovable + counts.unknown);
        }
    }

    /// Whether a type's own lists have a block.
    pub(super) fn has_own(&self, order: Order, list: usize) -> bool {
        self.area.smallest(order, list).is_some()
    }

    pub(super) fn take_own(
        &mut self,
        table: &mut FrameTable,
        order: Order,
        list: usize,
    ) -> Option<Frame> {
        self.area.take_smallest(table, order, list)
    }

    /// How well this superpageblock suits a request, 0 best; `None` if it has no block for it.
    ///
    /// Movable: clean; then memory of its own type in tainted ones; then what others have there.
    /// Others, in tainted ones: of their own type; a whole pageblock to claim; what can be claimed
    /// or borrowed there; and only then a clean one.
    pub(super) fn rank(&self, order: Order, list: usize) -> Option<u8> {
        if !self.area.has_block(order) {
            return None;
        }
        let own = self.has_own(order, list);
        Some(match (list == MOVABLE, self.is_tainted()) {
            (true, false) => 0,
            (true, true) => 2 - u8::from(own),
            (false, true) if own => 0,
            (false, true) if self.area.has_block(order.max(Order::HUGE)) => 1,
            (false, true) => 2,
            (false, false) => 3,
        })
    }

    /// A block for a request, of whatever type.
    pub(super) fn take(
        &mut self,
        table: &mut FrameTable,
        order: Order,
        list: usize,
        counts: &mut Counts,
    ) -> Option<Frame> {
        if !self.has_own(order, list) {
            self.steal(table, order, list, counts)?;
        }
        self.take_own(table, order, list)
    }

    /// Brings a block of another type to the lists of this one: the largest, whose pageblock is
    /// likely to be the emptiest. The pageblock goes along if it is whole; for a movable request, as
    /// in Linux, if half of it is free or movable (`steal_suitable_fallback`), and nothing in it
    /// is unmovable; for any other always,
    /// so that a superpageblock with unmovable memory never passes for clean.
    fn steal(
        &mut self,
        table: &mut FrameTable,
        order: Order,
        list: usize,
        counts: &mut Counts,
    ) -> Option<()> {
        let others = (0..TYPES).filter(|&other| other != list);
        let largest = others.filter_map(|other| {
            let found = self.area.occupied(other).checked_ilog2()?;
            (found >= u32::from(order.get())).then_some((found, other))
        });
        let (found, from) = largest.max()?;
        let found = Order::new(found as u8)?;
        let frame = self.area.list(found, from).front()?;
        if found >= Order::HUGE {
            for block in (0..found.frames()).step_by(PAGEBLOCK as usize) {
                self.set_type(frame.offset(block), list);
                counts.claimed += 1;
            }
            self.relist(table, frame, list);
            return Some(());
        }
        let block = *table.block(frame);
        // What cannot move pollutes the pageblock in any case; its type says so from now on.
        let is_clean = block.unmovable + block.unknown == 0;
        let most = block.free + block.movable >= BlockCounts::FRAMES / 2;
        if list != MOVABLE || (is_clean && most) {
            self.set_type(frame, list);
            self.relist_pageblock(table, frame, list);
            counts.claimed += 1;
        } else {
            self.relist(table, frame, list);
            counts.borrowed += 1;
        }
        Some(())
    }

    /// Moves one free block to another list.
    fn relist(&mut self, table: &mut FrameTable, frame: Frame, list: usize) {
        let order = self.area.remove(table, frame);
        self.area.insert(table, frame, order, list, End::Head);
    }

    /// Moves all free blocks of a pageblock to another list.
    fn relist_pageblock(&mut self, table: &mut FrameTable, frame: Frame, list: usize) {
        for head in self.heads(table, frame) {
            if table.state(head) == State::Free {
                self.relist(table, head, list);
            }
        }
    }

    /// The first frames of the blocks that start in a pageblock, of this superpageblock.
    pub(super) fn heads(&self, table: &FrameTable, frame: Frame) -> Vec<Frame> {
        let start = frame.align_down(Order::HUGE).0.max(self.range.start.0);
        let end = (frame.align_down(Order::HUGE).0 + PAGEBLOCK).min(self.range.end.0);
        let (mut heads, mut at) = (Vec::new(), start);
        while at < end {
            match table.state(Frame(at)) {
                State::Inside => at += 1,
                _ => {
                    heads.push(Frame(at));
                    at += table.order(Frame(at)).frames() as u32;
                }
            }
        }
        heads
    }

    /// Frees a block that is on no list, to the lists of its pageblock's type. A pageblock that
    /// becomes wholly free has no type: it counts as movable, and no longer taints its
    /// superpageblock.
    pub(super) fn give(&mut self, table: &mut FrameTable, frame: Frame, order: Order) {
        let (frame, order) = self.area.merge(table, frame, order, |_, _, _| true);
        if order >= Order::HUGE {
            for block in (0..order.frames()).step_by(PAGEBLOCK as usize) {
                self.set_type(frame.offset(block), MOVABLE);
            }
        }
        let list = self.type_of(frame);
        self.area.insert(table, frame, order, list, End::Head);
    }

    /// Free pageblocks.
    pub(super) fn free_pageblocks(&self) -> u32 {
        let blocks =
            |order: Order| -> u32 { (0..TYPES).map(|l| self.area.list(order, l).len()).sum() };
        blocks(Order::HUGE) + 2 * blocks(Order::LARGEST_FREE)
    }

    /// The pageblock that needs the fewest page migrations to become free, if all its pages can
    /// move.
    pub(super) fn emptiest_pageblock(&self, table: &FrameTable) -> Option<Frame> {
        let first = self.range.start.align_down(Order::HUGE).0;
        let starts = (first..self.range.end.0).step_by(PAGEBLOCK as usize).map(Frame);
        let candidates = starts.filter(|&start| {
            let counts = table.block(start);
            start >= self.range.start
                && start.0 + PAGEBLOCK <= self.range.end.0
                && counts.is_whole()
                && counts.unmovable + counts.unknown == 0
                && counts.movable > 0
                && counts.movable < BlockCounts::FRAMES
        });
        candidates.min_by_key(|&start| table.block(start).movable)
    }

    /// Adds the pageblocks by type.
    pub(super) fn count_types(&self, counts: &mut [u64; MigrateType::ALL.len()]) {
        for &list in &self.types {
            counts[usize::from(list)] += 1;
        }
    }

    /// # Panics
    /// If lists, types and counts contradict each other or the table.
    pub(super) fn validate(&self, table: &FrameTable) {
        self.area.validate(table);
        let foreign = self.types.iter().filter(|&&list| usize::from(list) != MOVABLE).count();
        assert_eq!(foreign as u32, self.foreign, "tainted pageblocks");
        let found: u32 = Order::up_to(self.area.largest())
            .skip(Order::HUGE.index())
            .flat_map(|order| (0..TYPES).map(move |list| (order, list)))
            .map(|(order, list)| self.area.list(order, list).len() << (order.get() - 9))
            .sum();
        assert_eq!(found, self.free_pageblocks(), "free pageblocks");
    }
}
