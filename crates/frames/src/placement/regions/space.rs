//! The free blocks of one zone, by address, in two parts: one for each region.
//!
//! Each order has one [`BitTree`] over the whole zone. The border cuts it into the free lists of
//! the two regions: what lies below is the unmovable region's, what lies above the movable one's.
//! The end of a list that the bias asks for is then simply the tree's first or last member, and
//! moving the border over a pageblock re-labels that pageblock's free blocks and nothing else.

use alloc::vec::Vec;
use core::ops::Range;

use super::{PER_REGION, Region};
use crate::bit_tree::BitTree;
use crate::free_area::ORDERS;
use crate::layout::Frame;
use crate::run::Run;
use crate::table::{FrameTable, State};
use crate::{Mobility, Order};

/// Which of the blocks that suffice is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pick {
    /// The smallest of those that are further from the border than this, or the furthest if all are
    /// nearer: the bias.
    Beyond(Frame),
    /// The smallest, and of that size the next one below where the last was found: no place is
    /// better than another. The border tells the regions apart.
    Next(Frame),
}

/// Free blocks of one zone.
#[derive(Clone, Debug)]
pub(super) struct Space {
    range: Range<Frame>,
    /// Where [`Pick::Next`] goes on.
    cursor: Frame,
    /// The frame of bit 0 of every tree.
    base: Frame,
    largest: Order,
    trees: Vec<BitTree>,
    parts: [Part; PER_REGION],
}

/// What one region has free in this zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Part {
    counts: [u32; ORDERS],
    /// Bit `j` tells that there are blocks of order `j`.
    nonempty: u16,
    frames: u64,
}

impl Space {
    /// A zone over `range` with nothing free.
    pub(super) fn new(range: Range<Frame>, largest: Order) -> Space {
        let base = range.start.align_down(largest);
        let frames = (range.end.0 - base.0) as usize;
        let tree = |order: Order| BitTree::new(frames.div_ceil(1 << order.get()));
        let trees = Order::up_to(largest).map(tree).collect();
        Space {
            cursor: range.end,
            range,
            base,
            largest,
            trees,
            parts: [Part::default(); PER_REGION],
        }
    }

    /// Free frames of `region`.
    pub(super) fn frames(&self, region: Region) -> u64 {
        self.parts[region as usize].frames
    }

    /// Free blocks of `region` by order.
    pub(super) fn counts(&self, region: Region) -> Vec<u64> {
        let counts = &self.parts[region as usize].counts[..=self.largest.index()];
        counts.iter().map(|&count| u64::from(count)).collect()
    }

    /// Whether `region` has a free block of `order` or larger.
    pub(super) fn has_block(&self, region: Region, order: Order) -> bool {
        order <= self.largest && self.parts[region as usize].nonempty >> order.get() != 0
    }

    /// Bytes that the trees take.
    pub(super) fn bytes(&self) -> usize {
        self.trees.iter().map(BitTree::bytes).sum()
    }

    fn bit(&self, frame: Frame, order: Order) -> usize {
        (frame.0 - self.base.0) as usize >> order.get()
    }

    fn insert(&mut self, table: &mut FrameTable, frame: Frame, order: Order, region: Region) {
        debug_assert_eq!(frame.align_down(order), frame, "order {order}");
        table.set_free(frame, order, region as u8);
        let bit = self.bit(frame, order);
        self.trees[order.index()].insert(bit);
        let part = &mut self.parts[region as usize];
        part.counts[order.index()] += 1;
        part.nonempty |= 1 << order.get();
        part.frames += order.frames();
    }

    /// Takes a free block off the list it is on; its first frame is then [`State::Inside`].
    pub(super) fn remove(&mut self, table: &mut FrameTable, frame: Frame) -> Order {
        debug_assert_eq!(table.state(frame), State::Free, "{frame:?}");
        let (order, region) = (table.order(frame), usize::from(table.list(frame)));
        let bit = self.bit(frame, order);
        self.trees[order.index()].remove(bit);
        let part = &mut self.parts[region];
        part.counts[order.index()] -= 1;
        if part.counts[order.index()] == 0 {
            part.nonempty &= !(1 << order.get());
        }
        part.frames -= order.frames();
        table.set_inside(frame);
        order
    }

