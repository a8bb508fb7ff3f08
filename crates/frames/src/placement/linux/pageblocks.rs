//! The migrate type of every pageblock.

use alloc::vec;
use alloc::vec::Vec;

use crate::layout::{Frame, Layout, Zone};
use crate::table::FrameTable;
use crate::{BlockCounts, MigrateType, Order};

#[derive(Clone, Copy, Debug)]
struct Pageblock {
    migrate_type: MigrateType,
    /// Whether there is memory in it.
    seen: bool,
    /// The first zone with a frame in it.
    zone: u16,
}

/// Types of pageblocks, and which zone each lies in: one small entry for both, since every free
/// asks for both.
#[derive(Clone, Debug)]
pub(super) struct Pageblocks {
    blocks: Vec<Pageblock>,
    grouping: bool,
}

impl Pageblocks {
    /// All blocks of `layout`, movable (`memmap_init_range`), or unmovable without `grouping`.
    pub(super) fn new(layout: &Layout, grouping: bool) -> Pageblocks {
        let unseen = Pageblock { migrate_type: MigrateType::Movable, seen: false, zone: 0 };
        let count = layout.frames() as usize / usize::from(BlockCounts::FRAMES);
        let mut blocks = Pageblocks { blocks: vec![unseen; count], grouping };
        for (index, zone) in layout.zones().iter().enumerate().rev() {
            for block in &mut blocks.blocks[zone.start.pageblock()..=last(zone).pageblock()] {
                block.zone = index as u16;
            }
        }
        for block in 0..count {
            blocks.set(Frame((block << Order::HUGE.get()) as u32), MigrateType::Movable);
        }
        blocks
    }

    /// The type of the block that contains `frame` (`get_pageblock_migratetype`).
    #[inline]
    pub(super) fn get(&self, frame: Frame) -> MigrateType {
        self.blocks[frame.pageblock()].migrate_type
    }

    /// Gives the block that contains `frame` a type (`set_pageblock_migratetype`).
    pub(super) fn set(&mut self, frame: Frame, migrate_type: MigrateType) {
        self.blocks[frame.pageblock()].migrate_type =
            if self.grouping || !is_mergeable(migrate_type) {
                migrate_type
            } else {
                MigrateType::Unmovable
            };
    }

    /// Gives every pageblock of a block of at least that size a type (`change_pageblock_range`).
    pub(super) fn set_all(&mut self, frame: Frame, order: Order, migrate_type: MigrateType) {
        for block in (0..order.frames()).step_by(usize::from(BlockCounts::FRAMES)) {
            self.set(frame.offset(block), migrate_type);
        }
    }

    /// Records a block's type as found and returns its zone; `None` outside the layout.
    pub(super) fn mark(&mut self, frame: Frame, migrate_type: MigrateType) -> Option<usize> {
        let block = self.blocks.get_mut(frame.pageblock())?;
        block.seen = true;
        let zone = usize::from(block.zone);
        self.set(frame, migrate_type);
        Some(zone)
    }

    /// Takes note that the block that contains `frame` has no memory any more.
    pub(super) fn forget(&mut self, frame: Frame) {
        self.blocks[frame.pageblock()].seen = false;
    }

    /// Notes which blocks have memory.
    pub(super) fn see(&mut self, table: &FrameTable) {
        for (block, counts) in self.blocks.iter_mut().zip(table.blocks()) {
            block.seen |= counts.present() > 0;
        }
    }

    /// The zone of `frame`, which must lie in one: the first of its pageblock, or one after it.
    #[inline]
    pub(super) fn zone_of(&self, frame: Frame, contains: impl Fn(usize) -> bool) -> usize {
        let mut zone = usize::from(self.blocks[frame.pageblock()].zone);
        while !contains(zone) {
            zone += 1;
        }
        zone
    }

    /// The first zone of the pageblock that contains `frame`.
    pub(super) fn first_zone(&self, frame: Frame) -> usize {
        usize::from(self.blocks[frame.pageblock()].zone)
    }

    /// Gives the pageblock that contains `frame` to a zone, whole.
    pub(super) fn set_zone(&mut self, frame: Frame, zone: usize) {
        self.blocks[frame.pageblock()].zone = zone as u16;
    }

    /// Blocks with memory by type, as `/proc/pagetypeinfo` counts them for a zone: a step of one
    /// block from the zone's first frame on (`pagetypeinfo_showblockcount_print`).
    pub(super) fn count(
        &self,
        zone: &Zone,
        owned: impl Fn(Frame) -> bool,
    ) -> [u64; MigrateType::ALL.len()] {
        let mut counts = [0; MigrateType::ALL.len()];
        let frames = (zone.start.0..zone.end.0).step_by(usize::from(BlockCounts::FRAMES));
        for frame in frames.map(Frame).filter(|&frame| owned(frame)) {
            let block = self.blocks[frame.pageblock()];
            counts[block.migrate_type.index()] += u64::from(block.seen);
        }
        counts
    }
}

/// Whether free blocks of this type may merge with those of another type that may
/// (`migratetype_is_mergeable`).
pub(super) const fn is_mergeable(migrate_type: MigrateType) -> bool {
    matches!(migrate_type, MigrateType::Unmovable | MigrateType::Movable | MigrateType::Reclaimable)
}

fn last(zone: &Zone) -> Frame {
    Frame(zone.end.0 - 1)
}
