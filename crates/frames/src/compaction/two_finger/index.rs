//! Which regions are worth compacting: a score for each, kept by hooks in the buddy allocator.
//!
//! Memory is divided into regions of a fixed size. A region's score is the number of single frames
//! on the free lists that lie in it: one more wherever a block of order 0 enters a list, one less
//! wherever one leaves. Physical memory is sparse, so a region may lie in a hole, wholly or in part: regions without memory are jumped
//! over, and of the others the index knows the stretches that are memory.

use alloc::vec::Vec;
use core::ops::Range;

use crate::Order;
use crate::layout::{Frame, Zone};

/// 128 MiB: the size of a region.
pub(crate) const REGION: Order = Order::new(15).unwrap();

/// Regions that are compacted in one round.
pub(crate) const BEST: usize = 10;

#[derive(Clone, Debug, Default)]
struct Region {
    /// Frames that are free (`holecnt`).
    free: u32,
    /// Free blocks of a single frame (`score`).
    score: u32,
    /// Stretches of memory in it, ascending; none if it is a hole.
    memory: Vec<Range<u32>>,
    /// Regions from here to the next that has memory (`skipidx`): at least one.
    skip: u32,
}

/// The regions of one NUMA domain.
#[derive(Clone, Debug)]
pub(crate) struct RegionIndex {
    /// Number of the first region.
    base: usize,
    regions: Vec<Region>,
    /// Where the next search begins.
    next: usize,
}

impl RegionIndex {
    /// The regions of a domain, which its zones in ascending order identify.
    pub fn new<'a>(zones: impl Iterator<Item = &'a Zone> + Clone) -> RegionIndex {
        let first = zones.clone().map(|zone| number(zone.start)).min().unwrap_or(0);
        let last = zones.clone().map(|zone| number(Frame(zone.end.0 - 1))).max().unwrap_or(0);
        let mut regions: Vec<Region> = Vec::new();
        regions.resize_with(last - first + 1, Region::default);
        for zone in zones {
            for region in number(zone.start)..=number(Frame(zone.end.0 - 1)) {
                let start = (region << REGION.get()) as u32;
                let end = start.saturating_add(1 << REGION.get());
                let stretch = zone.start.0.max(start)..zone.end.0.min(end);
                let memory = &mut regions[region - first].memory;
                match memory.last_mut() {
                    Some(last) if last.end == stretch.start => last.end = stretch.end,
                    _ => memory.push(stretch),
                }
            }
        }
        // The domain is a circle: after its last region comes its first.
        let count = regions.len();
        let has_memory = |at: usize| !regions[at % count].memory.is_empty();
        let skip = |at: usize| (1..count).find(|ahead| has_memory(at + ahead)).unwrap_or(count);
        let skips: Vec<u32> = (0..count).map(|at| skip(at) as u32).collect();
        for (region, skip) in regions.iter_mut().zip(skips) {
            region.skip = skip;
        }
        RegionIndex { base: first, regions, next: 0 }
    }

    /// Updates the region of `frame` after a change of its free lists: `free` is the change in
    /// free frames, `singles` that in free blocks of a single frame
    /// (`vm_phys_update_search_index`).
    #[inline]
    pub fn change(&mut self, frame: Frame, free: i32, singles: i32) {
        let region = &mut self.regions[number(frame) - self.base];
        debug_assert!(region.free.checked_add_signed(free).is_some(), "free frames at {frame:?}");
        debug_assert!(region.score.checked_add_signed(singles).is_some(), "singles at {frame:?}");
        region.free = region.free.wrapping_add_signed(free);
        region.score = region.score.wrapping_add_signed(singles);
    }

    /// Free frames and score of the region that contains `frame`.
    #[cfg(test)]
    fn of(&self, frame: Frame) -> (u32, u32) {
        let region = &self.regions[number(frame) - self.base];
        (region.free, region.score)
    }

    /// The stretches of memory of the regions with the highest scores above 0, best first, at most
    /// [`BEST`] regions. A full circle from where the last search ended; of equal scores the one met
    /// first wins. Time linear in the regions with memory.
    pub(crate) fn best(&mut self) -> Vec<Range<Frame>> {
        let mut best: Vec<usize> = Vec::with_capacity(BEST + 1);
        let (begin, count) = (self.next, self.regions.len());
        let mut ahead = 0;
        while ahead < count {
            let at = (begin + ahead) % count;
            let region = &self.regions[at];
            if region.score > 0 && !region.memory.is_empty() {
                let score = |&other: &usize| self.regions[other].score >= region.score;
                let rank = best.iter().take_while(|other| score(other)).count();
                best.insert(rank, at);
                best.truncate(BEST);
            }
            ahead += region.skip as usize;
        }
        self.next = (begin + 1) % count;
        let stretches = best.iter().flat_map(|&at| &self.regions[at].memory);
        stretches.map(|stretch| Frame(stretch.start)..Frame(stretch.end)).collect()
    }

    /// Bytes that the index takes.
    pub fn bytes(&self) -> usize {
        let stretches: usize = self.regions.iter().map(|region| region.memory.capacity()).sum();
        self.regions.capacity() * size_of::<Region>() + stretches * size_of::<Range<u32>>()
    }

    /// Free frames and score of each region, by its first frame.
    pub(crate) fn each(&self) -> impl Iterator<Item = (Frame, (u32, u32))> {
        let start = |at: usize| Frame(((self.base + at) << REGION.get()) as u32);
        self.regions
            .iter()
            .enumerate()
            .map(move |(at, region)| (start(at), (region.free, region.score)))
    }
}