    /// The block furthest from the border among those of exactly `order`, which `region` has.
    fn furthest(&self, region: Region, order: Order) -> Frame {
        let tree = &self.trees[order.index()];
        let bit = match region {
            Region::Unmovable => tree.first(),
            Region::Movable => tree.last(),
        };
        let bit = bit.expect("the list is not empty");
        self.base.offset((bit as u64) << order.get())
    }

    /// The next block below the cursor of exactly `order`, which `region` has; from the region's
    /// upper end again if there is none.
    fn next(&self, region: Region, order: Order, border: Frame) -> Option<Frame> {
        let (low, high) = match region {
            Region::Unmovable => (self.base, border.clamp(self.base, self.range.end)),
            Region::Movable => (border.max(self.base), self.range.end),
        };
        let below = |bound: Frame| {
            let end = (bound.0 - self.base.0) as usize;
            let bit = self.trees[order.index()].last_before(end.div_ceil(1 << order.get()))?;
            Some(self.base.offset((bit as u64) << order.get())).filter(|&found| found >= low)
        };
        let from_cursor = (low < self.cursor && self.cursor <= high).then(|| below(self.cursor));
        from_cursor.flatten().or_else(|| below(high))
    }

    /// The free block that a request for `order` is cut from.
    fn choose(&self, region: Region, order: Order, pick: Pick) -> Option<Frame> {
        if !self.has_block(region, order) {
            return None;
        }
        let near = match pick {
            Pick::Beyond(near) => near,
            Pick::Next(border) => {
                let orders = self.parts[region as usize].nonempty >> order.get() << order.get();
                return self.next(region, Order::new(orders.trailing_zeros() as u8)?, border);
            }
        };
        let mut orders = self.parts[region as usize].nonempty >> order.get() << order.get();
        let mut furthest = None;
        while orders != 0 {
            let found = self.furthest(region, Order::new(orders.trailing_zeros() as u8)?);
            orders &= orders - 1;
            let (is_far, further) = match region {
                Region::Unmovable => (found < near, furthest.is_none_or(|best| found < best)),
                Region::Movable => (found >= near, furthest.is_none_or(|best| found > best)),
            };
            if is_far {
                return Some(found);
            }
            if further {
                furthest = Some(found);
            }
        }
        furthest
    }

    /// Takes a block of `order` and leaves the rest of what it is cut from, on the side of the
    /// border.
    pub(super) fn take(
        &mut self,
        table: &mut FrameTable,
        region: Region,
        order: Order,
        pick: Pick,
    ) -> Option<Frame> {
        let mut frame = self.choose(region, order, pick)?;
        self.cursor = frame;
        let found = self.remove(table, frame);
        for half in Order::up_to(found).rev().skip(1).take_while(|&half| half >= order) {
            let upper = frame.offset(half.frames());
            match region {
                Region::Unmovable => self.insert(table, upper, half, region),
                Region::Movable => {
                    self.insert(table, frame, half, region);
                    frame = upper;
                }
            }
        }
        Some(frame)
    }

    /// Takes up to `wanted` single frames as [`take`](Space::take) would one by one, as far as the
    /// first block that it finds has them. `None` if there is none.
    ///
    /// What is left of a block is the smallest that the next frame could be cut from, so that the
    /// block is used up from its far end and the rest stays in the largest blocks that fit.
    pub(super) fn take_run(
        &mut self,
        table: &mut FrameTable,
        region: Region,
        wanted: u32,
        pick: Pick,
    ) -> Option<Run> {
        let start = self.choose(region, Order::BASE, pick)?;
        self.cursor = start;
        let frames = self.remove(table, start).frames() as u32;
        let taken = wanted.min(frames);
        let end = start.0 + frames;
        let (run, rest) = match region {
            Region::Unmovable => (Run::upward(start, taken), start.0 + taken..end),
            Region::Movable => (Run::downward(Frame(end - taken), taken), start.0..end - taken),
        };
        let mut at = Frame(rest.start);
        while at.0 < rest.end {
            let order = at.largest_block(Frame(rest.end), Order::LARGEST_FREE);
            self.insert(table, at, order, region);
            at = at.offset(order.frames());
        }
        Some(run)
    }

