//! When a zone is too low to give, and how fallbacks raise the bar.

use super::Context;
use super::flags::AllocFlags;
use super::zone::LinuxZone;
use crate::placement::zonelist::Depth;
use crate::{BlockCounts, MigrateType, Order, ZoneKind};

impl LinuxZone {
    /// Whether a request may take from this zone (`zone_watermark_fast`).
    #[inline]
    pub(super) fn watermark_fast(
        &self,
        order: Order,
        highest: ZoneKind,
        depth: Depth,
        flags: AllocFlags,
    ) -> bool {
        let mark = self.mark(depth) + self.watermark_boost;
        self.is_above(order, highest, mark, flags)
            || (flags.has(AllocFlags::IGNORES_BOOST)
                && self.watermark_boost > 0
                && depth == Depth::Min
                && self.watermark_ok(order, self.mark(Depth::Min), highest, flags))
    }

    /// Looks whether free memory is below the high watermark, if it was not when last looked at
    /// (`ZONE_BELOW_HIGH` in `get_page_from_freelist`, 6.7). A drain of a per-CPU list ends that.
    #[inline]
    pub(super) fn check_high(&mut self, order: Order, highest: ZoneKind, flags: AllocFlags) {
        let mark = self.zone.span.watermarks.high + self.watermark_boost;
        self.below_high = self.below_high || !self.is_above(order, highest, mark, flags);
    }

    /// Whether free memory has come back above the high watermark (`free_unref_page_commit`, 6.7).
    pub(super) fn end_below_high(&mut self) {
        let mark = self.zone.span.watermarks.high + self.watermark_boost;
        if self.watermark_ok(Order::BASE, mark, ZoneKind::Movable, AllocFlags::NONE) {
            self.below_high = false;
        }
    }

    #[inline(always)]
    fn is_above(&self, order: Order, highest: ZoneKind, mark: u64, flags: AllocFlags) -> bool {
        if order == Order::BASE {
            let reserve = self.zone.span.lowmem_reserve[highest as usize];
            let usable = self.free_frames().saturating_sub(self.unusable_free(order, flags));
            if usable > mark + reserve {
                return true;
            }
        }
        self.watermark_ok(order, mark, highest, flags)
    }

    /// Whether enough would be left above `mark`, and a block of the size is there
    /// (`__zone_watermark_ok`).
    pub(super) fn watermark_ok(
        &self,
        order: Order,
        mark: u64,
        highest: ZoneKind,
        flags: AllocFlags,
    ) -> bool {
        let mut min = mark;
        if flags.has(AllocFlags::MIN_RESERVE) {
            min -= min / 2;
            if flags.has(AllocFlags::NON_BLOCK) {
                min -= min / 4;
            }
        }
        let reserve = self.zone.span.lowmem_reserve[highest as usize];
        let unusable = self.unusable_free(order, flags);
        if self.free_frames() <= unusable + min + reserve {
            return false;
        }
        order == Order::BASE || self.has_usable_block(order, flags)
    }

    /// Whether a block of at least `order` is on a list that the request may use.
    fn has_usable_block(&self, order: Order, flags: AllocFlags) -> bool {
        let occupied = |migrate_type: MigrateType| self.area.occupied(migrate_type.index());
        let mut usable = occupied(MigrateType::Unmovable)
            | occupied(MigrateType::Movable)
            | occupied(MigrateType::Reclaimable);
        if flags.has(AllocFlags::CMA) {
            usable |= occupied(MigrateType::Cma);
        }
        if flags.has(AllocFlags::HIGHATOMIC) {
            usable |= occupied(MigrateType::HighAtomic);
        }
        usable >> order.get() != 0
    }

    /// Frames that are free but not for this request (`__zone_watermark_unusable_free`).
    #[inline(always)]
    fn unusable_free(&self, order: Order, flags: AllocFlags) -> u64 {
        let mut unusable = order.frames() - 1;
        if !flags.has(AllocFlags::RESERVES) {
            unusable += match self.free_reserve {
                true => self.area.frames_on(MigrateType::HighAtomic.index()),
                false => self.reserved_highatomic,
            };
        }
        if !flags.has(AllocFlags::CMA) {
            unusable += self.area.frames_on(MigrateType::Cma.index());
        }
        unusable
    }

    /// Free frames on the free lists (`NR_FREE_PAGES`); isolated ones do not count.
    #[inline]
    pub(super) fn free_frames(&self) -> u64 {
        self.area.free_frames() - self.area.frames_on(MigrateType::Isolate.index())
    }

    fn mark(&self, depth: Depth) -> u64 {
        match depth {
            Depth::Low => self.zone.span.watermarks.low,
            Depth::Min => self.zone.span.watermarks.min,
            Depth::All => 0,
        }
    }

    /// Raises the watermarks by a pageblock, so that kswapd frees memory before the next fallback
    /// (`boost_watermark`). Not in zones of fewer than four pageblocks.
    pub(super) fn boost_watermark(&mut self, context: &mut Context<'_>, flags: AllocFlags) {
        let pageblock = u64::from(BlockCounts::FRAMES);
        let factor = context.config.watermark_boost_factor;
        if factor == 0 || pageblock * 4 > self.zone.span.managed {
            return;
        }
        let limit = self.zone.span.watermarks.high * factor / 10_000;
        if limit == 0 {
            return;
        }
        self.watermark_boost = (self.watermark_boost + pageblock).min(limit.max(pageblock));
        context.counts.boosts += 1;
        self.boosted |= flags.has(AllocFlags::KSWAPD);
    }
}
