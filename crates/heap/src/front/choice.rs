//! The page heap that a process runs on.

use crate::memory::{OnNode, SystemMemory};
use crate::page_heap::{Clock, Legacy, NewSpan, PageHeap, PageHeapStats, Tail, Temeraire};
use crate::units::{HugePages, PageRange, Pages};

/// A choice of page heap, made once when a process starts (`PRAIRIE_PAGE_HEAP`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PageHeapChoice {
    /// The hugepage-aware page heap of the paper's section 4.
    #[default]
    Temeraire,
    /// The page heap that it replaces: best fit, without regard to huge pages.
    Legacy,
}

impl PageHeapChoice {
    /// The values that [`PageHeapChoice::named`] understands, for a message.
    pub const NAMES: &'static str = "temeraire or legacy";

    /// The choice of a name.
    pub fn named(name: &[u8]) -> Option<PageHeapChoice> {
        match name {
            b"temeraire" => Some(PageHeapChoice::Temeraire),
            b"legacy" => Some(PageHeapChoice::Legacy),
            _ => None,
        }
    }

    /// Such a page heap on memory of the running process. `None` if there is no storage for its
    /// tables.
    pub fn make(self, memory: OnNode<SystemMemory>) -> Option<ChosenPageHeap> {
        match self {
            PageHeapChoice::Temeraire => {
                Temeraire::new(memory, SystemClock).map(ChosenPageHeap::Temeraire)
            }
            PageHeapChoice::Legacy => Legacy::new(memory).map(ChosenPageHeap::Legacy),
        }
    }
}

/// The kernel's monotonic clock, as of its last tick: some milliseconds are near enough for windows
/// of two seconds, and cost less than a precise time.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ns(&self) -> u64 {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: there is room for the time. The C library knows where the kernel's clock is;
        // rustix looks for it in `/proc`, where valgrind shows what is not there.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut now) };
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    }
}

/// The page heap of the running process.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a malloc's page heap is in no box")]
pub enum ChosenPageHeap {
    /// See [`PageHeapChoice::Temeraire`].
    Temeraire(Temeraire<OnNode<SystemMemory>, SystemClock>),
    /// See [`PageHeapChoice::Legacy`].
    Legacy(Legacy<OnNode<SystemMemory>>),
}

macro_rules! whichever {
    ($page_heap:expr, $it:ident => $act:expr) => {
        match $page_heap {
            ChosenPageHeap::Temeraire($it) => $act,
            ChosenPageHeap::Legacy($it) => $act,
        }
    };
}

impl PageHeap for ChosenPageHeap {
    fn new_span(&mut self, pages: Pages, align: Pages) -> Option<NewSpan> {
        whichever!(self, it => it.new_span(pages, align))
    }

    fn delete(&mut self, span: PageRange) {
        whichever!(self, it => it.delete(span));
    }

    fn extend(&mut self, span: PageRange, len: Pages) -> bool {
        whichever!(self, it => it.extend(span, len))
    }

    fn truncate(&mut self, span: PageRange, len: Pages, tail: Tail) -> bool {
        whichever!(self, it => it.truncate(span, len, tail))
    }

    fn release(&mut self, pages: Pages) -> Pages {
        whichever!(self, it => it.release(pages))
    }

    fn idle_space(&self) -> HugePages {
        whichever!(self, it => it.idle_space())
    }

    fn give_up_space(&mut self) {
        whichever!(self, it => it.give_up_space());
    }

    fn stats(&self) -> PageHeapStats {
        whichever!(self, it => it.stats())
    }

    fn validate(&self) -> Result<(), String> {
        whichever!(self, it => it.validate())
    }
}
