//! Reclaim on the classic lists: what `memory.reclaim` does, and a limit that is hit.
//!
//! Scanning goes from the tails, in rounds of rising priority, until enough was freed
//! (`shrink_lruvec`). A page that was used since it was last scanned stays, and goes to the
//! active list when it is seen used a second time; before 5.9 anonymous ones went there at once
//! (`folio_check_references`). The mark of the first time stays, so a page that was active becomes
//! so again when it is seen used once. Active pages are moved down without regard to use
//! (`shrink_active_list`), and carry from then on the mark by which the kernel knows a returning
//! page for one that was in use. A page for a swap device is written first, and leaves memory when it
//! is scanned again.

use super::container::{Container, Page, Place, kind};
use super::kernel::Balance;
use prairie_sim::machine::lru::Kind;
use prairie_sim::machine::reclaim::balance::{Facts, inactive_is_low, scan_counts};

/// The first priority: a 4096th of each list is scanned.
const DEF_PRIORITY: u32 = 12;

/// Pages that are handled in one go (`SWAP_CLUSTER_MAX`).
const CLUSTER: u64 = 32;

impl Container {
    /// Takes `bytes` or more if it can; returns the bytes taken. `file_only` leaves anonymous
    /// memory alone (`swappiness=0`).
    pub fn reclaim(&mut self, bytes: u64, file_only: bool) -> u64 {
        let parts = if self.made.kernel.reclaims_quarters { 4 } else { 1 };
        self.reclaim_in(bytes, parts, file_only)
    }

    /// Goes for 1 / `parts` of what is missing at a time, and for 32 pages at least, so that a
    /// request of a few pages takes more (`try_to_free_mem_cgroup_pages`).
    fn reclaim_in(&mut self, bytes: u64, parts: u64, file_only: bool) -> u64 {
        let before = self.taken_pages();
        let wanted = before + bytes / 4096;
        let scanned = self.counters.scanned;
        while self.taken_pages() < wanted {
            let taken = self.taken_pages();
            let batch = ((wanted - taken) / parts).max(CLUSTER);
            match self.made.kernel.balance {
                Balance::Generations => self.evict_generations(batch, file_only),
                Balance::Refaults | Balance::Rotated => self.shrink(batch, file_only),
            }
            if self.taken_pages() == taken {
                break;
            }
        }
        let taken = self.taken_pages() - before;
        // A page scanned without success costs a hundredth of one that is reclaimed and compressed.
        let looked = (self.counters.scanned - scanned) as f64 * 0.01;
        self.counters.reclaim_us += (taken as f64 + looked) * self.made.kernel.reclaim_page_s * 1e6;
        taken * 4096
    }

    /// Takes what is above `limit_bytes`, while a task of the container waits (`memory.high`).
    pub fn hold_below(&mut self, limit_bytes: u64) {
        let over = self.current_bytes().saturating_sub(limit_bytes);
        if over >= self.real_pages() * 4096 {
            let before_us = self.counters.reclaim_us;
            self.reclaim_in(over, 1, false);
            self.stall((self.counters.reclaim_us - before_us) * 1e-6);
        }
    }

    pub(super) fn taken_pages(&self) -> u64 {
        self.counters.taken[0] + self.counters.taken[1]
    }

    fn shrink(&mut self, wanted: u64, file_only: bool) {
        let before = self.taken_pages();
        for priority in (0..=DEF_PRIORITY).rev() {
            self.end_writing();
            let mut counts = self.counts(priority, file_only);
            // A round does not count what earlier ones have taken (`shrink_lruvec`).
            let begun = self.taken_pages();
            while counts.iter().any(|count| *count > 0) && self.taken_pages() - begun < wanted {
                for list in Kind::ALL {
                    let count = counts[list as usize].min(CLUSTER);
                    counts[list as usize] -= count;
                    self.shrink_list(list, count.div_ceil(self.real_pages()));
                }
            }
            if self.taken_pages() - before >= wanted {
                break;
            }
        }
        // What comes back until the next time says that this kind is in use (`snapshot_refaults`).
        self.activated = [false; 2];
    }

    /// Real pages on each list.
    fn sizes(&self) -> [u64; 4] {
        Kind::ALL.map(|list| self.lists.size(list as u8) * self.real_pages())
    }

    /// Real pages to scan on each list.
    fn counts(&self, priority: u32, file_only: bool) -> [u64; 4] {
        let sizes = self.sizes();
        let facts = Facts {
            sizes,
            priority,
            may_swap: !file_only && self.has_room(),
            swappiness: self.made.kernel.swappiness,
            cost: self.cost,
            file_is_tiny: false,
            deactivates_file: self.activated[1] || inactive_is_low(sizes[2], sizes[3]),
        };
        match self.made.kernel.balance {
            Balance::Rotated => counts_by_rotation(&facts, self.rotated),
            _ => scan_counts(&facts),
        }
    }

    /// Whether there is a place for anonymous memory.
    pub(super) fn has_room(&self) -> bool {
        let room = self.observe().room;
        room.swap_bytes > 0 && room.swap_free_bytes >= self.real_pages() * 4096
    }

