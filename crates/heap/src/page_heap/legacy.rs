//! The legacy page heap: best fit over pages, oblivious of huge pages (section 3).
//!
//! Free ranges of pages are kept apart by whether memory is behind them (*normal*) or they were
//! returned to the system. A request takes the shortest range that holds it, a normal one where
//! both are as short. A freed span is joined with free neighbors of its kind. Release goes round
//! the lists and returns the range that has been free for longest on each.

use super::page_space::PageSpace;
use super::ranked_lists::{Linked, Links, RANKS, RankedLists};
use super::stats::{Backing, Components, LegacyStats, PageHeapStats};
use super::{NewSpan, PageHeap};
use crate::memory::Memory;
use crate::storage::{Key, Slab};
use crate::units::{HugePages, PageId, PageRange, Pages};

/// The least that the heap grows by: 1 MiB.
const LEAST_GROWTH: Pages = Pages((1 << 20) / Pages::SIZE);
/// No span has more pages than 48 bits of address hold.
const MAX_PAGES: Pages = Pages(1 << (48 - Pages::SHIFT));

/// Whether memory is behind a free range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Normal,
    Returned,
}

/// A range of pages in no span.
#[derive(Clone, Copy, Debug)]
pub struct FreeRange {
    pages: PageRange,
    kind: Kind,
    links: Links<FreeRange>,
}

impl Linked for FreeRange {
    fn links(&self, _lists: usize) -> &Links<FreeRange> {
        &self.links
    }

    fn links_mut(&mut self, _lists: usize) -> &mut Links<FreeRange> {
        &mut self.links
    }
}

/// The legacy page heap on a memory `M`.
#[derive(Debug)]
pub struct Legacy<M: Memory> {
    memory: M,
    ranges: Slab<FreeRange, M::Storage>,
    /// By length: normal ranges, and returned ones.
    lists: [RankedLists<FreeRange, M::Storage, 0>; 2],
    space: PageSpace<FreeRange, M::Storage>,
    /// Reserved address space that the heap has not grown into.
    ahead: PageRange,
    /// Rank of the list that release looks at next.
    release_next: usize,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    created: u64,
    deleted: u64,
    live: Pages,
    free: [Pages; 2],
    released: Pages,
    reserved: Pages,
    releases: u64,
}

impl<M: Memory> Legacy<M> {
    /// A page heap that has reserved nothing. `None` if there is no storage for its tables.
    pub fn new(memory: M) -> Option<Self> {
        Some(Legacy {
            memory,
            ranges: Slab::new(),
            lists: [RankedLists::new()?, RankedLists::new()?],
            space: PageSpace::new()?,
            ahead: PageRange { start: PageId(0), len: Pages::ZERO },
            release_next: 0,
            counts: Counts::default(),
        })
    }

    /// The memory below it.
    pub const fn memory(&self) -> &M {
        &self.memory
    }

    /// The shortest range of at least `pages`, a normal one where both kinds are as short.
    fn best_fit(&self, pages: Pages) -> Option<Key<FreeRange>> {
        let [normal, returned] =
            [Kind::Normal, Kind::Returned].map(|kind| self.best_of_kind(kind, pages));
        let len = |key: Option<Key<FreeRange>>| key.map(|key| self.ranges.get(key).pages.len);
        match (len(normal), len(returned)) {
            (Some(one), Some(other)) if other < one => returned,
            (None, _) => returned,
            _ => normal,
        }
    }

    fn best_of_kind(&self, kind: Kind, pages: Pages) -> Option<Key<FreeRange>> {
        let lists = &self.lists[kind as usize];
        let mut from = rank(pages);
        loop {
            let (found, first) = lists.least_from(from)?;
            if found < EXACT {
                return Some(first);
            }
            let fits = |key: &Key<FreeRange>| self.ranges.get(*key).pages.len >= pages;
            let on_list = lists.on_list(&self.ranges, found).filter(fits);
            let best = on_list.min_by_key(|&key| self.ranges.get(key).pages.len);
            if best.is_some() {
                return best;
            }
            from = found + 1;
        }
    }

    /// Cuts a span out of a free range and leaves the ends.
    fn carve(&mut self, key: Key<FreeRange>, pages: Pages, align: Pages) -> NewSpan {
        let FreeRange { pages: range, kind, .. } = self.remove(key);
        let start = PageId(range.start.0.next_multiple_of(align.0));
        let span = PageRange { start, len: pages };
        let before = PageRange { start: range.start, len: start - range.start };
        let after = PageRange { start: span.end(), len: range.end() - span.end() };
        for end in [before, after] {
            if !end.len.is_zero() {
                self.insert(end, kind);
            }
        }
        if kind == Kind::Returned {
            self.space.back(span);
        }
        NewSpan { pages: span, zeroed: kind == Kind::Returned }
    }

    /// Makes more of the address space the heap's, as a returned range.
    fn grow(&mut self, pages: Pages) -> Option<()> {
        if self.ahead.len < pages {
            let reserved = self.memory.reserve(HugePages::holding(pages))?.pages();
            self.counts.reserved += reserved.len;
            let rest = std::mem::replace(&mut self.ahead, reserved);
            // Without storage the rest of the former reservation is lost, which harms nothing.
            if !rest.len.is_zero() && self.space.cover(rest) {
                self.insert_joined(rest, Kind::Returned);
            }
        }
        let grown =
            PageRange { start: self.ahead.start, len: pages.max(LEAST_GROWTH).min(self.ahead.len) };
        if !self.space.cover(grown) {
            return None;
        }
        self.ahead = PageRange { start: grown.end(), len: self.ahead.len - grown.len };
        self.insert_joined(grown, Kind::Returned);
        Some(())
    }

