//! One region of 1 GiB: its pages as bits, and which of its huge pages have memory behind them.

use core::fmt;

use crate::memory::Memory;
use crate::page_bits;
use crate::storage::Zeroable;
use crate::units::{HugePageId, HugePages, HugeRange, PageRange, Pages};

/// Huge pages in a region: 1 GiB, so large that its unused end is small.
pub const REGION: HugePages = HugePages(512);
const HUGE_PAGES: usize = REGION.0 as usize;
const PAGES: usize = REGION.pages().0 as usize;

/// One region. All zeros is a region at address 0, unused.
pub(super) struct Region {
    start: u64,
    used: [u64; PAGES / 64],
    /// Pages that may not read as zeros.
    touched: [u64; PAGES / 64],
    /// Used pages of each huge page.
    used_of: [u32; HUGE_PAGES],
    /// Which huge pages have memory behind them.
    backed: [u64; HUGE_PAGES / 64],
    /// Pages less the longest free range, so that zeros mean that all are free.
    pages_less_longest: u64,
}

// SAFETY: its fields are numbers, for which zeros are valid.
unsafe impl Zeroable for Region {}

/// A span in a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionSpan {
    /// Its pages.
    pub pages: PageRange,
    /// Whether it reads as zeros.
    pub zeroed: bool,
    /// How many huge pages it is the first span on.
    pub newly_used: HugePages,
    /// How many of these had no memory behind them.
    pub newly_backed: HugePages,
}

impl Region {
    pub fn place_at(&mut self, start: HugePageId) {
        self.start = start.0;
    }

    pub fn range(&self) -> HugeRange {
        HugeRange { start: HugePageId(self.start), len: REGION }
    }

    pub fn longest(&self) -> usize {
        PAGES - self.pages_less_longest as usize
    }

    pub fn used_pages(&self) -> Pages {
        Pages(self.used_of.iter().map(|&used| u64::from(used)).sum())
    }

    pub fn used_huge_pages(&self) -> HugePages {
        HugePages(self.used_of.iter().filter(|&&used| used > 0).count() as u64)
    }

    pub fn backed_huge_pages(&self) -> HugePages {
        HugePages(page_bits::count(&self.backed, 0, HUGE_PAGES) as u64)
    }

    /// Best fit over all pages. O(pages / 64).
    pub fn allocate(
        &mut self,
        pages: Pages,
        align: Pages,
        memory: &mut impl Memory,
    ) -> Option<RegionSpan> {
        let len = pages.0 as usize;
        let start = page_bits::best_fit(&self.used, len, align.0 as usize)?;
        let zeroed = page_bits::count(&self.touched, start, len) == 0;
        page_bits::set(&mut self.used, start, len);
        page_bits::set(&mut self.touched, start, len);
        self.update_longest();
        let (mut newly_used, mut newly_backed) = (HugePages::ZERO, HugePages::ZERO);
        for (huge_page, part) in parts(start, len) {
            if self.used_of[huge_page] == 0 {
                newly_used += HugePages::ONE;
                newly_backed += self.back(huge_page, memory);
            }
            self.used_of[huge_page] += part as u32;
        }
        let start = self.range().start.first_page() + Pages(start as u64);
        let pages = PageRange { start, len: pages };
        Some(RegionSpan { pages, zeroed, newly_used, newly_backed })
    }

    /// Takes a span off. Returns how many huge pages it was the last span on.
    pub fn free(&mut self, span: PageRange) -> HugePages {
        let start = (span.start - self.range().start.first_page()).0 as usize;
        let len = span.len.0 as usize;
        debug_assert_eq!(page_bits::count(&self.used, start, len), len, "{span} is no span");
        page_bits::clear(&mut self.used, start, len);
        self.update_longest();
        let mut idle = HugePages::ZERO;
        for (huge_page, part) in parts(start, len) {
            self.used_of[huge_page] -= part as u32;
            idle += HugePages(u64::from(self.used_of[huge_page] == 0));
        }
        idle
    }

    /// Gives at most `len` backed huge pages without a span to the system. Returns how many.
    pub fn release(&mut self, len: HugePages, memory: &mut impl Memory) -> HugePages {
        let mut released = HugePages::ZERO;
        for huge_page in 0..HUGE_PAGES {
            if released == len {
                break;
            }
            let idle = self.used_of[huge_page] == 0;
            if idle && page_bits::count(&self.backed, huge_page, 1) == 1 {
                if !memory.release(self.huge_page(huge_page).page_range()) {
                    break;
                }
                let pages = HugePages::PAGES.0 as usize;
                page_bits::clear(&mut self.backed, huge_page, 1);
                page_bits::clear(&mut self.touched, huge_page * pages, pages);
                released += HugePages::ONE;
            }
        }
        released
    }

    /// Recomputes the counts from the bits.
    pub fn validate(&self) -> Result<(), String> {
        let pages = HugePages::PAGES.0 as usize;
        for huge_page in 0..HUGE_PAGES {
            let used = page_bits::count(&self.used, huge_page * pages, pages);
            let backed = page_bits::count(&self.backed, huge_page, 1) == 1;
            if used != self.used_of[huge_page] as usize || (used > 0 && !backed) {
                let huge_page = self.huge_page(huge_page);
                return Err(format!("HugeRegion: {huge_page} has {used} used pages"));
            }
        }
        if page_bits::longest_clear_run(&self.used) != self.longest() {
            return Err(format!("HugeRegion: {} pages are not free in a row", self.longest()));
        }
        if self.used.iter().zip(self.touched).any(|(used, touched)| used & !touched != 0) {
            return Err("HugeRegion: a used page counts as untouched".to_owned());
        }
        Ok(())
    }

    fn huge_page(&self, index: usize) -> HugePageId {
        self.range().start + HugePages(index as u64)
    }

    fn back(&mut self, huge_page: usize, memory: &mut impl Memory) -> HugePages {
        if page_bits::count(&self.backed, huge_page, 1) == 1 {
            return HugePages::ZERO;
        }
        page_bits::set(&mut self.backed, huge_page, 1);
        memory.back(HugeRange { start: self.huge_page(huge_page), len: HugePages::ONE });
        HugePages::ONE
    }

    fn update_longest(&mut self) {
        self.pages_less_longest = (PAGES - page_bits::longest_clear_run(&self.used)) as u64;
    }
}

/// The huge pages that pages of a region lie in, each with how many of the pages.
fn parts(start: usize, len: usize) -> impl Iterator<Item = (usize, usize)> {
    let pages = HugePages::PAGES.0 as usize;
    let end = start + len;
    (start / pages..end.div_ceil(pages)).map(move |huge_page| {
        let from = start.max(huge_page * pages);
        let to = end.min((huge_page + 1) * pages);
        (huge_page, to - from)
    })
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "region of {} used pages at {:#x}", self.used_pages().0, self.range().start.0)
    }
}
