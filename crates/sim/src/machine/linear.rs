//! Linear reclaim: contiguous regions instead of LRU order (2006 paper, section 10).
//!
//! Memory is seen as regions of the wanted size. They are checked one after another, continuing
//! where the last attempt stopped. A region all of whose pages are free or reclaimable is worth
//! trying: its pages leave the LRU lists and are reclaimed together. Any other region is left
//! alone, so that a request costs about its own size in pages instead of most of memory
//! ([`worst_case_share`]).

use prairie_frames::table::State;
use prairie_frames::{BlockCounts, Frame, Order, ZoneKind};

use super::Machine;
use super::page::PageId;
use super::reclaim::{CLUSTER, Scan};

/// The largest share of a zone's regions that one attempt checks. The paper says "a proportion" and
/// not which; a quarter keeps four attempts from looking twice.
const SHARE: u64 = 4;

/// The share of a zone of `frames` frames that reclaim in random order may have to free before one
/// block of `order` must be free: all but one frame of every block, and one more
/// (2006 paper, section 10, F_r(j); Figure 9 for a zone that is large).
pub fn worst_case_share(frames: u64, order: Order) -> f64 {
    let blocks = frames / order.frames();
    (blocks * (order.frames() - 1) + 1) as f64 / frames as f64
}

impl Machine {
    /// Tries to free one region of `order`; returns the frames freed in all regions.
    pub(super) fn linear_reclaim(&mut self, order: Order, highest: ZoneKind) -> u64 {
        let mut freed = 0;
        for zone in self.memory.layout.zonelist(self.node_of_cpu(self.slice.cpu), highest) {
            let (start, end) =
                (self.memory.layout.zones()[zone].start, self.memory.layout.zones()[zone].end);
            let first = u64::from(start.0).next_multiple_of(order.frames());
            let regions = u64::from(end.0).saturating_sub(first) / order.frames();
            if self.linear_cursor.len() <= zone {
                self.linear_cursor.resize(zone + 1, 0);
            }
            for _ in 0..regions.div_ceil(SHARE) {
                let at = self.linear_cursor[zone] % regions;
                self.linear_cursor[zone] = at + 1;
                let region = Frame((first + at * order.frames()) as u32);
                let Some(pages) = self.reclaimable_region(region, order) else { continue };
                let (frames, all) = self.reclaim_region(&pages, highest);
                freed += frames;
                if all {
                    self.memory.placement.drain(&mut self.memory.table);
                    return freed;
                }
            }
        }
        freed
    }

    /// The pages in use in a region, if all of it is free or may be reclaimed.
    fn reclaimable_region(&mut self, region: Frame, order: Order) -> Option<Vec<PageId>> {
        let end = region.offset(order.frames());
        // One word per pageblock rules out most regions.
        let blocks = order.frames().div_ceil(u64::from(BlockCounts::FRAMES)) as usize;
        let counts = &self.memory.table.blocks()[region.pageblock()..region.pageblock() + blocks];
        self.slice.spent_ns += self.scenario.costs.scan_frame_ns * blocks as u64;
        if order >= Order::HUGE
            && counts.iter().any(|block| block.unmovable > 0 || !block.is_whole())
        {
            return None;
        }
        let mut pages = Vec::new();
        let mut at = region;
        while at < end {
            self.slice.spent_ns += self.scenario.costs.scan_frame_ns;
            match self.memory.table.state(at) {
                State::Free | State::Cached => {}
                State::Allocated => {
                    let id = self.memory.page_at(at).expect("a block in use");
                    if !self.memory.pages[id].is_lru() {
                        return None;
                    }
                    pages.push(id);
                }
                State::Absent | State::Reserved | State::Inside => return None,
            }
            at = at.offset(self.memory.table.order(at).frames());
        }
        Some(pages)
    }

    /// Reclaims the pages of a region together; frames freed, and whether that was all.
    fn reclaim_region(&mut self, pages: &[PageId], highest: ZoneKind) -> (u64, bool) {
        let scan = Scan::new(highest, CLUSTER, false);
        self.slice.reclaims = true;
        let (mut freed, mut all) = (0, true);
        for &id in pages {
            let Some(lists) = self.lru.remove(&mut self.memory.pages, id) else {
                all = false;
                continue;
            };
            let flags = &mut self.memory.pages[id].flags;
            flags.take(super::page::Flags::ACTIVE);
            let (frames, _) = self.reclaim_page(lists, id, &scan);
            freed += frames;
            all &= frames > 0;
        }
        self.slice.reclaims = false;
        let counters = &mut self.counters;
        counters.pgscan_direct += pages.len() as u64;
        counters.pgsteal_direct += freed;
        self.throttle();
        (freed, all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figure 9, in percent to two decimals, for a zone large enough for the one frame more not
    /// to show.
    #[test]
    fn figure_9_from_the_formula() {
        let paper = [
            (1, 50.00),
            (2, 75.00),
            (3, 87.50),
            (4, 93.75),
            (5, 96.88),
            (6, 98.44),
            (10, 99.90),
            (12, 99.98),
        ];
        for (order, percent) in paper {
            let share = worst_case_share(1 << 24, Order::new(order).unwrap()) * 100.0;
            assert!((share - percent).abs() < 0.006, "order {order}: {share}");
        }
        // Four frames, blocks of two: one of each, and one more.
        assert_eq!(worst_case_share(4, Order::new(1).unwrap()), 0.75);
    }
}
