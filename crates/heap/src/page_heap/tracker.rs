//! One huge page that spans share: its used pages and its state.

use super::ranked_lists::{Linked, Links};
use crate::page_bits;
use crate::units::{HugePageId, HugePages, PageRange, Pages};

const PAGES: usize = HugePages::PAGES.0 as usize;
type Bits = [u64; PAGES / 64];

/// A huge page that spans share (section 4.4).
#[derive(Clone, Copy, Debug)]
pub struct Tracker {
    huge_page: HugePageId,
    used: Bits,
    /// Free pages that were given back to the system.
    released: Bits,
    /// Pages not written to since the system returned them: they read as zeros.
    untouched: Bits,
    spans: u16,
    used_pages: u16,
    released_pages: u16,
    longest: u16,
    /// Whether a part was ever released since it was whole: it is no huge page to the system.
    broken: bool,
    /// Whether it is the tail of a larger span and serves nothing else yet.
    donated: bool,
    /// Places on lists: by rank, and by how much can be released.
    links: [Links<Tracker>; 2],
}

impl Tracker {
    /// A huge page that is unused.
    pub const fn new(huge_page: HugePageId, zeroed: bool) -> Tracker {
        Tracker {
            huge_page,
            used: [0; PAGES / 64],
            released: [0; PAGES / 64],
            untouched: [if zeroed { u64::MAX } else { 0 }; PAGES / 64],
            spans: 0,
            used_pages: 0,
            released_pages: 0,
            longest: PAGES as u16,
            broken: false,
            donated: false,
            links: [Links::NONE; 2],
        }
    }

    /// The huge page.
    pub const fn huge_page(&self) -> HugePageId {
        self.huge_page
    }

    /// Number of spans on it: A in section 4.4.
    pub const fn spans(&self) -> usize {
        self.spans as usize
    }

    /// Its longest free range in pages: L in section 4.4.
    pub const fn longest_free_range(&self) -> usize {
        self.longest as usize
    }

    /// Pages in spans: U in section 4.4.
    pub const fn used(&self) -> Pages {
        Pages(self.used_pages as u64)
    }

    /// Pages in no span that have memory behind them.
    pub const fn free_backed(&self) -> Pages {
        Pages(HugePages::PAGES.0 - self.used_pages as u64 - self.released_pages as u64)
    }

    /// Pages in no span that were given back to the system.
    pub const fn released(&self) -> Pages {
        Pages(self.released_pages as u64)
    }

    /// Whether a part of it was released since it was whole.
    pub const fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether it is the tail of a larger span and serves nothing else yet.
    pub const fn is_donated(&self) -> bool {
        self.donated
    }

    /// Whether no span is on it.
    pub const fn is_empty(&self) -> bool {
        self.spans == 0
    }

