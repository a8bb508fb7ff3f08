//! Pageblocks kept for atomic requests of more than one frame.

use super::pageblocks::is_mergeable;
use super::zone::LinuxZone;
use super::{Context, Linux};
use crate::layout::Frame;
use crate::placement::Request;
use crate::table::FrameTable;
use crate::{BlockCounts, MigrateType, Order};

const FRAMES: u64 = BlockCounts::FRAMES as u64;

impl LinuxZone {
    /// Reserves the pageblock that an atomic request was just served from
    /// (`reserve_highatomic_pageblock`), up to a hundredth of the zone and one block more; since 6.8
    /// up to a hundredth in whole pageblocks, of zones with that many.
    pub(super) fn reserve_highatomic(
        &mut self,
        context: &mut Context<'_>,
        frame: Frame,
        order: Order,
    ) {
        let hundredth = self.zone.span.managed / 100;
        let limit = match context.config.rounded_reserve {
            true if hundredth < FRAMES => 0,
            true => hundredth.next_multiple_of(FRAMES),
            false => hundredth + FRAMES,
        };
        if self.reserved_highatomic >= limit || !is_mergeable(context.blocks.get(frame)) {
            return;
        }
        if context.config.hygiene && order >= Order::HUGE {
            self.reserved_highatomic += order.frames();
            context.blocks.set_all(frame, order, MigrateType::HighAtomic);
        } else {
            let moved = self.move_free_blocks(context, frame, MigrateType::HighAtomic);
            if context.config.hygiene && moved.is_none() {
                return;
            }
            self.reserved_highatomic += FRAMES;
            context.blocks.set(frame, MigrateType::HighAtomic);
        }
        context.counts.highatomic_reserves += 1;
    }

    /// Gives one reserved pageblock to `migrate_type`; false if none has a free block that can
    /// be moved. Unless forced, the last reserved pageblock stays.
    fn unreserve_highatomic(
        &mut self,
        context: &mut Context<'_>,
        migrate_type: MigrateType,
        force: bool,
    ) -> bool {
        if !force && self.reserved_highatomic <= FRAMES {
            return false;
        }
        for order in Order::up_to(self.area.largest()) {
            let list = self.area.list(order, MigrateType::HighAtomic.index());
            let Some(frame) = list.front() else {
                continue;
            };
            let whole = context.config.hygiene && order >= Order::HUGE;
            // A frame may have come back to this list after its pageblock left the reserve.
            if context.blocks.get(frame) == MigrateType::HighAtomic {
                let size = if whole { order.frames() } else { FRAMES };
                self.reserved_highatomic = self.reserved_highatomic.saturating_sub(size);
            }
            let moved = if whole {
                context.blocks.set_all(frame, order, migrate_type);
                Some(self.move_to_tail(context.table, frame, migrate_type).frames())
            } else {
                let moved = self.move_free_blocks(context, frame, migrate_type);
                // Until 6.10 the pageblock leaves the reserve even if nothing can be moved.
                if moved.is_some() || !context.config.hygiene {
                    context.blocks.set(frame, migrate_type);
                }
                moved
            };
            if moved.is_some_and(|frames| frames > 0) {
                context.counts.highatomic_unreserves += 1;
                return true;
            }
        }
        false
    }
}

impl Linux {
    /// Takes one pageblock from the atomic reserve of the zones that a request may use
    /// (`unreserve_highatomic_pageblock`).
    pub(super) fn unreserve_highatomic(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        migrate_type: MigrateType,
        force: bool,
    ) -> bool {
        let mut context = Context {
            table,
            blocks: &mut self.blocks,
            config: &self.config,
            counts: &mut self.counts,
        };
        let zonelist = self.zonelists.get(request.node, request.highest_zone);
        zonelist
            .iter()
            .any(|&zone| self.zones[zone].unreserve_highatomic(&mut context, migrate_type, force))
    }
}
