//! What compaction asks of Linux's free lists.

use super::Linux;
use super::pageblocks::is_mergeable;
use crate::compaction::Compactable;
use crate::layout::{Frame, Zone};
use crate::placement::stepwise::Stepwise;
use crate::table::FrameTable;
use crate::{MigrateType, Order, ZoneKind};

impl Compactable for Linux {
    fn zone(&self, zone: usize) -> &Zone {
        &self.zones[zone].zone
    }

    fn has_pageblock(&self, zone: usize, block: Frame) -> bool {
        !self.has_hotplug() || Linux::has_pageblock(self, zone, block)
    }

    fn has_block_for(&self, zone: usize, order: Order, migrate_type: MigrateType) -> bool {
        let area = &self.zones[zone].area;
        area.smallest(order, migrate_type.index()).is_some()
            || (migrate_type == MigrateType::Movable
                && area.smallest(order, MigrateType::Cma.index()).is_some())
            || self.zones[zone].could_claim(order, migrate_type)
    }

    /// A block of half a pageblock or more turns its pageblock movable, for that is what will lie
    /// in it.
    fn isolate_free(&mut self, table: &mut FrameTable, zone: usize, frame: Frame) -> Option<Order> {
        let order = table.order(frame);
        let min = self.zones[zone].zone.span.watermarks.min + order.frames();
        if !self.watermark_ok(zone, Order::BASE, min, ZoneKind::Dma) {
            return None;
        }
        self.take_block(table, frame);
        if order.get() + 1 >= Order::HUGE.get() {
            for block in (0..order.frames()).step_by(Order::HUGE.frames() as usize) {
                let block = frame.offset(block);
                if is_mergeable(self.blocks.get(block)) {
                    self.retype(table, zone, block, MigrateType::Movable);
                }
            }
        }
        Some(order)
    }
}

impl Linux {
    /// Gives a pageblock another type; with free-list hygiene what is free in it goes along, unless
    /// the zone's borders forbid it.
    fn retype(&mut self, table: &mut FrameTable, zone: usize, frame: Frame, to: MigrateType) {
        if self.config.hygiene && self.blocks.get(frame) != to {
            let (zone, mut context) = self.at(table, zone);
            if zone.move_free_blocks(&mut context, frame, to).is_none() {
                return;
            }
        }
        self.blocks.set(frame, to);
    }
}
