//! One attempt at a time, for a machine that reclaims between them.

use super::{Class, Classes};
use crate::free_area::ORDERS;
use crate::layout::Frame;
use crate::placement::Request;
use crate::placement::stepwise::Stepwise;
use crate::placement::zonelist::Depth;
use crate::table::{FrameTable, Owner};
use crate::{Order, ZoneKind};

impl Stepwise for Classes {
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
        let class = Class::of(request.migrate_type, request.order);
        for &zone in self.zonelists.get(request.node, request.highest_zone) {
            let zone = &mut self.zones[zone];
            if !zone.allows(request, depth) {
                continue;
            }
            let (order, cpu) = (request.order, request.cpu);
            if let Some(frame) = zone.take(table, order, class, cpu, &mut self.counts) {
                table.allocate(frame, order, request.mobility, owner);
                return Some(frame);
            }
        }
        None
    }

    /// Time linear in the trees of the zone.
    fn free_counts(&self, zone: usize) -> [u64; ORDERS] {
        let counts = self.zones[zone].trees.iter().map(|tree| tree.area.counts());
        counts.fold([0; ORDERS], |sum, counts| core::array::from_fn(|at| sum[at] + counts[at]))
    }

    /// Time linear in the trees of the zone for a request of more than a frame.
    fn watermark_ok(&self, zone: usize, order: Order, mark: u64, highest: ZoneKind) -> bool {
        let zone = &self.zones[zone];
        let kept = mark + zone.zone.span.lowmem_reserve[highest as usize];
        zone.free_frames > kept + order.frames() - 1
            && (order == Order::BASE || zone.trees.iter().any(|tree| tree.area.has_block(order)))
    }

    /// There are no per-CPU lists; reserved trees are available to all CPUs in need.
    fn drain(&mut self, _table: &mut FrameTable) {}

    fn take_block(&mut self, table: &mut FrameTable, frame: Frame) -> Order {
        let zone = self.zone_of(frame);
        self.zones[zone].remove(table, frame)
    }

    fn give_block(&mut self, table: &mut FrameTable, frame: Frame, order: Order) {
        let zone = self.zone_of(frame);
        self.zones[zone].give(table, frame, order);
    }
}
