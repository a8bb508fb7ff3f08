//! The placement's counters, for reports.

use alloc::vec::Vec;

use crate::placement::Counter;
use crate::placement::reached::Reached;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) reached: Reached,
    pub(super) batches: u64,
    pub(super) batched_frames: u64,
    pub(super) batch_runs: u64,
    pub(super) nofree_frames: u64,
    pub(super) reserved: u64,
    pub(super) reservations_filled: u64,
    pub(super) reservations_broken: u64,
    pub(super) reservations_freed: u64,
    pub(super) superpages_opened: u64,
    pub(super) compactd_runs: u64,
    pub(super) pages_moved: u64,
}

impl Counts {
    pub(super) fn list(&self) -> Vec<Counter> {
        let counter = |name, meaning, value| Counter { name, meaning, value };
        let mut all = self.reached.counters().to_vec();
        all.extend([
            counter("batches", "requests for many single frames at once", self.batches),
            counter("batched_frames", "frames that they were given", self.batched_frames),
            counter("batch_runs", "contiguous runs that those frames came in", self.batch_runs),
            counter("nofree_frames", "frames handed out never to be freed", self.nofree_frames),
            counter("reserved", "superpages set aside for an object", self.reserved),
            counter(
                "reservations_filled",
                "times that a reservation had all of its pages in use: a superpage",
                self.reservations_filled,
            ),
            counter(
                "reservations_broken",
                "reservations whose free pages were given to others, oldest first",
                self.reservations_broken,
            ),
            counter(
                "reservations_freed",
                "reservations given back whole, with their last page",
                self.reservations_freed,
            ),
            counter(
                "superpages_opened",
                "full reservations that a page left while its neighbors stayed",
                self.superpages_opened,
            ),
            counter("compactd_runs", "times that compactd compacted a domain", self.compactd_runs),
            counter("pages_moved", "pages that compaction moved", self.pages_moved),
        ]);
        all
    }
}
