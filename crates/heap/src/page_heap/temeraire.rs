//! TEMERAIRE: the hugepage-aware page heap (section 4.1).
//!
//! ```text
//!   up to 1 MiB          1 MiB to 1 GiB            1 GiB and more
//!        │                 │         │                   │
//!        ▼      sometimes  │         │ the tail is       │
//!   HugeFiller ◄───────────┤         │ donated           │
//!        ▲                 ▼         │ to the filler     │
//!        │            HugeRegion     │                   │
//!        │                 │         ▼                   ▼
//!        └─────────────── HugeCache: backed, empty huge pages
//!                          │
//!                         HugeAllocator: unbacked address space
//! ```

use super::huge_allocator::HugeAllocator;
use super::huge_cache::{FromCache, HugeCache};
use super::huge_filler::{Emptied, HugeFiller};
use super::huge_region::{HugeRegions, REGION};
use super::ranking::{ByRank, LongestFreeRange, Ranking};
use super::stats::{Backing, Components, PageHeapStats, TemeraireStats};
use super::{Clock, NewSpan, PageHeap, Tail};
use crate::memory::Memory;
use crate::units::{HugePages, HugeRange, PageRange, Pages};

/// Up to this size a span always lies on one huge page of the filler: 1 MiB.
pub const SMALL: Pages = Pages(HugePages::PAGES.0 / 2);
/// From this size on the waste of rounding up to huge pages is negligible: 1 GiB.
pub const LARGE: Pages = REGION.pages();
/// No region before slack is as much: 64 MiB. The paper says large quantities, and most programs
/// that small never need one.
pub const SLACK_FOR_REGIONS: Pages = Pages((64 << 20) / Pages::SIZE);
/// No span has more pages than 48 bits of address hold.
const MAX_PAGES: Pages = Pages(1 << (48 - Pages::SHIFT));

/// The hugepage-aware page heap, on a memory `M`, with a filler that chooses by `R`.
#[derive(Debug)]
pub struct Temeraire<M, C, R = ByRank<<M as Memory>::Storage, LongestFreeRange>>
where
    M: Memory,
    R: Ranking<M::Storage>,
{
    memory: M,
    clock: C,
    allocator: HugeAllocator<M::Storage>,
    cache: HugeCache<M::Storage>,
    filler: HugeFiller<M::Storage, R>,
    regions: HugeRegions<M::Storage>,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    created: u64,
    deleted: u64,
    /// Pages in spans.
    live: Pages,
    /// Pages in spans of up to [`SMALL`].
    small: Pages,
    /// Slack: pages by which larger spans fall short of whole huge pages.
    slack: Pages,
    /// Huge pages of spans, without the tails that are in the filler.
    whole: HugePages,
    /// Released without passing through a component: remaining pages of broken huge pages that became
    /// empty, and tails of truncated spans.
    released_at_once: Pages,
}

impl<M: Memory, C: Clock, R: Ranking<M::Storage>> Temeraire<M, C, R> {
    /// A page heap that has reserved nothing. `None` if there is no storage for its tables.
    pub fn new(memory: M, clock: C) -> Option<Self> {
        Some(Temeraire {
            memory,
            clock,
            allocator: HugeAllocator::new(),
            cache: HugeCache::new(),
            filler: HugeFiller::new()?,
            regions: HugeRegions::new()?,
            counts: Counts::default(),
        })
    }

    /// The memory below it.
    pub const fn memory(&self) -> &M {
        &self.memory
    }

    /// State and counters of each component.
    pub fn components(&self) -> TemeraireStats {
        TemeraireStats {
            huge_allocator: self.allocator.stats(),
            huge_cache: self.cache.stats(),
            huge_filler: self.filler.stats(),
            huge_region: self.regions.stats(),
            small_pages: self.counts.small,
            slack_pages: self.counts.slack,
        }
    }

    /// Figure 7.
    fn place(&mut self, pages: Pages, align: Pages) -> Option<NewSpan> {
        if align > HugePages::PAGES {
            return self.on_whole_huge_pages(pages, HugePages::holding(align));
        }
        if pages <= SMALL {
            return self.in_filler(pages, align);
        }
        if pages < HugePages::PAGES
            && let Some((pages, zeroed)) = self.filler.try_allocate(pages, align)
        {
            return Some(NewSpan { pages, zeroed });
        }
        if !tail(pages).is_zero()
            && let Some(span) = self.in_region(pages, align)
        {
            return Some(span);
        }
        self.on_whole_huge_pages(pages, HugePages::ONE)
    }