/// The number of the region that contains `frame`.
pub(crate) fn number(frame: Frame) -> usize {
    frame.index() >> REGION.get()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Watermarks, ZoneSpan};
    use crate::{Layout, Pfn, ZoneKind};
    use std::vec;

    fn zone(start: u64, end: u64) -> ZoneSpan {
        ZoneSpan {
            node: 0,
            kind: ZoneKind::Normal,
            start: Pfn(start),
            spanned: end - start,
            managed: end - start,
            watermarks: Watermarks::default(),
            lowmem_reserve: [0; 6],
        }
    }

    const SIZE: u64 = REGION.frames();

    /// Half a region, a hole of two, a region and a bit.
    fn sparse() -> RegionIndex {
        let zones = vec![zone(0, SIZE / 2), zone(3 * SIZE, 4 * SIZE + 100)];
        let layout = Layout::new(zones).unwrap();
        let mut index = RegionIndex::new(layout.zones().iter());
        for zone in layout.zones() {
            for frame in (zone.start.0..zone.end.0).map(Frame) {
                index.change(frame, 1, 0);
            }
        }
        index
    }

    #[test]
    fn holes_are_jumped_over_and_parts_are_known() {
        let mut index = sparse();
        let skips: Vec<u32> = index.regions.iter().map(|region| region.skip).collect();
        assert_eq!(skips, [3, 2, 1, 1, 1]);
        assert!(index.best().is_empty(), "no crumbs");
        let last = Frame((4 * SIZE + 50) as u32);
        index.change(last, 0, 1);
        assert_eq!(index.of(last), (100, 1));
        let start = (4 * SIZE) as u32;
        assert_eq!(index.best(), [Frame(start)..Frame(start + 100)]);
    }

    #[test]
    fn the_ten_best_come_in_the_order_of_their_scores() {
        let layout = Layout::new(vec![zone(0, 16 * SIZE)]).unwrap();
        let mut index = RegionIndex::new(layout.zones().iter());
        let scores = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 0];
        for (at, score) in scores.into_iter().enumerate() {
            index.change(Frame((at as u64 * SIZE) as u32), score, score);
        }
        let found: Vec<usize> = index.best().iter().map(|range| number(range.start)).collect();
        assert_eq!(found, [5, 12, 14, 11, 13, 7, 4, 8, 10, 2]);
        // The next circle begins one further on; equal scores come in its order.
        index.next = 13;
        let found: Vec<usize> = index.best().iter().map(|range| number(range.start)).collect();
        assert_eq!(found, [14, 5, 12, 11, 13, 7, 4, 8, 10, 2]);
    }
}