    fn shrink_list(&mut self, list: Kind, count: u64) {
        match list.is_active() {
            true => self.shrink_active(list, count),
            false => self.shrink_inactive(list, count),
        }
    }

    fn shrink_active(&mut self, list: Kind, count: u64) {
        let (sizes, file) = (self.sizes(), list.is_file());
        let [inactive, active] = [kind(file, false), kind(file, true)].map(|l| sizes[l as usize]);
        if !inactive_is_low(inactive, active) && !self.activated[usize::from(file)] {
            return;
        }
        for _ in 0..count {
            let Some(number) = self.lists.oldest(list as u8) else { return };
            self.deactivate(number);
        }
    }

    fn shrink_inactive(&mut self, list: Kind, count: u64) {
        let (scanned, taken) = (self.counters.scanned, self.taken_pages());
        for _ in 0..count {
            let Some(number) = self.lists.oldest(list as u8) else { break };
            self.look_at(number, list.is_file());
        }
        let stay = (self.counters.scanned - scanned) - (self.taken_pages() - taken);
        self.note_cost(list.is_file(), stay * self.made.kernel.rotation_cost);
    }

    /// Looks at the last page of an inactive list.
    fn look_at(&mut self, number: u32, file: bool) {
        let real = self.real_pages();
        self.counters.scanned += real;
        self.rotated[usize::from(file)][0] += real;
        let used = self.take_accessed(number);
        let at_once = !file && self.made.kernel.balance == Balance::Rotated;
        let page = &mut self.pages[number as usize];
        let activates = used && (page.referenced || at_once);
        page.referenced = used && !at_once;
        let is_copied = page.copy.is_some();
        if used {
            self.forget_written(number);
            self.lists.remove(number);
            self.put_on_list(number, activates);
            self.rotated[usize::from(file)][1] += real;
            if activates {
                self.age += real;
            }
        } else {
            match self.place_for(number) {
                Some(Place::Device) if !is_copied => self.write(number),
                Some(place) => self.evict(number, place),
                None => self.rotate(number),
            }
        }
        self.forget_old_scans();
    }

    fn rotate(&mut self, number: u32) {
        self.lists.remove(number);
        self.put_on_list(number, false);
    }

    /// Begins to write a page to the device, during which it stays (`pageout`).
    fn write(&mut self, number: u32) {
        let real = self.real_pages();
        self.pages[number as usize].copy = Some(Place::Device);
        self.copies[1] += 1;
        self.counters.device[1] += real;
        self.note_cost(false, real * self.made.kernel.io_cost);
        self.rotate(number);
        self.writing.push(number);
    }

    /// A page that was used since it was written has to be written again.
    fn forget_written(&mut self, number: u32) {
        let page = &mut self.pages[number as usize];
        if !self.made.kernel.keeps_copies && page.copy.take().is_some() {
            self.copies[1] -= 1;
        }
    }

    /// What was written is to leave memory next (`folio_rotate_reclaimable`). A round of scanning
    /// is taken to last as long as a write.
    fn end_writing(&mut self) {
        for number in std::mem::take(&mut self.writing) {
            if self.lists.on(number) == Some(Kind::InactiveAnon as u8) {
                self.lists.make_oldest(number);
            }
        }
    }

    /// Old scans fade, once they are a quarter of the list (`recent_scanned`).
    fn forget_old_scans(&mut self) {
        let [anon, file] = self.resident_bytes().map(|bytes| bytes / 4096);
        for (counts, size) in self.rotated.iter_mut().zip([anon, file]) {
            if counts[0] > size / 4 {
                *counts = counts.map(|count| count / 2);
            }
        }
    }

    fn deactivate(&mut self, number: u32) {
        self.counters.scanned += self.real_pages();
        self.take_accessed(number);
        self.pages[number as usize].workingset = true;
        self.lists.remove(number);
        self.put_on_list(number, false);
    }

    /// Where a page would go; `None` if it has to stay.
    pub(super) fn place_for(&self, number: u32) -> Option<Place> {
        use super::backend::Backend;
        if self.pages[number as usize].file {
            return Some(Place::File);
        }
        if !self.has_room() {
            return None;
        }
        match self.made.backend {
            Backend::None => None,
            Backend::Zswap(_) | Backend::Hierarchy(..) => Some(Place::Zswap),
            Backend::Device(_) => Some(Place::Device),
        }
    }

    /// Takes a page away, and notes when (`workingset_eviction`).
    pub(super) fn evict(&mut self, number: u32, place: Place) {
        let real = self.real_pages();
        self.age += real;
        self.pages[number as usize].shadow = self.age;
        let writes = place != Place::File && self.pages[number as usize].copy.is_none();
        self.put_away(number, place);
        if writes {
            self.note_cost(false, real * self.made.kernel.io_cost);
        }
    }