    /// Room for all ranges that could come to be: one for each span, and a few in between.
    fn ensure_room(&mut self) -> bool {
        let spans = self.counts.created - self.counts.deleted;
        let needed = u64::from(self.ranges.len()) + spans + 4;
        u32::try_from(needed).is_ok_and(|needed| self.ranges.ensure_capacity(needed))
    }

    /// Adds a range, joined with the free neighbors of its kind.
    fn insert_joined(&mut self, range: PageRange, kind: Kind) {
        let mut joined = range;
        let neighbours = [
            range.start.0.checked_sub(1).and_then(|page| self.space.boundary(PageId(page))),
            self.space.boundary(range.end()),
        ];
        for key in neighbours.into_iter().flatten() {
            if self.ranges.get(key).kind == kind {
                let neighbour = self.remove(key).pages;
                let start = joined.start.min(neighbour.start);
                joined = PageRange { start, len: joined.len + neighbour.len };
            }
        }
        self.insert(joined, kind);
    }

    fn insert(&mut self, pages: PageRange, kind: Kind) {
        let range = FreeRange { pages, kind, links: Links::NONE };
        let key = self.ranges.insert(range).expect("room was made before");
        self.lists[kind as usize].insert(&mut self.ranges, key, rank(pages.len));
        self.space.set_boundaries(pages, Some(key));
        self.counts.free[kind as usize] += pages.len;
    }

    fn remove(&mut self, key: Key<FreeRange>) -> FreeRange {
        let FreeRange { pages, kind, .. } = *self.ranges.get(key);
        self.lists[kind as usize].remove(&mut self.ranges, key, rank(pages.len));
        self.space.set_boundaries(pages, None);
        self.counts.free[kind as usize] -= pages.len;
        self.ranges.remove(key)
    }

    /// The range that has been free for longest on the next list; lists take turns.
    fn next_to_release(&mut self) -> Option<Key<FreeRange>> {
        let normal = &self.lists[Kind::Normal as usize];
        let (rank, _) = normal.least_from(self.release_next).or_else(|| normal.least_from(0))?;
        self.release_next = rank + 1;
        normal.last(&self.ranges, rank)
    }
}

/// Lengths below this have a list of their own.
const EXACT: usize = 1024;
/// Longer ones share a list with those of the same octave and sixteenth of it.
const STEPS: u32 = 4;

fn rank(pages: Pages) -> usize {
    if pages.0 < EXACT as u64 {
        return pages.0 as usize;
    }
    let octave = pages.0.ilog2();
    let step = (pages.0 >> (octave - STEPS)) as usize - (1 << STEPS);
    EXACT + (((octave - EXACT.ilog2()) as usize) << STEPS) + step
}
const _: () = assert!(EXACT + ((48 - 10) << STEPS) <= RANKS);

impl<M: Memory> PageHeap for Legacy<M> {
    fn new_span(&mut self, pages: Pages, align: Pages) -> Option<NewSpan> {
        debug_assert!(!pages.is_zero() && align.0.is_power_of_two());
        if pages.is_zero() || pages > MAX_PAGES || align > MAX_PAGES || !self.ensure_room() {
            return None;
        }
        let ample = pages + (align - Pages::ONE);
        let key = match self.best_fit(ample) {
            Some(key) => key,
            None => {
                self.grow(ample)?;
                self.best_fit(ample)?
            }
        };
        let span = self.carve(key, pages, align);
        self.counts.live += pages;
        self.counts.created += 1;
        Some(span)
    }

    fn delete(&mut self, span: PageRange) {
        self.counts.live -= span.len;
        self.counts.deleted += 1;
        self.insert_joined(span, Kind::Normal);
    }

    fn release(&mut self, pages: Pages) -> Pages {
        let mut released = Pages::ZERO;
        while released < pages {
            let Some(key) = self.next_to_release() else { break };
            let range = self.ranges.get(key).pages;
            if !self.memory.release(range) {
                break;
            }
            self.remove(key);
            self.space.unback(range);
            self.insert_joined(range, Kind::Returned);
            released += range.len;
            self.counts.releases += 1;
        }
        self.counts.released += released;
        released
    }

    fn stats(&self) -> PageHeapStats {
        let [free, returned] = self.counts.free;
        PageHeapStats {
            page_heap: "legacy",
            backing: Backing {
                live: self.counts.live,
                free,
                unbacked: returned + self.ahead.len,
                on_huge_pages: self.space.on_huge_pages(),
            },
            spans_created: self.counts.created,
            spans_deleted: self.counts.deleted,
            released_pages: self.counts.released,
            components: Components::Legacy(LegacyStats {
                normal_pages: free,
                returned_pages: returned,
                free_ranges: self.ranges.len(),
                releases: self.counts.releases,
            }),
        }
    }

    fn validate(&self) -> Result<(), String> {
        let mut free = [Pages::ZERO; 2];
        for (key, range) in self.ranges.iter() {
            let pages = range.pages;
            free[range.kind as usize] += pages.len;
            let last = PageId(pages.end().0 - 1);
            let bounds = [pages.start, last].map(|page| self.space.boundary(page));
            let mut on_list =
                self.lists[range.kind as usize].on_list(&self.ranges, rank(pages.len));
            if bounds != [Some(key); 2] || !on_list.any(|on| on == key) {
                return Err(format!("legacy: the free range of {pages} is not where it belongs"));
            }
            let next = self.space.boundary(pages.end()).map(|key| self.ranges.get(key).kind);
            if next == Some(range.kind) {
                return Err(format!("legacy: {pages} should be joined with what follows"));
            }
        }
        if free != self.counts.free {
            return Err(format!("legacy: counts {:?} free, holds {free:?}", self.counts.free));
        }
        self.space.validate(self.counts.live + free[Kind::Normal as usize])
    }
}
