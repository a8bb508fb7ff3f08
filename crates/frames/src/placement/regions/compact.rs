//! Compaction of the movable region: Linux's, in pageblocks above the border alone.

use super::{Region, Regions};
use crate::compaction::Compactable;
use crate::layout::{Frame, Zone};
use crate::placement::stepwise::Stepwise;
use crate::table::FrameTable;
use crate::{MigrateType, Order};

impl Compactable for Regions {
    fn zone(&self, zone: usize) -> &Zone {
        &self.zones[zone].zone
    }

    fn has_block_for(&self, zone: usize, order: Order, migrate_type: MigrateType) -> bool {
        let region = Region::of(crate::table::mobility_of(migrate_type));
        self.zones[zone].space.has_block(region, order)
    }

    fn compacts_for(&self, migrate_type: MigrateType) -> bool {
        Region::of(crate::table::mobility_of(migrate_type)) == Region::Movable
    }

    /// Pages move into the movable region alone, and leave it its share of the min mark.
    fn isolate_free(&mut self, table: &mut FrameTable, zone: usize, frame: Frame) -> Option<Order> {
        let (found, order) = (&self.zones[zone], table.order(frame));
        let free = found.space.frames(Region::Movable);
        let min = found.limits[Region::Movable as usize].min;
        let spared = free > min + 2 * order.frames();
        (spared && self.region(frame) == Some(Region::Movable))
            .then(|| self.take_block(table, frame))
    }

    fn leaves(&mut self, table: &FrameTable, frame: Frame) {
        self.forget_outsider(table, frame);
    }
}