    /// Lengths of its free ranges.
    pub fn free_ranges(&self) -> impl Iterator<Item = usize> + '_ {
        page_bits::clear_runs(&self.used).map(|run| run.len)
    }

    /// Places a span in the shortest free range that holds it, and returns whether it reads as
    /// zeros. A donated huge page is one like others from then on.
    pub fn allocate(&mut self, pages: Pages, align: Pages) -> Option<(PageRange, bool)> {
        let len = pages.0 as usize;
        let start = page_bits::best_fit(&self.used, len, align.0 as usize)?;
        let zeroed = page_bits::count(&self.untouched, start, len) == len;
        let released = page_bits::count(&self.released, start, len);
        page_bits::set(&mut self.used, start, len);
        page_bits::clear(&mut self.untouched, start, len);
        page_bits::clear(&mut self.released, start, len);
        self.used_pages += len as u16;
        self.released_pages -= released as u16;
        self.spans += 1;
        self.donated = false;
        self.longest = page_bits::longest_clear_run(&self.used) as u16;
        let start = self.huge_page.first_page() + Pages(start as u64);
        Some((PageRange { start, len: pages }, zeroed))
    }

    /// Marks the first pages as the end of a larger span: the fictitious leading allocation of
    /// Figure 8. The huge page must be empty.
    pub fn donate(&mut self, leading: Pages) {
        debug_assert!(self.is_empty());
        let placed = self.allocate(leading, Pages::ONE);
        debug_assert!(placed.is_some());
        self.donated = true;
    }

    /// Takes a span off. Its pages must be used, which is checked in debug builds.
    pub fn free(&mut self, span: PageRange) {
        let (start, len) = (span.start.index_in_huge_page(), span.len.0 as usize);
        debug_assert_eq!(page_bits::count(&self.used, start, len), len, "{span} is no span");
        page_bits::clear(&mut self.used, start, len);
        self.used_pages -= len as u16;
        self.spans -= 1;
        self.longest = page_bits::longest_clear_run(&self.used) as u16;
    }

    /// The free ranges that have memory behind them.
    pub fn releasable(&self) -> impl Iterator<Item = PageRange> + use<> {
        let mut taken = self.used;
        for (taken, released) in taken.iter_mut().zip(self.released) {
            *taken |= released;
        }
        let first = self.huge_page.first_page();
        let mut at = 0;
        core::iter::from_fn(move || {
            let run = page_bits::clear_runs(&taken).find(|run| run.start >= at)?;
            at = run.start + run.len;
            let start = first + Pages(run.start as u64);
            Some(PageRange { start, len: Pages(run.len as u64) })
        })
    }

    /// Notes that free pages were given back: the huge page is broken.
    pub fn note_released(&mut self, pages: PageRange) {
        let (start, len) = (pages.start.index_in_huge_page(), pages.len.0 as usize);
        page_bits::set(&mut self.released, start, len);
        page_bits::set(&mut self.untouched, start, len);
        self.released_pages += len as u16;
        self.broken = true;
    }

    /// Recomputes the counts from the bits.
    ///
    /// # Errors
    /// A message that names the inconsistency.
    pub fn validate(&self) -> Result<(), String> {
        let used = page_bits::count(&self.used, 0, PAGES);
        let released = page_bits::count(&self.released, 0, PAGES);
        let overlap = self.used.iter().zip(self.released).any(|(used, gone)| used & gone != 0);
        let written = self.released.iter().zip(self.untouched).any(|(gone, new)| gone & !new != 0);
        let right = used == self.used_pages as usize
            && released == self.released_pages as usize
            && page_bits::longest_clear_run(&self.used) == self.longest as usize
            && (released == 0 || self.broken)
            && (self.spans == 0) == (used == 0)
            && self.spans as usize <= used
            && (!self.donated || self.spans == 1);
        if !right || overlap || written {
            return Err(format!(
                "{} has {used} used and {released} released pages, but its counts \
                                say: {self:?}",
                self.huge_page
            ));
        }
        Ok(())
    }
}

impl Linked for Tracker {
    #[inline]
    fn links(&self, lists: usize) -> &Links<Tracker> {
        &self.links[lists]
    }

    #[inline]
    fn links_mut(&mut self, lists: usize) -> &mut Links<Tracker> {
        &mut self.links[lists]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(tracker: &Tracker, start: u64, len: u64) -> PageRange {
        PageRange { start: tracker.huge_page.first_page() + Pages(start), len: Pages(len) }
    }

    #[test]
    fn follows_spans_through_use_release_and_reuse() {
        let mut tracker = Tracker::new(HugePageId(3), true);
        let (first, zeroed) = tracker.allocate(Pages(10), Pages::ONE).unwrap();
        assert_eq!((first, zeroed), (span(&tracker, 0, 10), true));
        let (second, _) = tracker.allocate(Pages(6), Pages(16)).unwrap();
        assert_eq!(second, span(&tracker, 16, 6));
        assert_eq!((tracker.spans(), tracker.longest_free_range()), (2, 234));

        tracker.free(first);
        assert_eq!(
            tracker.releasable().collect::<Vec<_>>(),
            [span(&tracker, 0, 16), span(&tracker, 22, 234)]
        );
        tracker.note_released(span(&tracker, 22, 234));
        assert_eq!(tracker.releasable().collect::<Vec<_>>(), [span(&tracker, 0, 16)]);
        assert_eq!((tracker.free_backed(), tracker.released()), (Pages(16), Pages(234)));

        // Pages 0 to 9 were written to, 10 to 15 were not.
        assert_eq!(
            tracker.allocate(Pages(16), Pages::ONE).unwrap(),
            (span(&tracker, 0, 16), false)
        );
        assert_eq!(tracker.allocate(Pages(4), Pages::ONE).unwrap(), (span(&tracker, 22, 4), true));
        assert!(tracker.is_broken());
        assert_eq!(tracker.validate(), Ok(()));
    }

    #[test]
    fn a_donated_tail_is_one_until_it_serves_another_span() {
        let mut tracker = Tracker::new(HugePageId(1), true);
        tracker.donate(Pages(1));
        assert!(tracker.is_donated());
        let (small, _) = tracker.allocate(Pages(1), Pages::ONE).unwrap();
        assert!(!tracker.is_donated());
        tracker.free(span(&tracker, 0, 1));
        tracker.free(small);
        assert!(tracker.is_empty());
        assert_eq!(tracker.longest_free_range(), 256);
    }
}
