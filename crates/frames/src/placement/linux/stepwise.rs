//! One attempt at a time, for a machine that reclaims and compacts between them.

use super::Linux;
use super::flags::{self, AllocFlags};
use crate::free_area::ORDERS;
use crate::layout::Frame;
use crate::placement::Request;
use crate::placement::stepwise::Stepwise;
use crate::placement::zonelist::Depth;
use crate::table::{FrameTable, Owner};
use crate::{MigrateType, Order, ZoneKind};

impl Stepwise for Linux {
    /// With the flags of the fast path above the low watermark and with those of the slow path
    /// below it. To the last frame go only requests that may by right, as a victim of the OOM
    /// killer or reclaim itself may: that is for the caller to say.
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
        let migrate_type = self.type_of(request);
        let mut allowed = match depth {
            Depth::Low => AllocFlags::fast(request, migrate_type, &self.config),
            Depth::Min | Depth::All => AllocFlags::slow(request, migrate_type, &self.config),
        };
        if depth == Depth::All && flags::is_memalloc(request) {
            allowed = allowed.without(AllocFlags::RESERVES);
        }
        let frame = self.get_page(table, request, migrate_type, depth, allowed)?;
        table.allocate(frame, request.order, request.mobility, owner);
        Some(frame)
    }

    fn free_counts(&self, zone: usize) -> [u64; ORDERS] {
        self.zones[zone].area.counts()
    }

    fn watermark_ok(&self, zone: usize, order: Order, mark: u64, highest: ZoneKind) -> bool {
        self.zones[zone].watermark_ok(order, mark, highest, AllocFlags::NONE)
    }

    fn drain(&mut self, table: &mut FrameTable) {
        self.drain_all(table);
    }

    fn may_mix(&mut self, allowed: bool) {
        self.may_mix = allowed;
    }

    fn take_block(&mut self, table: &mut FrameTable, frame: Frame) -> Order {
        let zone = self.zone_of(frame);
        self.zones[zone].area.remove(table, frame)
    }

    fn give_block(&mut self, table: &mut FrameTable, frame: Frame, order: Order) {
        let (zone, migrate_type) = (self.zone_of(frame), self.blocks.get(frame));
        let (zone, mut context) = self.at(table, zone);
        zone.free_one(&mut context, frame, order, migrate_type, None);
    }

    fn zone_at(&self, frame: Frame) -> Option<usize> {
        self.has_hotplug().then(|| self.zone_around(frame))
    }

    fn pageblock_type(&self, frame: Frame) -> MigrateType {
        Linux::pageblock_type(self, frame)
    }

    fn boost(&self, zone: usize) -> u64 {
        Linux::boost(self, zone)
    }

    fn end_boost(&mut self, zone: usize) {
        Linux::end_boost(self, zone);
    }

    fn set_reclaim_active(&mut self, zone: usize, active: bool) {
        Linux::set_reclaim_active(self, zone, active);
    }
}
