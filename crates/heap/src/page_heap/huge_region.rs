//! HugeRegion (section 4.5): 1 GiB in which spans cross the borders of huge pages.

use serde::Serialize;

use super::region::Region;
pub use super::region::{REGION, RegionSpan};
use crate::memory::Memory;
use crate::storage::{Storage, Zeroed};
use crate::units::{HugePageId, HugePages, HugeRange, PageRange, Pages};

/// Most regions that a heap has: 1 TiB of spans between 1 MiB and 1 GiB in size. Beyond, such spans
/// get huge pages of their own.
const MOST_REGIONS: usize = 1024;

/// The regions of a heap.
#[derive(Debug)]
pub struct HugeRegions<S: Storage> {
    /// The first `totals.regions` are there.
    regions: Zeroed<[Option<Zeroed<Region, S>>; MOST_REGIONS], S>,
    totals: HugeRegionStats,
}

/// State of the regions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[repr(C)]
pub struct HugeRegionStats {
    /// Number of regions.
    pub regions: u64,
    /// Spans in them.
    pub spans: u64,
    /// Pages in spans.
    pub used_pages: Pages,
    /// Huge pages that spans lie in.
    pub used_huge_pages: HugePages,
    /// Backed huge pages that no span lies in.
    pub idle_huge_pages: HugePages,
    /// Idle huge pages given back to the system so far.
    pub released_huge_pages_total: HugePages,
}

impl<S: Storage> HugeRegions<S> {
    /// No regions. `None` if there is no storage for their table.
    pub fn new() -> Option<HugeRegions<S>> {
        Some(HugeRegions { regions: Zeroed::new()?, totals: HugeRegionStats::default() })
    }

    /// Whether one more region can be noted.
    pub const fn has_room(&self) -> bool {
        (self.totals.regions as usize) < MOST_REGIONS
    }

    /// Takes an unbacked range of [`REGION`] huge pages as a region. `None` if there is no storage
    /// for its metadata.
    pub fn add(&mut self, range: HugeRange) -> Option<()> {
        debug_assert_eq!(range.len, REGION);
        let place = self.regions.get_mut(self.totals.regions as usize)?;
        let mut region = Zeroed::<Region, S>::new()?;
        region.place_at(range.start);
        *place = Some(region);
        self.totals.regions += 1;
        Some(())
    }

    /// Places a span in the region with the shortest longest free range that surely holds it, by
    /// best fit, and backs what is unbacked. `None` if no region does.
    pub fn try_allocate(
        &mut self,
        pages: Pages,
        align: Pages,
        memory: &mut impl Memory,
    ) -> Option<RegionSpan> {
        let ample = pages.0.checked_add(align.0 - 1)? as usize;
        // Regions start at a huge page, so they promise no alignment beyond.
        if align > HugePages::PAGES {
            return None;
        }
        let holds = |region: &&mut Region| region.longest() >= ample;
        let region = self.iter_mut().filter(holds).min_by_key(|region| region.longest())?;
        let span = region.allocate(pages, align, memory)?;
        self.totals.spans += 1;
        self.totals.used_pages += pages;
        self.totals.used_huge_pages += span.newly_used;
        self.totals.idle_huge_pages -= span.newly_used - span.newly_backed;
        Some(span)
    }

    /// Whether a region holds this huge page.
    pub fn holds(&self, huge_page: HugePageId) -> bool {
        self.iter().any(|region| region.range().contains(huge_page))
    }

    /// Takes a span back. Returns how many huge pages are idle by it; they stay backed.
    ///
    /// # Panics
    /// If no region holds it.
    pub fn free(&mut self, span: PageRange) -> HugePages {
        let huge_page = span.start.huge_page();
        let region = self.iter_mut().find(|region| region.range().contains(huge_page));
        let idle = region.unwrap_or_else(|| panic!("{span} is no span")).free(span);
        self.totals.spans -= 1;
        self.totals.used_pages -= span.len;
        self.totals.used_huge_pages -= idle;
        self.totals.idle_huge_pages += idle;
        idle
    }

    /// Gives at least `len` idle huge pages back to the system, or all there are.
    pub fn release(&mut self, len: HugePages, memory: &mut impl Memory) -> HugePages {
        let mut released = HugePages::ZERO;
        if self.totals.idle_huge_pages.is_zero() {
            return released;
        }
        for region in self.iter_mut() {
            released += region.release(len.saturating_sub(released), memory);
        }
        self.totals.idle_huge_pages -= released;
        self.totals.released_huge_pages_total += released;
        released
    }