    fn in_filler(&mut self, pages: Pages, align: Pages) -> Option<NewSpan> {
        let placed = match self.filler.try_allocate(pages, align) {
            Some(placed) => placed,
            None => {
                let FromCache { range, zeroed } = self.take_from_cache(HugePages::ONE)?;
                match self.filler.add(range.start, zeroed, pages) {
                    Some(placed) => placed,
                    None => return self.give_up(range),
                }
            }
        };
        Some(NewSpan { pages: placed.0, zeroed: placed.1 })
    }

    fn in_region(&mut self, pages: Pages, align: Pages) -> Option<NewSpan> {
        let span = match self.regions.try_allocate(pages, align, &mut self.memory) {
            Some(span) => span,
            None => {
                self.add_region()?;
                self.regions.try_allocate(pages, align, &mut self.memory)?
            }
        };
        self.cache.demand_rises(span.newly_used, self.clock.now_ns());
        Some(NewSpan { pages: span.pages, zeroed: span.zeroed })
    }

    /// One region more, if slack exceeds what small allocations could ever fill (section 4.5).
    fn add_region(&mut self) -> Option<()> {
        let Counts { slack, small, .. } = self.counts;
        if slack < SLACK_FOR_REGIONS || slack <= small || !self.regions.has_room() {
            return None;
        }
        let range = self.allocator.get(REGION, HugePages::ONE, &mut self.memory)?;
        if self.regions.add(range).is_none() {
            self.allocator.put(range);
            return None;
        }
        Some(())
    }

    /// A span of its own huge pages, whose tail the filler may fill.
    fn on_whole_huge_pages(&mut self, pages: Pages, align: HugePages) -> Option<NewSpan> {
        let len = HugePages::holding(pages);
        let FromCache { range, zeroed } = match align {
            HugePages::ONE => self.take_from_cache(len)?,
            _ => self.take_aligned(len, align)?,
        };
        let tail = tail(pages);
        let mut whole = len;
        if !tail.is_zero() {
            whole = len - HugePages::ONE;
            if self.filler.donate(range.start + whole, zeroed, tail).is_none() {
                return self.give_up(range);
            }
        }
        self.counts.whole += whole;
        let start = range.start.first_page();
        Some(NewSpan { pages: PageRange { start, len: pages }, zeroed })
    }

    fn take_from_cache(&mut self, len: HugePages) -> Option<FromCache> {
        self.cache.get(len, self.clock.now_ns(), &mut self.allocator, &mut self.memory)
    }

    /// Cached ranges are rarely aligned, so these come from the allocator.
    fn take_aligned(&mut self, len: HugePages, align: HugePages) -> Option<FromCache> {
        let range = self.allocator.get(len, align, &mut self.memory)?;
        self.memory.back(range);
        self.cache.demand_rises(len, self.clock.now_ns());
        Some(FromCache { range, zeroed: true })
    }

    /// Puts huge pages back that lack storage for metadata.
    fn give_up(&mut self, range: HugeRange) -> Option<NewSpan> {
        self.put_into_cache(range);
        None
    }

    fn put_into_cache(&mut self, range: HugeRange) {
        self.cache.put(range, self.clock.now_ns(), &mut self.allocator, &mut self.memory);
    }

    fn delete_from_filler(&mut self, span: PageRange) {
        if let Some(emptied) = self.filler.free(span) {
            self.take_emptied(emptied);
        }
    }

    /// A broken huge page goes back to the system, so that it is whole when it is used again.
    fn take_emptied(&mut self, Emptied { huge_page, broken, backed }: Emptied) {
        let range = HugeRange { start: huge_page, len: HugePages::ONE };
        if broken && self.memory.release(range.pages()) {
            self.counts.released_at_once += backed;
            self.cache.demand_falls(range.len, self.clock.now_ns());
            self.allocator.put(range);
        } else {
            self.put_into_cache(range);
        }
    }

