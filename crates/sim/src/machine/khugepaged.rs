//! khugepaged: makes huge pages out of small ones, a few regions at a time
//! (`khugepaged_scan_mm_slot`, `collapse_huge_page`).

use prairie_frames::Order;

use super::Machine;
use super::clock::Next;
use super::page::{PageId, Use};
use super::process::Place;
use super::scenario::HugePages;

/// Pages scanned in a round (`pages_to_scan`).
const PAGES: u32 = 4096;
/// Time between rounds (`scan_sleep_millisecs`).
const SLEEP_NS: u64 = 10_000_000_000;
/// After a failure to allocate (`alloc_sleep_millisecs`).
const ALLOC_SLEEP_NS: u64 = 60_000_000_000;
/// Pages of a region that may be missing (`max_ptes_none`).
const MISSING: u32 = 511;

impl Machine {
    /// One round, from where the last one stopped.
    pub(super) fn run_khugepaged(&mut self) -> Next {
        let now = self.clock.now_ns();
        if self.scenario.vm.thp == HugePages::Never || !self.system.settings.policies.khugepaged {
            return Next::Wait;
        }
        let huge = Order::HUGE.frames() as u32;
        let mut seen = 0;
        // A round ends after its pages, or after every process had its turn.
        for _ in 0..self.processes.len().saturating_mul(2) + 1 {
            let (process, region) = self.khugepaged_at;
            let Some(this) = self.processes.get(process as usize) else {
                self.khugepaged_at = (0, 0);
                continue;
            };
            let first = region * huge;
            let advised = self.scenario.vm.thp == HugePages::Always
                || self.scenario.processes.get(this.kind as usize).is_some_and(|k| k.madvise);
            if !this.alive || !advised || first + huge > this.pages() {
                self.khugepaged_at = (process + 1, 0);
                continue;
            }
            self.khugepaged_at = (process, region + 1);
            seen += huge;
            self.spend(self.scenario.costs.scan_ns * u64::from(huge) / 8);
            if self.is_collapsible(process, first) && !self.collapse(process, first) {
                return Next::SleepUntil(now + ALLOC_SLEEP_NS);
            }
            if seen >= PAGES {
                break;
            }
        }
        Next::SleepUntil(now + SLEEP_NS)
    }

    /// Whether a region has small pages and few enough holes. The kernel would fetch up to 64 pages
    /// of it from swap (`max_ptes_swap`); here none may be there.
    fn is_collapsible(&self, process: u32, first: u32) -> bool {
        let mut missing = 0;
        for index in first..first + Order::HUGE.frames() as u32 {
            match self.processes[process as usize].place(index) {
                Place::Nowhere => missing += 1,
                Place::Swap(_) => return false,
                Place::Memory(id) if self.memory.pages[id].frames() > 1 => return false,
                Place::Memory(_) => {}
            }
        }
        missing <= MISSING
    }

    /// Copies a region's pages into a huge one; false if none is available.
    fn collapse(&mut self, process: u32, first: u32) -> bool {
        let Some(id) = self.allocate(&self.request_to_collapse()) else {
            self.counters.thp_collapse_alloc_failed += 1;
            return false;
        };
        self.counters.thp_collapse_alloc += 1;
        // Reclaim on the way may have taken pages of the region to swap.
        if !self.is_collapsible(process, first) {
            self.memory.pages.set_use(id, Use::Kernel, 0, 0);
            self.free(id);
            return true;
        }
        for index in first..first + Order::HUGE.frames() as u32 {
            if let Place::Memory(small) = self.processes[process as usize].place(index) {
                self.spend(self.scenario.costs.copy_frame_ns);
                self.processes[process as usize].forget(index);
                self.drop_user_page(small);
            }
        }
        self.own(process, first, id);
        true
    }

    fn drop_user_page(&mut self, id: PageId) {
        self.lru.remove(&mut self.memory.pages, id);
        self.free(id);
    }
}