    /// A page comes back (`workingset_refault`): puts it on its list, and says whether it had been
    /// in use and would have stayed, had there been as much more memory as is in use.
    pub(super) fn refaulted(&mut self, number: u32) -> bool {
        let Page { file, shadow, workingset, .. } = self.pages[number as usize];
        let real = self.real_pages();
        self.counters.refaults[usize::from(file)] += real;
        if self.made.kernel.balance == Balance::Generations {
            self.put_on_list(number, workingset);
            return self.generations.refaulted(file, workingset);
        }
        let distance = self.age - shadow;
        let [inactive_anon, active_anon, inactive_file, active_file] = self.sizes();
        let in_use = match file {
            true => active_file + active_anon + inactive_anon,
            false => active_file + inactive_file + active_anon,
        };
        let activates = distance <= in_use;
        if activates {
            self.age += real;
            // Before 5.9 the kernel did not notice refaults of anonymous memory.
            self.activated[usize::from(file)] |=
                file || self.made.kernel.balance != Balance::Rotated;
        }
        self.put_on_list(number, activates);
        let restored = activates && workingset;
        if restored {
            self.note_cost(file, real * self.made.kernel.io_cost);
        }
        self.pages[number as usize].workingset = restored;
        restored
    }

    /// What reclaim of one kind has cost (`lru_note_cost`); old costs fade.
    fn note_cost(&mut self, file: bool, cost: u64) {
        self.cost[usize::from(file)] += cost;
        let size: u64 = self.sizes().iter().sum();
        if self.cost[0] + self.cost[1] > size / 4 {
            self.cost = self.cost.map(|cost| cost / 2);
        }
    }
}

/// Before 5.9: a kind is scanned more if fewer of its scanned pages had to be rotated. By this
/// measure, cache that is dropped and read again at once costs nothing, and memory in use, which is
/// rotated, costs much. `rotated` counts scanned and rotated pages: anonymous, file.
fn counts_by_rotation(facts: &Facts, rotated: [[u64; 2]; 2]) -> [u64; 4] {
    let by_size = facts.sizes.map(|size| size >> facts.priority);
    let trims_cache = by_size[Kind::InactiveFile as usize] > 0 && !facts.deactivates_file;
    let weight = |kind: usize, priority: u64| {
        let [scanned, put_back] = rotated[kind];
        priority * (scanned + 1) / (put_back + 1)
    };
    let (anon, file) = match !facts.may_swap || trims_cache {
        true => (0, 1),
        false => (weight(0, facts.swappiness), weight(1, 200 - facts.swappiness)),
    };
    Kind::ALL.map(|list| {
        let share = if list.is_file() { file } else { anon };
        by_size[list as usize] * share / (anon + file).max(1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Rhythm;
    use crate::backend::{Backend, Ssd};
    use crate::container::ContainerParts;
    use crate::kernel::Kernel;

    /// A container of one page.
    fn one(rhythm: Rhythm, file: bool, backend: Backend) -> Container {
        let made = ContainerParts {
            pages: vec![(rhythm, file)],
            real_pages: 1,
            compression: 1.0,
            busy_tasks: 1,
            backend,
            disk: Ssd::fast(),
            swap_bytes: 1 << 20,
            kernel: Kernel::LINUX_6_12,
        };
        Container::new(made, 1)
    }

    /// A page becomes active when it is seen used a second time. The mark of the first time stays, so
    /// after it was moved down it becomes active when it is seen used once.
    #[test]
    fn a_page_that_was_active_is_so_again_when_it_is_used_once() {
        let mut container = one(Rhythm::regular(1.0), true, Backend::None);
        let mut look = |at_s: f64| {
            container.advance(at_s);
            match container.lists.on(0) == Some(Kind::ActiveFile as u8) {
                true => container.deactivate(0),
                false => container.look_at(0, true),
            }
            container.lists.on(0) == Some(Kind::ActiveFile as u8)
        };
        assert_eq!([10.0, 20.0, 30.0, 40.0].map(&mut look), [false, true, false, true]);
    }

    /// The first look writes a page to the device, the next one takes it. If it was used in between,
    /// it stays, and has to be written again.
    #[test]
    fn a_page_for_a_device_is_written_before_it_leaves() {
        let rhythm = Rhythm::regular(1_000.0);
        let used_s = rhythm.next_after(0, 0.0);
        // Only pages in memory are scanned, so the last scan is the one that takes it.
        let looks = |rhythm: Rhythm, later_s: &[f64]| {
            let mut container = one(rhythm, false, Backend::Device(Ssd::fast()));
            container.clear_accessed();
            let look = |later_s: &f64| {
                container.advance(used_s + later_s);
                container.look_at(0, false);
                (container.counters().device[1], container.counters().taken[0])
            };
            later_s.iter().map(look).collect::<Vec<_>>()
        };
        assert_eq!(looks(Rhythm::NEVER, &[-1.0, 1.0]), [(1, 0), (1, 1)]);
        assert_eq!(looks(rhythm, &[-1.0, 1.0, 2.0, 3.0]), [(1, 0), (1, 0), (2, 0), (2, 1)]);
    }
}
