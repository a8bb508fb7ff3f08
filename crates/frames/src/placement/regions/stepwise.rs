//! One attempt at a time, for a machine that reclaims between them.

use super::{Region, Regions};
use crate::free_area::ORDERS;
use crate::layout::Frame;
use crate::placement::stepwise::Stepwise;
use crate::placement::zonelist::Depth;
use crate::placement::{Request, gfp};
use crate::table::{FrameTable, Owner};
use crate::{MigrateType, Order, ZoneKind};

impl Stepwise for Regions {
    /// Below the low mark the border moves first, as far as the request may wait for it.
    fn attempt(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        owner: Owner,
        depth: Depth,
    ) -> Option<Frame> {
        let mut found = self.take(table, request, depth);
        if found.is_none() && depth != Depth::Low {
            let may_move = request.gfp_flags & gfp::DIRECT_RECLAIM != 0;
            if self.resize_on_failure(table, request, may_move) {
                found = self.take(table, request, depth);
            }
        }
        table.allocate(found?, request.order, request.mobility, owner);
        found
    }

    fn free_counts(&self, zone: usize) -> [u64; ORDERS] {
        self.counts_of(zone, &Region::ALL)
    }

    fn movable_counts(&self, zone: usize) -> [u64; ORDERS] {
        self.counts_of(zone, &[Region::Movable])
    }

    /// The mark is the zone's; what counts is that the movable region is above its share of it and
    /// has a block, since that is what reclaim and compaction can do something about.
    fn watermark_ok(&self, zone: usize, order: Order, mark: u64, highest: ZoneKind) -> bool {
        let zone = &self.zones[zone];
        let limits = &zone.limits[Region::Movable as usize];
        let share = mark * limits.high / zone.zone.span.watermarks.high.max(1);
        let kept = share + limits.reserve[highest as usize];
        zone.space.frames(Region::Movable) > kept + order.frames() - 1
            && zone.space.has_block(Region::Movable, order)
    }

    fn drain(&mut self, table: &mut FrameTable) {
        self.drain_lists(table);
    }

    fn take_block(&mut self, table: &mut FrameTable, frame: Frame) -> Order {
        let zone = self.zone_of(frame).expect("a frame outside every zone");
        self.zones[zone].space.remove(table, frame)
    }

    fn give_block(&mut self, table: &mut FrameTable, frame: Frame, order: Order) {
        self.give(table, frame, order);
    }

    fn pageblock_type(&self, frame: Frame) -> MigrateType {
        match self.region(frame) {
            Some(Region::Unmovable) => MigrateType::Unmovable,
            _ => MigrateType::Movable,
        }
    }
}

impl Regions {
    /// Free blocks of a zone by order, of these regions.
    fn counts_of(&self, zone: usize, regions: &[Region]) -> [u64; ORDERS] {
        let mut counts = [0; ORDERS];
        for &region in regions {
            for (count, blocks) in counts.iter_mut().zip(self.zones[zone].space.counts(region)) {
                *count += blocks;
            }
        }
        counts
    }
}
