//! The slow path, when no zone is above its low watermark.

use super::Linux;
use super::flags::{self, AllocFlags};
use crate::layout::Frame;
use crate::placement::zonelist::Depth;
use crate::placement::{Request, gfp};
use crate::table::FrameTable;
use crate::{MigrateType, Order, ZoneKind};

/// Orders above this one are costly: the kernel tries less hard for them
/// (`PAGE_ALLOC_COSTLY_ORDER`).
pub(super) const COSTLY: Order = Order::new(3).unwrap();

impl Linux {
    /// The kernel's steps when no zone is above its low watermark (`__alloc_pages_slowpath`),
    /// without the reclaim and compaction in it.
    #[cold]
    pub(super) fn slow_path(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        migrate_type: MigrateType,
    ) -> Option<Frame> {
        let mut flags = AllocFlags::slow(request, migrate_type, &self.config);
        if flags.has(AllocFlags::KSWAPD) {
            self.wake_kswapds(request);
        }
        if let Some(frame) = self.get_page(table, request, migrate_type, Depth::Min, flags) {
            self.counts.below_low += 1;
            return Some(frame);
        }
        let entitled = flags::is_memalloc(request);
        if entitled {
            // No need of the other reserves.
            flags = flags.without(AllocFlags::RESERVES);
        }
        if request.gfp_flags & gfp::DIRECT_RECLAIM != 0 {
            self.counts.stalls[usize::from(request.highest_zone >= ZoneKind::Movable)] += 1;
        }
        // Here reclaim and compaction would have tried, and failed.
        let frame = self
            .get_page(table, request, migrate_type, Depth::All, flags)
            .or_else(|| self.scrape(table, request, migrate_type, flags));
        match frame {
            None => self.counts.failed += 1,
            Some(_) if entitled => self.counts.below_low += 1,
            Some(_) if request.gfp_flags & gfp::DIRECT_RECLAIM != 0 => self.counts.below_min += 1,
            Some(_) => self.counts.below_min_atomic += 1,
        }
        frame
    }

    /// Gives back what per-CPU lists and the atomic reserve hold, and tries again
    /// (`__alloc_pages_direct_reclaim`, `should_reclaim_retry`).
    fn scrape(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        migrate_type: MigrateType,
        flags: AllocFlags,
    ) -> Option<Frame> {
        let has = |bits| request.gfp_flags & bits != 0;
        let costly = request.order > COSTLY;
        if !has(gfp::DIRECT_RECLAIM) || (costly && has(gfp::NORETRY)) {
            return None;
        }
        self.unreserve_highatomic(table, request, migrate_type, false);
        self.drain_all(table);
        if let Some(frame) = self.get_page(table, request, migrate_type, Depth::All, flags) {
            return Some(frame);
        }
        let persistent = !has(gfp::NORETRY) && (!costly || has(gfp::RETRY_MAYFAIL));
        if persistent && self.unreserve_highatomic(table, request, migrate_type, true) {
            return self.get_page(table, request, migrate_type, Depth::All, flags);
        }
        None
    }

    /// Wakes kswapd on the nodes of a request (`wake_all_kswapds`).
    fn wake_kswapds(&mut self, request: &Request) {
        self.counts.kswapd_wakeups += 1;
        if !self.config.keep_boost {
            for &zone in self.zonelists.get(request.node, request.highest_zone) {
                self.zones[zone].watermark_boost = 0;
            }
        }
    }
}
