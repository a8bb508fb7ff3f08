//! One attempt at a time, for a machine that reclaims between them.

use super::{Superpageblocks, list_of};
use crate::free_area::ORDERS;
use crate::layout::Frame;
use crate::placement::Request;
use crate::placement::stepwise::Stepwise;
use crate::placement::zonelist::Depth;
use crate::table::{FrameTable, Owner};
use crate::{MigrateType, Order, ZoneKind};

impl Stepwise for Superpageblocks {
    fn attempt(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        owner: Owner,
        depth: Depth,
    ) -> Option<Frame> {
        if request.order > Order::LARGEST_FREE {
            return None;
        }
        let list = list_of(request.migrate_type);
        for at in 0..self.zonelists.get(request.node, request.highest_zone).len() {
            let zone = self.zonelists.get(request.node, request.highest_zone)[at];
            if !self.zones[zone].allows(request, depth) {
                continue;
            }
            if self.config.evacuate_first && self.zones[zone].would_taint(request.order, list) {
                self.empty_for_request(table, zone);
            }
            if let Some(frame) = self.zones[zone].take(table, request.order, list, &mut self.counts)
            {
                table.allocate(frame, request.order, request.mobility, owner);
                return Some(frame);
            }
        }
        None
    }

    /// Time linear in the superpageblocks of the zone.
    fn free_counts(&self, zone: usize) -> [u64; ORDERS] {
        let counts = self.zones[zone].blocks.iter().map(|block| block.area.counts());
        counts.fold([0; ORDERS], |sum, counts| core::array::from_fn(|at| sum[at] + counts[at]))
    }

    /// Time linear in the superpageblocks of the zone for a request of more than a frame.
    fn watermark_ok(&self, zone: usize, order: Order, mark: u64, highest: ZoneKind) -> bool {
        let zone = &self.zones[zone];
        let kept = mark + zone.zone.span.lowmem_reserve[highest as usize];
        zone.free_frames > kept + order.frames() - 1
            && (order == Order::BASE || zone.blocks.iter().any(|block| block.area.has_block(order)))
    }

    /// There are no per-CPU lists.
    fn drain(&mut self, _table: &mut FrameTable) {}

    fn take_block(&mut self, table: &mut FrameTable, frame: Frame) -> Order {
        let zone = self.zone_of(frame);
        let zone = &mut self.zones[zone];
        let at = zone.number(frame);
        let order = zone.blocks[at].area.remove(table, frame);
        zone.free_frames -= order.frames();
        order
    }

    fn give_block(&mut self, table: &mut FrameTable, frame: Frame, order: Order) {
        self.give(table, frame, order);
    }

    fn pageblock_type(&self, frame: Frame) -> MigrateType {
        let zone = &self.zones[self.zone_of(frame)];
        MigrateType::ALL[zone.blocks[zone.number(frame)].type_of(frame)]
    }
}
