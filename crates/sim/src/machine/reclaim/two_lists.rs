//! LRU reclaim as Linux 2.6.16 does it: an active and an inactive list for each zone, which
//! anonymous memory and page cache share (`mm/vmscan.c` of 2.6.16).
//!
//! Pages that processes map stay active until the *swap tendency* reaches 100; from then on they are
//! deactivated like all others. It is distress + mapped share / 2 + `vm.swappiness`, in percent.
//! Distress is 0 at the default scan priority, and grows to 100 as reclaim scans with priority 0.

use super::{CLUSTER, Scan};
use crate::machine::Machine;
use crate::machine::lru::Kind;
use crate::machine::page::{Flags, Use};

/// Whether mapped pages are deactivated (`refill_inactive_zone`): `mapped` of `memory` frames are
/// mapped, and `hardest` is the most intense recent scan priority (the lowest number).
fn reclaims_mapped(mapped: u64, memory: u64, hardest: u32, swappiness: u64) -> bool {
    let distress = 100 >> hardest;
    mapped * 100 / memory.max(1) / 2 + distress + swappiness >= 100
}

impl Machine {
    /// Scans a share of both lists of a zone, at least one page more than the last time, until a
    /// cluster is reclaimed (`shrink_zone`).
    pub(super) fn shrink_zone(&mut self, lists: usize, scan: &mut Scan) {
        let zone = &mut self.lru.vec_mut(lists).zone;
        zone.priority = scan.priority;
        zone.hardest = zone.hardest.min(scan.priority);
        let [mut active, mut inactive] = self.pages_to_scan(lists, scan.priority);
        let enough = scan.reclaimed + CLUSTER;
        while active + inactive > 0 {
            let now = active.min(CLUSTER);
            active -= now;
            if now > 0 {
                self.refill_inactive(lists, now, scan);
            }
            let now = inactive.min(CLUSTER);
            inactive -= now;
            if now > 0 {
                self.shrink_inactive(lists, Kind::InactiveFile, now, scan);
            }
            if scan.reclaimed >= enough {
                break;
            }
        }
    }

    /// Pages of the active and the inactive list to scan: none below a cluster.
    fn pages_to_scan(&mut self, lists: usize, priority: u32) -> [u64; 2] {
        let sizes = [Kind::ActiveFile, Kind::InactiveFile].map(|kind| self.lru.size(lists, kind));
        let unscanned = &mut self.lru.vec_mut(lists).zone.unscanned;
        std::array::from_fn(|at| {
            unscanned[at] += (sizes[at] >> priority) + 1;
            if unscanned[at] < CLUSTER { 0 } else { std::mem::take(&mut unscanned[at]) }
        })
    }

    /// Moves pages from the active list to the inactive one (`refill_inactive_zone`).
    fn refill_inactive(&mut self, lists: usize, count: u64, scan: &mut Scan) {
        let memory = self.scenario.machine.memory.frames();
        // Of mapped files only programs are few, and left out of this count.
        let mapped = self.memory.pages.frames_used_as(Use::Anonymous);
        let hardest = self.lru.vec(lists).zone.hardest;
        let deactivates =
            scan.may_swap && reclaims_mapped(mapped, memory, hardest, self.scenario.vm.swappiness);
        let has_swap = self.may_reclaim_anonymous();
        let batch = self.isolate(lists, Kind::ActiveFile, count, scan.highest);
        self.lru.vec_mut(lists).zone.in_vain += batch.len() as u64;
        for id in batch {
            let page = &mut self.memory.pages[id];
            let anonymous = page.used_as == Use::Anonymous;
            let is_mapped = anonymous || page.flags.has(Flags::EXECUTABLE);
            let stays = is_mapped
                && (!deactivates || (anonymous && !has_swap) || page.flags.take(Flags::YOUNG));
            if !stays {
                page.flags.take(Flags::ACTIVE);
                self.counters.pgdeactivate += 1;
            }
            self.lru.add(&mut self.memory.pages, lists, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distress_mapped_memory_and_swappiness_add_up() {
        // Swappiness 60: at ease, four fifths of memory have to be mapped.
        assert!(!reclaims_mapped(79, 100, 12, 60));
        assert!(reclaims_mapped(80, 100, 12, 60));
        // Priority 1 counts 50, priority 2 counts 25: then 30 percent will do.
        assert!(reclaims_mapped(0, 100, 1, 60));
        assert!(reclaims_mapped(30, 100, 2, 60) && !reclaims_mapped(29, 100, 2, 60));
        assert!(!reclaims_mapped(100, 100, 12, 0));
    }
}