    /// Takes a block of `order` from the unmovable region, as near to the border as the smallest
    /// blocks that suffice lie, and leaves the rest of what it is cut from on the far side.
    pub(super) fn take_nearest(
        &mut self,
        table: &mut FrameTable,
        order: Order,
        border: Frame,
    ) -> Option<Frame> {
        let region = Region::Unmovable;
        if !self.has_block(region, order) {
            return None;
        }
        let orders = self.parts[region as usize].nonempty >> order.get() << order.get();
        let found = Order::new(orders.trailing_zeros() as u8)?;
        let bound = border.0.saturating_sub(self.base.0) as usize >> found.get();
        let bit = self.trees[found.index()].last_before(bound).expect("the list is not empty");
        let mut frame = self.base.offset((bit as u64) << found.get());
        self.remove(table, frame);
        for half in Order::up_to(found).rev().skip(1).take_while(|&half| half >= order) {
            self.insert(table, frame, half, region);
            frame = frame.offset(half.frames());
        }
        Some(frame)
    }

    /// Frees a block that is on no list and lies wholly in `region`, merging it with its free
    /// buddies as long as the result does not reach across `border`.
    pub(super) fn give(
        &mut self,
        table: &mut FrameTable,
        mut frame: Frame,
        mut order: Order,
        region: Region,
        border: Frame,
    ) {
        while order < self.largest {
            let buddy = frame.buddy(order);
            let meets_border = frame.max(buddy) == border;
            if meets_border || !self.range.contains(&buddy) || !table.is_free_block(buddy, order) {
                break;
            }
            self.remove(table, buddy);
            frame = frame.min(buddy);
            order = Order::new(order.get() + 1).expect("below the largest order");
        }
        self.insert(table, frame, order, region);
    }

    /// Frees single frames that left a per-CPU list and lie wholly in `region`, frames in a row in
    /// the largest blocks that they make up.
    pub(super) fn give_singles(
        &mut self,
        table: &mut FrameTable,
        frames: impl Iterator<Item = Frame>,
        region: Region,
        border: Frame,
    ) {
        Run::each(frames, |mut run| {
            table.set_run_inside(&run);
            while let Some((frame, order)) = run.next_part() {
                self.give(table, frame, order, region, border);
            }
        });
    }

    /// Compares trees, counts and totals with the table.
    ///
    /// # Panics
    /// If any of them contradict each other, or a block lies on the list of the other region.
    pub(super) fn validate(&self, table: &FrameTable, border: Frame) {
        let mut found = [Part::default(); PER_REGION];
        let mut at = self.range.start;
        while at < self.range.end {
            let order = table.order(at);
            if table.mobility(at) == Mobility::Free && table.state(at) != State::Cached {
                assert_eq!(table.state(at), State::Free, "{at:?} is free and on no list");
                let region = Region::at(at, border);
                assert_eq!(table.list(at), region as u8, "{at:?} is on the other region's list");
                let end = at.offset(order.frames());
                assert!(end <= border || border <= at, "{at:?} of order {order} at {border:?}");
                assert!(self.trees[order.index()].contains(self.bit(at, order)), "{at:?} is lost");
                let part = &mut found[region as usize];
                part.counts[order.index()] += 1;
                part.nonempty |= 1 << order.get();
                part.frames += order.frames();
            }
            at = at.offset(order.frames());
        }
        assert_eq!(found, self.parts, "free blocks by region");
        for order in Order::up_to(self.largest) {
            let counted: u32 = found.iter().map(|part| part.counts[order.index()]).sum();
            let members = self.trees[order.index()].count();
            assert_eq!(members, counted as usize, "members of the tree of order {order}");
        }
    }
}