    /// State of the regions.
    pub const fn stats(&self) -> HugeRegionStats {
        self.totals
    }

    /// The address space of each region.
    pub fn ranges(&self) -> impl Iterator<Item = HugeRange> {
        self.iter().map(Region::range)
    }

    /// Recomputes the counts of all regions.
    ///
    /// # Errors
    /// A message that names the inconsistency.
    pub fn validate(&self) -> Result<(), String> {
        let mut counted = HugeRegionStats {
            spans: self.totals.spans,
            released_huge_pages_total: self.totals.released_huge_pages_total,
            ..HugeRegionStats::default()
        };
        for region in self.iter() {
            region.validate()?;
            counted.regions += 1;
            counted.used_pages += region.used_pages();
            counted.used_huge_pages += region.used_huge_pages();
            counted.idle_huge_pages += region.backed_huge_pages() - region.used_huge_pages();
        }
        if counted != self.totals {
            return Err(format!("HugeRegion: totals {:?}, counted {counted:?}", self.totals));
        }
        Ok(())
    }

    fn iter(&self) -> impl Iterator<Item = &Region> {
        self.regions[..self.totals.regions as usize].iter().flatten().map(|region| &**region)
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Region> {
        let regions = self.totals.regions as usize;
        self.regions[..regions].iter_mut().flatten().map(|region| &mut **region)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::CountingMemory;
    use crate::storage::Allocated;

    fn regions(number: u64, memory: &mut CountingMemory) -> HugeRegions<Allocated> {
        let mut regions = HugeRegions::new().unwrap();
        for _ in 0..number {
            let range = memory.reserve(REGION).unwrap();
            regions.add(range.split(REGION).0).unwrap();
        }
        regions
    }

    #[test]
    fn spans_lie_end_on_end_across_huge_pages() {
        let mut memory = CountingMemory::new();
        let mut regions = regions(1, &mut memory);
        // 1.1 MiB, the paper's example: 140.8 pages, so 141. 131,072 / 141 = 929.6.
        let pages = Pages(141);
        let mut spans = Vec::new();
        while let Some(span) = regions.try_allocate(pages, Pages::ONE, &mut memory) {
            assert!(span.zeroed);
            spans.push(span.pages);
        }
        assert_eq!(spans.len(), 929);
        // Less than 1.1 MiB of 1 GiB is lost: the paper says 0.9 MiB, "about 0.1 %".
        assert!(REGION.pages() - regions.stats().used_pages < pages);
        assert_eq!(regions.validate(), Ok(()));
        for span in spans {
            regions.free(span);
        }
        assert_eq!(regions.validate(), Ok(()));
        assert_eq!(regions.stats().idle_huge_pages, HugePages(512));
        assert_eq!(regions.release(HugePages(100), &mut memory), HugePages(100));
        assert_eq!(regions.release(HugePages(500), &mut memory), HugePages(412));
        assert_eq!(regions.validate(), Ok(()));
    }

    #[test]
    fn the_fullest_region_that_holds_a_span_serves_it() {
        let mut memory = CountingMemory::new();
        let mut regions = regions(2, &mut memory);
        let large = regions.try_allocate(Pages(100_000), Pages::ONE, &mut memory).unwrap().pages;
        let small = regions.try_allocate(Pages(1_000), Pages::ONE, &mut memory).unwrap().pages;
        assert_eq!(small.start, large.end());
        let other = regions.try_allocate(Pages(40_000), Pages::ONE, &mut memory).unwrap().pages;
        let distance = other.start.0.abs_diff(large.start.0);
        assert!(distance >= REGION.pages().0, "in the other region");
        assert!(regions.holds(other.start.huge_page()));
    }

    #[test]
    fn what_was_written_and_kept_does_not_read_as_zeros() {
        let mut memory = CountingMemory::new();
        let mut regions = regions(1, &mut memory);
        let first = regions.try_allocate(Pages(300), Pages::ONE, &mut memory).unwrap();
        assert_eq!(first.newly_used, HugePages(2));
        assert_eq!(regions.free(first.pages), HugePages(2));
        let again = regions.try_allocate(Pages(300), Pages::ONE, &mut memory).unwrap();
        assert_eq!((again.zeroed, again.pages), (false, first.pages));
        regions.free(again.pages);
        assert_eq!(regions.release(HugePages(2), &mut memory), HugePages(2));
        assert!(regions.try_allocate(Pages(300), Pages(256), &mut memory).unwrap().zeroed);
    }
}
