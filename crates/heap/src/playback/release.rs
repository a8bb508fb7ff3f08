//! Sources of release requests, and their sizes.

use serde::Serialize;

use crate::page_heap::PageHeap;
use crate::units::Pages;

/// The source of release requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Release {
    /// None; the trace's calls are ignored.
    Off,
    /// The trace.
    Recorded,
    /// A background thread at a steady rate in bytes a second, instead of the trace.
    BytesPerSecond(u64),
}

/// Between two calls of the background thread: one second.
const PERIOD_NS: u64 = 1_000_000_000;

/// The background thread that releases at a steady rate (sections 3 and 4.6).
#[derive(Debug)]
pub(super) struct Releaser {
    next_ns: Option<u64>,
    /// Pages to release, minus those released beyond earlier requests.
    owed: i64,
}

impl Releaser {
    pub fn new() -> Releaser {
        Releaser { next_ns: None, owed: 0 }
    }

    /// Makes the calls that are due. What a call released beyond its request is subtracted from the
    /// next ones, so that the rate holds on average; what could not be released is not made up for.
    pub fn run(&mut self, now_ns: u64, rate: u64, heap: &mut dyn PageHeap) -> Pages {
        let mut released = Pages::ZERO;
        let mut due = *self.next_ns.get_or_insert(now_ns + PERIOD_NS);
        while due <= now_ns {
            due += PERIOD_NS;
            self.owed += (rate / Pages::SIZE) as i64;
            if self.owed <= 0 {
                continue;
            }
            let got = heap.release(Pages(self.owed as u64));
            released += got;
            self.owed = (self.owed - got.0 as i64).min(0);
            if got.is_zero() {
                // Nothing is left that later calls of this gap could release.
                due = due.max(now_ns + PERIOD_NS);
            }
        }
        self.next_ns = Some(due);
        released
    }
}