    fn delete_from_region(&mut self, span: PageRange) {
        let idle = self.regions.free(span);
        if idle.is_zero() {
            return;
        }
        let now_ns = self.clock.now_ns();
        self.cache.demand_falls(idle, now_ns);
        // Idle huge pages of regions are kept by the same measure as the cache's.
        let kept = self.cache.size() + self.regions.stats().idle_huge_pages;
        let excess = kept.saturating_sub(self.cache.limit(now_ns));
        self.regions.release(excess, &mut self.memory);
    }

    /// Takes a span with huge pages of its own back, with its tail unless that still serves others.
    fn delete_whole(&mut self, span: PageRange) {
        let mut range = own_huge_pages(span);
        self.counts.whole -= range.len;
        range.len += self.free_tail(span);
        self.put_into_cache(range);
    }

    /// Frees the tail of a span with huge pages of its own. 1 if the huge page behind these is empty
    /// now and for the caller to put away, else 0.
    fn free_tail(&mut self, span: PageRange) -> HugePages {
        let len = tail(span.len);
        if len.is_zero() {
            return HugePages::ZERO;
        }
        let start = own_huge_pages(span).end().first_page();
        match self.filler.free(PageRange { start, len }) {
            Some(Emptied { broken: false, .. }) => return HugePages::ONE,
            Some(emptied) => self.take_emptied(emptied),
            None => {}
        }
        HugePages::ZERO
    }

    fn count(&mut self, pages: Pages, created: bool) {
        let change = |total: &mut Pages, by: Pages| {
            if created { *total += by } else { *total -= by }
        };
        change(&mut self.counts.live, pages);
        if pages <= SMALL {
            change(&mut self.counts.small, pages);
        } else {
            change(&mut self.counts.slack, HugePages::holding(pages).pages() - pages);
        }
        self.counts.created += u64::from(created);
        self.counts.deleted += u64::from(!created);
    }

    fn backing(&self) -> Backing {
        let (filler, regions) = (self.filler.stats(), self.regions.stats());
        let region_huge_pages = regions.used_huge_pages + regions.idle_huge_pages;
        let whole = self.cache.size() + self.counts.whole + region_huge_pages;
        let filled = filler.used_pages + filler.free_backed_pages;
        let on_broken = filler.used_on_broken_pages + filler.free_on_broken_pages;
        let region_space = HugePages(regions.regions * REGION.0);
        let unbacked =
            self.allocator.stats().unbacked_huge_pages + region_space - region_huge_pages;
        Backing {
            live: self.counts.live,
            free: whole.pages() + filled - self.counts.live,
            unbacked: unbacked.pages() + filler.released_pages,
            on_huge_pages: whole.pages() + filled - on_broken,
        }
    }

    /// That no huge page is in two components, and none is missing.
    fn validate_partition(&self) -> Result<(), String> {
        let twice = |what: &str, range: HugeRange| {
            Err(format!("{range} of the {what} belong to another component as well"))
        };
        for range in self.cache.ranges() {
            if self.allocator.overlaps(range) {
                return twice("HugeCache", range);
            }
        }
        for range in self.regions.ranges() {
            if self.allocator.overlaps(range) || self.cache.overlaps(range) {
                return twice("HugeRegion", range);
            }
        }
        for tracker in self.filler.trackers() {
            let huge_page = tracker.huge_page();
            let range = HugeRange { start: huge_page, len: HugePages::ONE };
            let elsewhere = self.allocator.overlaps(range) || self.cache.overlaps(range);
            if elsewhere || self.regions.holds(huge_page) {
                return twice("HugeFiller", range);
            }
        }
        let Backing { live, free, unbacked, .. } = self.backing();
        let allocator = self.allocator.stats();
        let known = live + free + unbacked + allocator.lost_huge_pages.pages();
        if known != allocator.reserved_huge_pages.pages() {
            return Err(format!("{known:?} are known of {:?}", allocator.reserved_huge_pages));
        }
        Ok(())
    }
}

/// Pages on the last huge page, if a span shares that one. Those of [`LARGE`] spans it does not.
fn tail(pages: Pages) -> Pages {
    if pages >= LARGE { Pages::ZERO } else { Pages(pages.0 % HugePages::PAGES.0) }
}

/// The huge pages of a span of at least one, without the last one if the span shares that.
fn own_huge_pages(span: PageRange) -> HugeRange {
    let len = HugePages::holding(span.len);
    let shared = if tail(span.len).is_zero() { HugePages::ZERO } else { HugePages::ONE };
    HugeRange { start: span.start.huge_page(), len: len - shared }
}

