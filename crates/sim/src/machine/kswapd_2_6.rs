//! kswapd of Linux 2.6.16: it continues until every zone that can be reclaimed has a free block of
//! the order that it was woken for (`balance_pgdat` of 2.6.16).

use prairie_frames::Order;

use super::Machine;
use super::clock::Next;
use super::kswapd::Work;
use super::lru::DEF_PRIORITY;
use super::reclaim::{CLUSTER, Scan};

/// A pause where the disk may be what holds reclaim up (`blk_congestion_wait(WRITE, HZ/10)`). At
/// rest nothing ends it early.
pub(super) const CONGESTION_NS: u64 = 100_000_000;

impl Machine {
    /// One pass over the zones at one priority.
    pub(super) fn insist(&mut self, node: u16, mut work: Work) -> Next {
        let zones = self.zones_of(node);
        let priority = work.scan.priority;
        let Some(last) = zones.iter().rposition(|&zone| self.is_in_want(zone, &work)) else {
            return self.end_insisting(node);
        };
        self.slice.reclaims = true;
        for &zone in &zones[..=last] {
            let lists = self.lru.of_zone(zone);
            if self.is_given_up(lists, priority) {
                continue;
            }
            let before = work.scan.reclaimed;
            self.shrink(lists, &mut work.scan);
            self.note_progress(lists, work.scan.reclaimed > before);
        }
        self.slice.reclaims = false;
        if work.scan.reclaimed >= CLUSTER || priority == 0 {
            // Over again from the gentlest priority, as direct reclaim would.
            self.settle_priorities(zones.iter().map(|&zone| self.lru.of_zone(zone)).collect());
            work.scan = Scan::new(work.scan.highest, CLUSTER, true);
        } else {
            work.scan.priority -= 1;
        }
        let pauses = work.scan.scanned > 0 && priority < DEF_PRIORITY - 2;
        self.set_kswapd_work(node, work);
        self.throttle();
        match pauses {
            true => Next::SleepUntil(self.clock.now_ns() + self.slice.spent_ns + CONGESTION_NS),
            false => Next::Again,
        }
    }

    /// Whether a zone is below its high watermark at the order in question, and not given up.
    fn is_in_want(&self, zone: usize, work: &Work) -> bool {
        !self.is_given_up(self.lru.of_zone(zone), work.scan.priority)
            && !self.is_above_high(zone, work.order)
    }

    fn is_above_high(&self, zone: usize, order: Order) -> bool {
        let span = &self.memory.layout.zones()[zone].span;
        self.memory.placement.watermark_ok(zone, order, span.watermarks.high, span.kind)
    }

    /// Whether a zone is skipped because nothing more can be reclaimed, except for one attempt at
    /// each check.
    pub(super) fn is_given_up(&self, lists: usize, priority: u32) -> bool {
        self.lru.vec(lists).zone.unreclaimable && priority != DEF_PRIORITY
    }

    /// Gives a zone up after all of its pages were scanned four times without success
    /// (`all_unreclaimable`).
    fn note_progress(&mut self, lists: usize, freed: bool) {
        let size = self.reclaimable(lists);
        let zone = &mut self.lru.vec_mut(lists).zone;
        if freed {
            zone.in_vain = 0;
        }
        zone.unreclaimable |= !freed && zone.in_vain >= 4 * size;
        self.lru.gave_up |= zone.unreclaimable;
    }

    /// The priority of the last look is what the next one takes for distress (`prev_priority`).
    pub(super) fn settle_priorities(&mut self, lists: Vec<usize>) {
        for lists in lists {
            let zone = &mut self.lru.vec_mut(lists).zone;
            zone.hardest = zone.priority;
        }
    }

    fn end_insisting(&mut self, node: u16) -> Next {
        let lists = self.zones_of(node).into_iter().map(|zone| self.lru.of_zone(zone)).collect();
        self.settle_priorities(lists);
        match self.take_larger_order(node) {
            true => Next::Again,
            false => Next::Wait,
        }
    }
}
