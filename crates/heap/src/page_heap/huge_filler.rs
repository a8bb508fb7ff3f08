//! HugeFiller (section 4.4): packs spans onto huge pages so that some stay full and others empty.

use core::ops::{Add, Sub};

use serde::Serialize;

use super::huge_page_map::HugePageMap;
use super::ranked_lists::{RANKS, RankedLists};
use super::ranking::{ByRank, LongestFreeRange, Ranking};
use super::tracker::Tracker;
use crate::memory::Memory;
use crate::storage::{Key, Slab, Storage};
use crate::units::{HugePageId, HugePages, PageRange, Pages};

/// In the order in which huge pages serve spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tier {
    /// Whole huge pages.
    Regular,
    /// Tails of larger spans, that may come back whole.
    Donated,
    /// Broken by subrelease: no longer huge pages to the system.
    Broken,
}

impl Tier {
    fn of(tracker: &Tracker) -> Tier {
        match (tracker.is_broken(), tracker.is_donated()) {
            (true, _) => Tier::Broken,
            (false, true) => Tier::Donated,
            (false, false) => Tier::Regular,
        }
    }
}

/// The huge pages that spans share, with a strategy `R` to choose among them.
#[derive(Debug)]
pub struct HugeFiller<S: Storage, R: Ranking<S> = ByRank<S, LongestFreeRange>> {
    trackers: Slab<Tracker, S>,
    by_huge_page: HugePageMap<Tracker, S>,
    tiers: [R; 3],
    /// By how many free backed pages they have, most first: the whole ones, and the broken ones.
    releasable: [RankedLists<Tracker, S, 1>; 2],
    totals: HugeFillerStats,
}

/// What a [`HugeFiller`] holds and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[repr(C)]
pub struct HugeFillerStats {
    /// Huge pages that spans share.
    pub huge_pages: HugePages,
    /// Those that are tails of larger spans and serve nothing else.
    pub donated_huge_pages: HugePages,
    /// Those with a released part.
    pub broken_huge_pages: HugePages,
    /// Those without a free page.
    pub full_huge_pages: HugePages,
    /// Pages in spans.
    pub used_pages: Pages,
    /// Pages in spans on broken huge pages.
    pub used_on_broken_pages: Pages,
    /// Backed pages in no span.
    pub free_backed_pages: Pages,
    /// Backed pages in no span on broken huge pages.
    pub free_on_broken_pages: Pages,
    /// Free pages that were released and not used since.
    pub released_pages: Pages,
    /// Pages subreleased so far.
    pub subreleased_pages_total: Pages,
    /// Huge pages broken by subrelease so far.
    pub broken_huge_pages_total: HugePages,
}

/// A huge page that has become empty and left the filler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emptied {
    /// The huge page.
    pub huge_page: HugePageId,
    /// Whether a part of it was released since it was whole.
    pub broken: bool,
    /// How many of its pages have memory behind them.
    pub backed: Pages,
}

impl<S: Storage, R: Ranking<S>> HugeFiller<S, R> {
    /// A filler without huge pages. `None` if there is no storage for its tables.
    pub fn new() -> Option<Self> {
        Some(HugeFiller {
            trackers: Slab::new(),
            by_huge_page: HugePageMap::new()?,
            tiers: [R::new()?, R::new()?, R::new()?],
            releasable: [RankedLists::new()?, RankedLists::new()?],
            totals: HugeFillerStats::default(),
        })
    }

    /// Places a span on a huge page that it has, and returns whether it reads as zeros. `None` if
    /// no huge page is sure to have room: a gap of `pages + align - 1` always has.
    pub fn try_allocate(&mut self, pages: Pages, align: Pages) -> Option<(PageRange, bool)> {
        let ample = (pages.0 + align.0 - 1) as usize;
        if ample > HugePages::PAGES.0 as usize {
            return None;
        }
        let key = self.tiers.iter().find_map(|tier| tier.find(&self.trackers, ample))?;
        self.unlink(key);
        let placed = self.trackers.get_mut(key).allocate(pages, align);
        self.link(key);
        debug_assert!(placed.is_some(), "a gap of {ample} pages holds {pages:?}");
        placed
    }

    /// Takes a whole, backed huge page in, and places its first span, at its start. `None` if there
    /// is no storage for its metadata.
    pub fn add(
        &mut self,
        huge_page: HugePageId,
        zeroed: bool,
        pages: Pages,
    ) -> Option<(PageRange, bool)> {
        let mut tracker = Tracker::new(huge_page, zeroed);
        let placed = tracker.allocate(pages, Pages::ONE)?;
        self.track(tracker)?;
        Some(placed)
    }

    /// Adds the last huge page of a larger span, which uses its `leading` pages. `None` if there is
    /// no storage for its metadata.
    pub fn donate(&mut self, huge_page: HugePageId, zeroed: bool, leading: Pages) -> Option<()> {
        let mut tracker = Tracker::new(huge_page, zeroed);
        tracker.donate(leading);
        self.track(tracker)
    }

    /// Takes a span off its huge page, and the huge page out if that was its last.
    ///
    /// # Panics
    /// If the span lies on no huge page of the filler.
    pub fn free(&mut self, span: PageRange) -> Option<Emptied> {
        let key = self.by_huge_page.get(span.start.huge_page());
        let key = key.unwrap_or_else(|| panic!("{span} is no span"));
        self.unlink(key);
        self.trackers.get_mut(key).free(span);
        let tracker = self.trackers.get(key);
        if !tracker.is_empty() {
            self.link(key);
            return None;
        }
        let emptied = Emptied {
            huge_page: tracker.huge_page(),
            broken: tracker.is_broken(),
            backed: tracker.free_backed(),
        };
        self.by_huge_page.clear(emptied.huge_page);
        self.trackers.remove(key);
        Some(emptied)
    }

