//! What a page heap tells about itself.

use serde::Serialize;

use crate::units::Pages;

/// What a page heap holds and has done.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PageHeapStats {
    /// Name of the page heap, as it is chosen by.
    pub page_heap: &'static str,
    /// Where the address space stands.
    pub backing: Backing,
    /// Spans handed out so far.
    pub spans_created: u64,
    /// Spans taken back so far.
    pub spans_deleted: u64,
    /// Pages given back to the system so far.
    pub released_pages: Pages,
}

/// Address space of a page heap by what is behind it.
///
/// *Backed* is what the page heap believes: it was handed out once and not released since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Backing {
    /// Pages in spans.
    pub live: Pages,
    /// Backed pages in no span: the overhead of the page heap.
    pub free: Pages,
    /// Pages without memory behind them.
    pub unbacked: Pages,
    /// Pages, live or free, on huge pages of which no part was released.
    pub on_huge_pages: Pages,
}

impl Backing {
    /// Pages with memory behind them.
    pub fn backed(&self) -> Pages {
        self.live + self.free
    }

    /// Overhead: backed memory in no span, over memory in spans (section 5.2). `None` without spans.
    pub fn overhead(&self) -> Option<f64> {
        (self.live.0 > 0).then(|| self.free.0 as f64 / self.live.0 as f64)
    }

    /// Hugepage coverage: share of backed memory on whole huge pages. `None` without backed memory.
    pub fn coverage(&self) -> Option<f64> {
        let backed = self.backed();
        (backed.0 > 0).then(|| self.on_huge_pages.0 as f64 / backed.0 as f64)
    }
}
