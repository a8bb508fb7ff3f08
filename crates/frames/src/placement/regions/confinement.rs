//! What lies on the wrong side of the border, and the proof that nothing else does.
//!
//! Nothing is ever placed in the wrong region, so whatever lies there was there before the start:
//! memory that never was the allocator's, and inherited blocks. Both are counted by pageblock when
//! the machine starts. (With [`Config::pin_migration`](super::Config::pin_migration) switched off,
//! pages that were pinned where they lay are strays too.) From then on a pageblock's count of strays only falls, when one is freed or
//! the border passes; were an allocation ever misplaced, the table's counts would exceed it.

use alloc::vec;
use alloc::vec::Vec;

use super::{PER_REGION, Region, Regions};
use crate::layout::Frame;
use crate::table::{FrameTable, State};
use crate::{BlockCounts, Order};

/// Frames that are excused from confinement, by pageblock.
#[derive(Clone, Debug)]
pub(super) struct Outsiders {
    /// Reserved frames, by the region that their mobility would put them in.
    reserved: Vec<[u16; PER_REGION]>,
    /// Inherited frames in the wrong region.
    strays: Vec<u16>,
    total_strays: u64,
}

impl Outsiders {
    pub(super) fn new(frames: u64) -> Outsiders {
        let pageblocks = (frames / u64::from(BlockCounts::FRAMES)) as usize;
        Outsiders {
            reserved: vec![[0; PER_REGION]; pageblocks],
            strays: vec![0; pageblocks],
            total_strays: 0,
        }
    }

    /// Inherited frames that still lie in the wrong region.
    pub(super) fn strays(&self) -> u64 {
        self.total_strays
    }

    /// Those of one pageblock.
    pub(super) fn strays_in(&self, pageblock: usize) -> u16 {
        self.strays[pageblock]
    }

    /// Reserved frames of one pageblock.
    pub(super) fn reserved_in(&self, pageblock: usize) -> u16 {
        self.reserved[pageblock].iter().sum()
    }

    /// Whether a pageblock has no frame in use but reserved ones.
    pub(super) fn is_empty(&self, pageblock: usize, counts: &BlockCounts) -> bool {
        counts.free + self.reserved_in(pageblock) == counts.present()
    }

    /// The block at `frame` is one more.
    pub(super) fn stray(&mut self, frame: Frame, order: Order) {
        for (pageblock, frames) in shares(frame, order) {
            self.strays[pageblock] += frames;
            self.total_strays += u64::from(frames);
        }
    }

    /// The border passed `frames` strays of a pageblock, which now lie where they belong.
    pub(super) fn settle(&mut self, pageblock: usize, frames: u16) {
        self.total_strays -= u64::from(frames);
        self.strays[pageblock] -= frames;
    }

    pub(super) fn bytes(&self) -> usize {
        self.reserved.capacity() * size_of::<[u16; PER_REGION]>()
            + self.strays.capacity() * size_of::<u16>()
    }
}

/// The pageblocks of a block, each with how many of the block's frames it has.
fn shares(frame: Frame, order: Order) -> impl Iterator<Item = (usize, u16)> {
    let pageblocks = 1usize << order.get().saturating_sub(Order::HUGE.get());
    let frames = order.frames().min(u64::from(BlockCounts::FRAMES)) as u16;
    (frame.pageblock()..frame.pageblock() + pageblocks).map(move |block| (block, frames))
}

impl Regions {
    /// Calls `see(head, order)` for every allocated block that lies in the wrong region, in time
    /// linear in the frames.
    ///
    /// # Panics
    /// If an allocated block reaches across a border.
    fn each_stray(&self, table: &FrameTable, mut see: impl FnMut(Frame, Order)) {
        for zone in &self.zones {
            let border = self.nodes[zone.node].border;
            let mut at = zone.zone.start;
            while at < zone.zone.end {
                let order = table.order(at);
                let end = at.offset(order.frames());
                if table.state(at) == State::Allocated {
                    assert!(end <= border || border <= at, "{at:?} of order {order} at {border:?}");
                    if Region::at(at, border) != Region::of(table.mobility(at)) {
                        see(at, order);
                    }
                }
                at = end;
            }
        }
    }

    /// Counts what was there before the start.
    pub(super) fn find_outsiders(&mut self, table: &FrameTable) {
        let mut outsiders = Outsiders::new(table.frames());
        for zone in &self.zones {
            for frame in (zone.zone.start.0..zone.zone.end.0).map(Frame) {
                if table.state(frame) == State::Reserved {
                    let region = Region::of(table.mobility(frame));
                    outsiders.reserved[frame.pageblock()][region as usize] += 1;
                }
            }
        }
        self.each_stray(table, |frame, order| outsiders.stray(frame, order));
        self.outsiders = outsiders;
    }

    /// The allocated block at `frame` is about to leave its place.
    pub(super) fn forget_outsider(&mut self, table: &FrameTable, frame: Frame) {
        let here = self.region(frame).expect("a frame outside every zone");
        if here == Region::of(table.mobility(frame)) {
            return;
        }
        for (pageblock, frames) in shares(frame, table.order(frame)) {
            self.outsiders.strays[pageblock] -= frames;
            self.outsiders.total_strays -= u64::from(frames);
        }
    }

    /// Proves from the table's counts by pageblock that no unmovable frame lies above a border
    /// and no movable one below it, strays and reserved frames excepted. Time linear in the
    /// pageblocks. A pageblock that two nodes share is left to the exact check.
    ///
    /// # Panics
    /// If there is such a frame.
    pub fn check_confinement(&self, table: &FrameTable) {
        for (pageblock, counts) in table.blocks().iter().enumerate() {
            let start = Frame((pageblock as u32) << Order::HUGE.get());
            let Some(border) = self.only_border(start) else { continue };
            let reserved = self.outsiders.reserved[pageblock];
            let (wrong, reserved) = match Region::at(start, border) {
                Region::Unmovable => (counts.movable, reserved[Region::Movable as usize]),
                Region::Movable => {
                    (counts.unmovable + counts.unknown, reserved[Region::Unmovable as usize])
                }
            };
            let strays = self.outsiders.strays[pageblock];
            assert_eq!(
                wrong,
                strays + reserved,
                "pageblock {pageblock}, border at {border:?}: frames in the wrong region, of \
                 which {strays} inherited and {reserved} reserved"
            );
        }
        let strays = self.outsiders.strays.iter().map(|&frames| u64::from(frames)).sum::<u64>();
        assert_eq!(strays, self.outsiders.total_strays, "inherited strays");
    }

    /// The border of the one node that has frames in the pageblock at `start`.
    fn only_border(&self, start: Frame) -> Option<Frame> {
        let end = start.offset(Order::HUGE.frames());
        let mut nodes = self.zones.iter().filter(|z| z.zone.start < end && start < z.zone.end);
        let node = nodes.next()?.node;
        nodes.all(|zone| zone.node == node).then(|| self.nodes[node].border)
    }

    /// Compares the strays with the blocks themselves, one by one.
    ///
    /// # Panics
    /// If an allocated block lies in the wrong region and is no stray.
    pub(super) fn check_every_block(&self, table: &FrameTable) {
        let mut strays = vec![0; self.outsiders.strays.len()];
        self.each_stray(table, |frame, order| {
            for (pageblock, frames) in shares(frame, order) {
                strays[pageblock] += frames;
            }
        });
        assert_eq!(strays, self.outsiders.strays, "strays by pageblock");
    }
}