    /// Subrelease (section 4.6): gives the free pages of huge pages back, of those already broken
    /// first, then of the emptiest whole ones, until at least `pages` are. Returns how many were.
    pub fn subrelease(&mut self, pages: Pages, memory: &mut impl Memory) -> Pages {
        let mut released = Pages::ZERO;
        while released < pages {
            let Some(key) = self.next_to_subrelease() else { break };
            let gone = self.subrelease_from(key, memory);
            if gone.is_zero() {
                break; // The system refuses.
            }
            released += gone;
        }
        released
    }

    /// State and counters.
    pub const fn stats(&self) -> HugeFillerStats {
        self.totals
    }

    /// Its huge pages.
    pub fn trackers(&self) -> impl Iterator<Item = &Tracker> {
        self.trackers.iter().map(|(_, tracker)| tracker)
    }

    /// Checks every tracker, that each is on the lists where it belongs, and the totals.
    ///
    /// # Errors
    /// A message that names the inconsistency.
    pub fn validate(&self) -> Result<(), String> {
        let mut totals = HugeFillerStats {
            subreleased_pages_total: self.totals.subreleased_pages_total,
            broken_huge_pages_total: self.totals.broken_huge_pages_total,
            ..HugeFillerStats::default()
        };
        for (key, tracker) in self.trackers.iter() {
            tracker.validate().map_err(|error| format!("HugeFiller: {error}"))?;
            if tracker.is_empty() || self.by_huge_page.get(tracker.huge_page()) != Some(key) {
                return Err(format!("HugeFiller: {} should not be in it", tracker.huge_page()));
            }
            let free = tracker.free_backed();
            let lists = &self.releasable[usize::from(tracker.is_broken())];
            let listed = lists.on_list(&self.trackers, release_rank(free)).any(|on| on == key);
            if listed == free.is_zero() {
                return Err(format!("HugeFiller: {} is on the wrong list", tracker.huge_page()));
            }
            totals.count(tracker, Pages::add);
        }
        if totals != self.totals {
            return Err(format!("HugeFiller: totals {:?}, counted {totals:?}", self.totals));
        }
        Ok(())
    }

    fn track(&mut self, tracker: Tracker) -> Option<()> {
        let key = self.trackers.insert(tracker)?;
        if !self.by_huge_page.set(tracker.huge_page(), key) {
            self.trackers.remove(key);
            return None;
        }
        self.link(key);
        Some(())
    }

    fn next_to_subrelease(&self) -> Option<Key<Tracker>> {
        let [whole, broken] = &self.releasable;
        broken.least_from(0).or_else(|| whole.least_from(0)).map(|(_, key)| key)
    }

    fn subrelease_from(&mut self, key: Key<Tracker>, memory: &mut impl Memory) -> Pages {
        self.unlink(key);
        let tracker = self.trackers.get_mut(key);
        let was_broken = tracker.is_broken();
        let mut released = Pages::ZERO;
        for range in tracker.releasable() {
            if memory.release(range) {
                tracker.note_released(range);
                released += range.len;
            }
        }
        if tracker.is_broken() && !was_broken {
            self.totals.broken_huge_pages_total += HugePages::ONE;
        }
        self.totals.subreleased_pages_total += released;
        self.link(key);
        released
    }

    #[inline]
    fn link(&mut self, key: Key<Tracker>) {
        let tracker = self.trackers.get(key);
        let (tier, broken) = (Tier::of(tracker), tracker.is_broken());
        let free = tracker.free_backed();
        self.totals.count(tracker, Pages::add);
        self.tiers[tier as usize].insert(&mut self.trackers, key);
        if !free.is_zero() {
            let lists = &mut self.releasable[usize::from(broken)];
            lists.insert(&mut self.trackers, key, release_rank(free));
        }
    }

    #[inline]
    fn unlink(&mut self, key: Key<Tracker>) {
        let tracker = self.trackers.get(key);
        let (tier, broken) = (Tier::of(tracker), tracker.is_broken());
        let free = tracker.free_backed();
        self.totals.count(tracker, Pages::sub);
        self.tiers[tier as usize].remove(&mut self.trackers, key);
        if !free.is_zero() {
            let lists = &mut self.releasable[usize::from(broken)];
            lists.remove(&mut self.trackers, key, release_rank(free));
        }
    }
}

/// The most free pages have the least rank, and that is high, as the others of a huge page with
/// much free space are.
fn release_rank(free_backed: Pages) -> usize {
    RANKS - 1 - free_backed.0 as usize
}

impl HugeFillerStats {
    /// Adds a huge page's counts, or takes them off.
    #[inline]
    fn count(&mut self, tracker: &Tracker, apply: fn(Pages, Pages) -> Pages) {
        let huge = |total: &mut HugePages, is: bool| {
            total.0 = apply(Pages(total.0), Pages(u64::from(is))).0;
        };
        let broken = tracker.is_broken();
        huge(&mut self.huge_pages, true);
        huge(&mut self.donated_huge_pages, tracker.is_donated());
        huge(&mut self.broken_huge_pages, broken);
        huge(&mut self.full_huge_pages, tracker.used() == HugePages::PAGES);
        let pages = |total: &mut Pages, more: Pages, is: bool| {
            *total = apply(*total, if is { more } else { Pages::ZERO });
        };
        pages(&mut self.used_pages, tracker.used(), true);
        pages(&mut self.used_on_broken_pages, tracker.used(), broken);
        pages(&mut self.free_backed_pages, tracker.free_backed(), true);
        pages(&mut self.free_on_broken_pages, tracker.free_backed(), broken);
        pages(&mut self.released_pages, tracker.released(), true);
    }
}
