//! Refault distance: whether a page that comes back would have stayed, had there been a little
//! more memory (`mm/workingset.c`).
//!
//! An evicted page leaves behind when it went, counted in evictions and activations
//! (`nonresident_age`). When it is read again, what came since is how many more pages of memory it
//! would have taken to keep it. If the active list has that many, one of those should make room:
//! the page is activated at once (`workingset_refault`).

use super::Machine;
use super::lru::Kind;
use super::page::{Flags, PageId};

/// Where an evicted page's slot keeps that it is one: bit 31. Bit 30 shows that it had been active;
/// the rest is its age.
pub(super) const EVICTED: u32 = 1 << 31;
const WORKINGSET: u32 = 1 << 30;
const AGE_MASK: u64 = (1 << 30) - 1;

impl Machine {
    /// The shadow entry of an evicted page (`workingset_eviction`); counts the eviction.
    pub(super) fn workingset_eviction(&mut self, lists: usize, id: PageId) -> u32 {
        let page = &self.memory.pages[id];
        let frames = page.frames();
        let active = if page.flags.has(Flags::WORKINGSET) { WORKINGSET } else { 0 };
        let vec = self.lru.vec_mut(lists);
        vec.nonresident_age += frames;
        EVICTED | active | ((vec.nonresident_age & AGE_MASK) as u32)
    }

    /// Decides where a page that comes back goes (`workingset_refault`). To be called before it is
    /// put on a list.
    pub(super) fn workingset_refault(&mut self, lists: usize, id: PageId, shadow: u32, file: bool) {
        if !self.system.settings.policies.workingset {
            return;
        }
        let distance =
            self.lru.vec(lists).nonresident_age.wrapping_sub(u64::from(shadow)) & AGE_MASK;
        let size = |kind| self.lru.size(lists, kind);
        let mut workingset = size(Kind::ActiveFile);
        if !file {
            workingset += size(Kind::InactiveFile);
        }
        if self.swap.available() > 0 {
            workingset += size(Kind::ActiveAnon);
            if file {
                workingset += size(Kind::InactiveAnon);
            }
        }
        let counters = &mut self.counters;
        let (refault, activate, restore) = match file {
            true => (
                &mut counters.workingset_refault_file,
                &mut counters.workingset_activate_file,
                &mut counters.workingset_restore_file,
            ),
            false => (
                &mut counters.workingset_refault_anon,
                &mut counters.workingset_activate_anon,
                &mut counters.workingset_restore_anon,
            ),
        };
        *refault += 1;
        if distance > workingset {
            return;
        }
        *activate += 1;
        let frames = self.memory.pages[id].frames();
        let flags = &mut self.memory.pages[id].flags;
        flags.set(Flags::ACTIVE);
        let vec = self.lru.vec_mut(lists);
        vec.nonresident_age += frames;
        vec.refaults[usize::from(file)] += 1;
        if shadow & WORKINGSET != 0 {
            *restore += 1;
            flags.set(Flags::WORKINGSET);
            // Reading it back is what its eviction has cost.
            self.note_cost(lists, file, frames, 0);
        }
    }

    /// Takes note of what reclaiming one kind of memory has cost (`lru_note_cost`): reads and
    /// writes count as much as scanning 32 pages without success. Old costs decay.
    pub(super) fn note_cost(&mut self, lists: usize, file: bool, io: u64, rotated: u64) {
        let size: u64 = Kind::ALL.into_iter().map(|kind| self.lru.size(lists, kind)).sum();
        let vec = self.lru.vec_mut(lists);
        vec.cost[usize::from(file)] += io * 32 + rotated;
        if vec.cost[0] + vec.cost[1] > size / 4 {
            vec.cost = vec.cost.map(|cost| cost / 2);
        }
    }
}
