//! The policy's counters.

use alloc::vec;
use alloc::vec::Vec;

use super::fallback::Fallback;
use crate::placement::Counter;
use crate::{MigrateType, Order};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub below_low: u64,
    pub below_min: u64,
    pub below_min_atomic: u64,
    pub failed: u64,
    pub kswapd_wakeups: u64,
    pub boosts: u64,
    pub boost_wakeups: u64,
    pub nofragment_retries: u64,
    pub pcp_refills: u64,
    pub pcp_drained: u64,
    pub extfrag: u64,
    pub extfrag_change_ownership: u64,
    /// Fragmenting fallbacks, by the type that asked and the type that gave.
    pub fragmenting: [[u64; 3]; 3],
    pub block_steals: u64,
    pub claims: u64,
    pub single_steals: u64,
    pub highatomic_reserves: u64,
    pub highatomic_unreserves: u64,
    pub last_fallback: Option<Fallback>,
    /// Requests before which the kernel would have reclaimed: of kernel memory, and of memory that
    /// may come from ZONE_MOVABLE.
    pub stalls: [u64; 2],
    /// Frames that left ZONE_MOVABLE to be pinned.
    pub moved_for_pins: u64,
}

impl Counts {
    /// Counts a fallback.
    pub(super) fn extfrag(&mut self, fallback: Fallback) {
        self.extfrag += 1;
        self.extfrag_change_ownership += u64::from(fallback.change_ownership);
        if fallback.order < Order::HUGE {
            self.fragmenting[fallback.wanted.index()][fallback.from.index()] += 1;
        }
        self.last_fallback = Some(fallback);
    }

    #[rustfmt::skip]
    pub(super) fn list(&self) -> Vec<Counter> {
        use MigrateType::{Movable, Reclaimable, Unmovable};
        let counter = |name, meaning, value| Counter { name, meaning, value };
        let fragmenting =
            |alloc: MigrateType, fallback: MigrateType| self.fragmenting[alloc.index()][fallback.index()];
        let all_fragmenting = self.fragmenting.iter().flatten().sum();
        vec![
            counter("extfrag", "fallbacks to lists of another type (mm_page_alloc_extfrag)", self.extfrag),
            counter("extfrag_change_ownership", "fallbacks after which the pageblock was of the request's type", self.extfrag_change_ownership),
            counter("extfrag_fragmenting", "fallbacks to a block smaller than a pageblock", all_fragmenting),
            counter("extfrag_unmovable_in_movable", "fragmenting fallbacks of unmovable to movable", fragmenting(Unmovable, Movable)),
            counter("extfrag_unmovable_in_reclaimable", "fragmenting fallbacks of unmovable to reclaimable", fragmenting(Unmovable, Reclaimable)),
            counter("extfrag_reclaimable_in_movable", "fragmenting fallbacks of reclaimable to movable", fragmenting(Reclaimable, Movable)),
            counter("extfrag_reclaimable_in_unmovable", "fragmenting fallbacks of reclaimable to unmovable", fragmenting(Reclaimable, Unmovable)),
            counter("extfrag_movable_in_unmovable", "fragmenting fallbacks of movable to unmovable", fragmenting(Movable, Unmovable)),
            counter("extfrag_movable_in_reclaimable", "fragmenting fallbacks of movable to reclaimable", fragmenting(Movable, Reclaimable)),
            counter("steal_block", "fragmenting fallbacks that took all free blocks of the pageblock", self.block_steals),
            counter("steal_claim", "of these, those that claimed the pageblock", self.claims),
            counter("steal_single", "fragmenting fallbacks that took one block and left the rest", self.single_steals),
            counter("nofragment_retry", "passes over the zonelist repeated because no zone could serve without fragmenting", self.nofragment_retries),
            counter("watermark_boost", "fragmenting fallbacks that boosted the watermarks", self.boosts),
            counter("kswapd_wake_boost", "times kswapd would be woken for a boosted watermark", self.boost_wakeups),
            counter("kswapd_wake_low", "times kswapd would be woken because no zone was above its low watermark", self.kswapd_wakeups),
            counter("below_low", "allocations that no zone could serve above its low watermark", self.below_low),
            counter("below_min", "allocations before which the kernel would have reclaimed or compacted", self.below_min),
            counter("below_min_atomic", "allocations that the kernel would have refused, for they cannot wait", self.below_min_atomic),
            counter("failed", "allocations that nothing fitted", self.failed),
            counter("highatomic_reserve", "pageblocks reserved for atomic requests", self.highatomic_reserves),
            counter("highatomic_unreserve", "pageblocks given back from that reserve", self.highatomic_unreserves),
            counter("pcp_refill", "refills of a per-CPU list", self.pcp_refills),
            counter("pcp_drain", "blocks freed from per-CPU lists (mm_page_pcpu_drain)", self.pcp_drained),
        ]
    }
}
