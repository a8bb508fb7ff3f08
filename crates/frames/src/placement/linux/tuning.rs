//! Per-CPU lists that adapt their size, since Linux 6.7.
//!
//! Until then a refill was a batch, and the lists were drained from a fixed high mark on. Since then
//! a refill doubles as long as nothing is freed, a drain returns as many frames as were freed in a
//! row, and the high mark moves between a least and a most: up with each refill, down where memory
//! is short and whenever the kernel updates its statistics. All numbers are frames.

use super::Config;
use super::pageset::{Pageset, Tuning};
use super::slow_path::COSTLY;
use crate::Order;

/// How often the number of frames moved at once may double (`CONFIG_PCP_BATCH_SCALE_MAX`).
pub const BATCH_SCALE_MAX: u32 = 5;

/// What a list knows of its zone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surroundings {
    /// The limits.
    pub limits: Pageset,
    /// Free memory is below the high watermark.
    pub below_high: bool,
    /// Memory is being reclaimed.
    pub reclaim_active: bool,
}

impl Tuning {
    /// Blocks that a refill fetches onto lists that hold `count` frames (`nr_pcp_alloc`).
    pub(super) fn refill(&mut self, around: Surroundings, order: Order, count: u32) -> u32 {
        let Pageset { batch: base, high: min, high_max: max, .. } = around.limits;
        self.high = self.high.clamp(min, max.max(min));
        if self.high < base {
            return 1;
        }
        let single = order == Order::BASE;
        let mut batch = if single { base << self.alloc_factor } else { base };
        if min != max && !around.below_high {
            self.high = (self.high + batch).min(max);
        }
        if single {
            let most = self.high.saturating_sub(count + base).max(base);
            if batch <= most && u32::from(self.alloc_factor) < BATCH_SCALE_MAX {
                self.alloc_factor += 1;
            }
            batch = batch.min(most);
        }
        if batch > 1 { (batch >> order.get()).max(2) } else { batch }
    }

    /// Takes note of an attempt to allocate from the lists.
    #[inline]
    pub(super) fn allocated(&mut self) {
        self.free_count >>= 1;
    }

    /// Takes note of a block that came to the lists, which then hold `count` frames, and returns how
    /// many of them go back (`free_unref_page_commit`).
    #[inline]
    pub(super) fn freed(
        &mut self,
        config: &Config,
        around: Surroundings,
        order: Order,
        count: u32,
    ) -> u32 {
        let batch = around.limits.batch;
        self.alloc_factor >>= 1;
        let larger = order > Order::BASE && order <= COSTLY;
        let least = if config.late_flush { batch + around.limits.high / 2 } else { batch };
        let flush = larger
            && self.free_count >= least
            && self.freed_larger
            && (!around.limits.keeps_batch || count >= batch);
        self.freed_larger = larger;
        if self.free_count < batch << BATCH_SCALE_MAX {
            self.free_count += order.frames() as u32;
        }
        let high = self.high_mark(around, count, flush);
        if count < high {
            return 0;
        }
        if flush {
            return count.min(batch << BATCH_SCALE_MAX);
        }
        // Nothing stays on the lists before the kernel knows its CPUs.
        if high < batch {
            return 1;
        }
        self.free_count.max(batch).min(high - batch)
    }

    /// The same for `frames` single frames in a row that fill no list.
    pub(super) fn freed_below_high(&mut self, batch: u32, frames: u32) {
        self.alloc_factor = self.alloc_factor.checked_shr(frames).unwrap_or(0);
        self.freed_larger = false;
        let most = batch << BATCH_SCALE_MAX;
        self.free_count = self.free_count.max((self.free_count + frames).min(most));
    }

    /// Single frames that can come to lists with `count` frames before any may go back.
    pub(super) fn room(&self, around: Surroundings, count: u32) -> u32 {
        let Pageset { high: min, high_max: max, .. } = around.limits;
        if around.reclaim_active || (around.below_high && min != max) {
            return 0;
        }
        self.high.clamp(min, max.max(min)).saturating_sub(count + 1)
    }

    /// The count from which on frames go back (`nr_pcp_high`).
    #[inline]
    fn high_mark(&mut self, around: Surroundings, count: u32, flush: bool) -> u32 {
        let Pageset { batch, high: min, high_max: max, .. } = around.limits;
        let high = self.high.clamp(min, max.max(min));
        self.high = high;
        if high == 0 {
            return 0;
        }
        let lowered = |by: u32| high.saturating_sub(by).max(min);
        if flush {
            self.high = lowered(batch << BATCH_SCALE_MAX);
            return 0;
        }
        if around.reclaim_active {
            self.high = lowered(self.free_count.max(batch));
            return self.high.min(batch << 2);
        }
        if min == max {
            return high;
        }
        if around.below_high {
            self.high = lowered(self.free_count.max(batch));
            return count.max(min);
        }
        if count >= high {
            let needed = self.free_count + batch;
            if self.high < needed {
                self.high = needed.clamp(min, max.max(min));
            }
        }
        high
    }

    /// Lowers the high mark of lists that hold `count` frames, as the update of statistics does, and
    /// returns how many frames then are too many (`decay_pcp_high`).
    pub(super) fn decay(&mut self, limits: Pageset, count: u32) -> u32 {
        let Pageset { batch, high: min, .. } = limits;
        if self.high > min {
            let without_burst = count.saturating_sub(batch << BATCH_SCALE_MAX);
            self.high = without_burst.max(self.high - (self.high >> 3)).max(min);
        }
        count.saturating_sub(self.high)
    }
}
