//! The page heap: hands out spans of whole pages, and gives memory back to the system.

mod demand;
mod huge_allocator;
mod huge_cache;
pub(crate) mod huge_filler;
mod huge_page_map;
mod huge_region;
mod legacy;
mod page_space;
mod range_tree;
mod ranked_lists;
pub mod ranking;
mod region;
mod stats;
mod sums;
mod temeraire;
pub(crate) mod tracker;

pub use legacy::Legacy;
pub use stats::{Backing, Components, LegacyStats, PageHeapStats, TemeraireStats};
pub use temeraire::Temeraire;

use crate::units::{HugePages, PageRange, Pages};

/// The interface of a page heap (section 3 of the paper): New, Delete, Release.
///
/// A page heap is a plain value: the caller serializes calls.
pub trait PageHeap {
    /// A span of `pages` pages whose first page number is a multiple of `align`.
    ///
    /// `pages` is at least one and `align` a power of two, up to 1 GiB and beyond. `None` if the
    /// system gives no memory; the page heap is unchanged then.
    fn new_span(&mut self, pages: Pages, align: Pages) -> Option<NewSpan>;

    /// Takes a span back, whole and as [`PageHeap::new_span`] gave it.
    fn delete(&mut self, span: PageRange);

    /// Makes a span `len` pages long in its place, longer than it is, if it and `len` are whole huge
    /// pages and those behind it are free. Whether it did; if not, nothing has changed.
    ///
    /// The added pages have unknown contents.
    fn extend(&mut self, span: PageRange, len: Pages) -> bool {
        let _ = (span, len);
        false
    }

    /// Truncates a span to `len` pages, whole huge pages and fewer than it has, if it has huge pages
    /// of its own. Whether it did; if not, the span is as long as it was.
    ///
    /// If the system refuses to take memory back, what the span would have lost may read as zeros.
    fn truncate(&mut self, span: PageRange, len: Pages, tail: Tail) -> bool {
        let _ = (span, len, tail);
        false
    }

    /// Gives memory of at least `pages` unused pages back to the system, if it can spare them.
    /// Returns the released pages: perhaps more, as whole huge pages are better released than
    /// parts.
    fn release(&mut self, pages: Pages) -> Pages;

    /// Whole huge pages of address space that nothing uses.
    fn idle_space(&self) -> HugePages {
        HugePages::ZERO
    }

    /// Gives [`PageHeap::idle_space`] back to the system, and the memory behind it: where address
    /// space is limited, the system may have room in one piece afterwards.
    fn give_up_space(&mut self) {}

    /// State and counters.
    fn stats(&self) -> PageHeapStats;

    /// Recomputes all redundant state and compares. O(everything).
    ///
    /// # Errors
    /// A message that names the first inconsistency.
    fn validate(&self) -> Result<(), String>;
}

/// What becomes of the memory that a truncated span loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// Kept for other spans, as after a Delete.
    Kept,
    /// Returned to the system at once.
    Released,
}

/// A span that a page heap has handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewSpan {
    /// Its pages.
    pub pages: PageRange,
    /// Whether all of it is known to read as zeros, because it was not written to since the system
    /// returned it.
    pub zeroed: bool,
}

/// Time, as the page heap sees it.
pub trait Clock {
    /// Nanoseconds since some fixed moment. Never goes backwards.
    fn now_ns(&self) -> u64;
}