fn is_whole(pages: Pages) -> bool {
    pages.0.is_multiple_of(HugePages::PAGES.0)
}

impl<M: Memory, C: Clock, R: Ranking<M::Storage>> PageHeap for Temeraire<M, C, R> {
    fn new_span(&mut self, pages: Pages, align: Pages) -> Option<NewSpan> {
        debug_assert!(!pages.is_zero() && align.0.is_power_of_two());
        if pages.is_zero() || pages > MAX_PAGES || align > MAX_PAGES {
            return None;
        }
        let span = self.place(pages, align)?;
        self.count(pages, true);
        Some(span)
    }

    fn delete(&mut self, span: PageRange) {
        self.count(span.len, false);
        if span.len > SMALL && self.regions.holds(span.start.huge_page()) {
            self.delete_from_region(span);
        } else if span.len < HugePages::PAGES {
            self.delete_from_filler(span);
        } else {
            self.delete_whole(span);
        }
    }

    fn extend(&mut self, span: PageRange, len: Pages) -> bool {
        if !is_whole(span.len) || !is_whole(len) || len <= span.len || len > MAX_PAGES {
            return false;
        }
        let more = HugePages::holding(len - span.len);
        let now_ns = self.clock.now_ns();
        let behind = span.end().huge_page();
        let (cache, allocator) = (&mut self.cache, &mut self.allocator);
        if !cache.get_behind(behind, more, now_ns, allocator, &mut self.memory) {
            return false;
        }
        self.counts.whole += more;
        self.counts.live += len - span.len;
        true
    }

    fn truncate(&mut self, span: PageRange, len: Pages, tail: Tail) -> bool {
        let has_own = span.len >= HugePages::PAGES && !self.regions.holds(span.start.huge_page());
        if !has_own || !is_whole(len) || len.is_zero() || len >= span.len {
            return false;
        }
        let own = own_huge_pages(span);
        let (_, end) = own.split(HugePages::holding(len));
        let releases = tail == Tail::Released && !end.len.is_zero();
        if releases && !self.memory.release(end.pages()) {
            return false;
        }
        self.counts.live -= span.len - len;
        self.counts.slack -= HugePages::holding(span.len).pages() - span.len;
        self.counts.whole -= end.len;
        let emptied = self.free_tail(span);
        let mut kept = HugeRange { start: own.end(), len: emptied };
        if releases {
            self.counts.released_at_once += end.len.pages();
            self.cache.demand_falls(end.len, self.clock.now_ns());
            self.allocator.put(end);
        } else {
            kept = HugeRange { start: end.start, len: end.len + emptied };
        }
        if !kept.len.is_zero() {
            self.put_into_cache(kept);
        }
        true
    }

    fn release(&mut self, pages: Pages) -> Pages {
        let wanted = HugePages::holding(pages);
        let mut released = self.cache.release(wanted, &mut self.allocator, &mut self.memory);
        if released < wanted {
            released += self.regions.release(wanted - released, &mut self.memory);
        }
        let rest = pages.saturating_sub(released.pages());
        released.pages() + self.filler.subrelease(rest, &mut self.memory)
    }

    fn idle_space(&self) -> HugePages {
        self.cache.size() + self.allocator.size()
    }

    fn give_up_space(&mut self) {
        self.cache.release(self.cache.size(), &mut self.allocator, &mut self.memory);
        self.allocator.give_up(&mut self.memory);
    }

    fn stats(&self) -> PageHeapStats {
        let components = self.components();
        let by_cache = components.huge_cache.released_by_limit_huge_pages
            + components.huge_cache.released_on_request_huge_pages;
        let whole = by_cache + components.huge_region.released_huge_pages_total;
        PageHeapStats {
            page_heap: "temeraire",
            backing: self.backing(),
            spans_created: self.counts.created,
            spans_deleted: self.counts.deleted,
            released_pages: whole.pages()
                + components.huge_filler.subreleased_pages_total
                + self.counts.released_at_once,
            components: Components::Temeraire(components),
        }
    }

    fn validate(&self) -> Result<(), String> {
        self.allocator.validate()?;
        self.cache.validate()?;
        self.filler.validate()?;
        self.regions.validate()?;
        self.validate_partition()
    }
}
