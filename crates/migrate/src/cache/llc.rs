//! The last-level cache and its directory.

use prairie_hostmem::{Array, prefetch};

use super::Cache;
use crate::address::Line;
use crate::geometry::Geometry;
use crate::lru::{Evicted, MAX_WAYS, Place, Slot};
use crate::params::Params;

/// Data of the last-level cache: as in memory.
const CLEAN: u32 = 1;
/// Data of the last-level cache: newer than memory.
const DIRTY: u32 = 2;
/// Directory: several cores may hold the line, all clean.
const SHARERS: u32 = 1;
/// Directory: one core holds it, and may have changed it.
const OWNER: u32 = 2;

/// The last-level cache and the directory, in slices. A line's slice is a hash of its number.
///
/// Data and directory are apart: a line that a core fetches from memory is tracked in the directory
/// and not kept in the data array, which lines enter when the last core gives them up (the
/// non-inclusive cache with inclusive directory of Skylake-SP).
#[derive(Clone, Debug)]
pub struct Llc<G: Geometry> {
    slices: u64,
    data: Cache<G::Llc>,
    directory: Cache<G::Directory>,
    /// Whether an owner is named by its entry's note, which has to have room for it.
    notes_owner: bool,
    /// Cores that hold the line of a slot of the directory, a bit each, in `halves` words of 32.
    /// Of a slot that tracks nothing they are stale, and of one whose note names its owner.
    sharers: Array<u32>,
    halves: usize,
}

/// A line that a slice evicted from its data, and whether it must be written to memory.
pub type Dropped = Option<(Line, bool)>;

/// Where a line belongs in the last-level cache and the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InLlc {
    /// Its slice.
    pub slice: usize,
    directory: Place,
    data: Place,
}

/// A slot of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracked(Slot);

/// The largest number of cores of a directory.
pub const MAX_CORES: usize = 256;

/// A set of cores, in order when iterated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreSet([u64; MAX_CORES / 64]);

impl CoreSet {
    /// The first of them.
    pub fn first(mut self) -> Option<usize> {
        self.next()
    }
}

impl Iterator for CoreSet {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let at = self.0.iter().position(|bits| *bits != 0)?;
        let bit = self.0[at].trailing_zeros() as usize;
        self.0[at] &= self.0[at] - 1;
        Some(at * 64 + bit)
    }
}

impl<G: Geometry> Llc<G> {
    /// An empty cache.
    pub fn new(params: &Params) -> Llc<G> {
        let (slices, ways) = (params.llc.slices as usize, params.llc.ways);
        let sets = (params.llc.kib_per_slice * 16 / ways) as usize;
        let d = &params.directory;
        let directory: Cache<G::Directory> =
            Cache::new(slices, d.sets_per_slice as usize, d.ways as usize);
        let halves = params.cores.count.div_ceil(32) as usize;
        Llc {
            slices: params.llc.slices,
            data: Cache::new(slices, sets, ways as usize),
            notes_owner: directory.sets.notes() >= params.cores.count as usize,
            sharers: Array::zeroed(directory.sets.slots() * halves),
            directory,
            halves,
        }
    }

    /// The slice of a line.
    #[inline(always)]
    pub fn slice(&self, line: Line) -> usize {
        let mixed = line.0.wrapping_mul(0x9E37_79B1);
        ((u64::from(mixed ^ mixed >> 15) * self.slices) >> 32) as usize
    }

    /// Where a line belongs.
    #[inline(always)]
    pub fn place(&self, line: Line) -> InLlc {
        let slice = self.slice(line);
        let (directory, data) = (self.directory.place(slice, line), self.data.place(slice, line));
        InLlc { slice, directory, data }
    }

    /// Prefetches the data that a request for a line reads.
    #[inline(always)]
    pub fn prefetch(&self, at: InLlc) {
        self.directory.sets.prefetch(at.directory.set);
        self.data.sets.prefetch(at.data.set);
        // Sharers of sixteen ways: a line for each half word. Of more than 64 cores it is not all.
        let sharers = at.directory.set * MAX_WAYS * self.halves;
        prefetch(&self.sharers, sharers);
        if self.halves > 1 {
            prefetch(&self.sharers, sharers + MAX_WAYS);
        }
    }

    /// Whether the data of a line is here, which counts as a use.
    #[inline(always)]
    pub fn has(&mut self, at: InLlc) -> bool {
        self.data.sets.touch(at.data).is_some()
    }

    /// Keeps the data of a line.
    #[inline(always)]
    pub fn keep(&mut self, at: InLlc, dirty: bool) -> Dropped {
        match self.data.sets.touch(at.data) {
            Some(slot) if dirty => self.data.sets.set_state(slot, DIRTY),
            Some(_) => {}
            None => {
                let state = if dirty { DIRTY } else { CLEAN };
                let (_, evicted) = self.data.insert(at.data, state, 0);
                return evicted.map(|(line, evicted)| (line, evicted.state == DIRTY));
            }
        }
        None
    }

    /// Drops the data of a line that its requester now has. Returns whether it was here.
    #[inline(always)]
    pub fn take(&mut self, at: InLlc) -> bool {
        let Some(slot) = self.data.sets.find(at.data) else { return false };
        self.data.sets.remove(slot);
        true
    }

    /// The directory's record of a line, if cores hold it.
    #[inline(always)]
    pub fn tracked(&mut self, at: InLlc) -> Option<Tracked> {
        self.directory.sets.touch(at.directory).map(Tracked)
    }

    /// `core` gives a line up. Returns whether it was the last to hold it.
    ///
    /// # Panics
    /// If no core holds it.
    #[inline(always)]
    pub fn give_up(&mut self, at: InLlc, core: usize) -> bool {
        let slot = self.directory.sets.find(at.directory);
        let slot = slot.expect("the directory tracks every line that cores hold");
        // Of an owned line its owner is who gives it up: no need to read who holds it.
        let last = self.is_owned(Tracked(slot)) || {
            let sharers = &mut self.sharers[slot.index() * self.halves..][..self.halves];
            sharers[core / 32] &= !(1 << (core % 32));
            sharers.iter().all(|half| *half == 0)
        };
        match last {
            true => self.directory.sets.remove(slot),
            false => self.directory.sets.use_slot(slot),
        }
        last
    }

    /// Begins to track a line, as owned by `core`. Returns a line that had to go, and its holders.
    #[inline(always)]
    pub fn track(&mut self, at: InLlc, core: usize) -> Option<(Line, CoreSet)> {
        let note = if self.notes_owner { core as u32 } else { 0 };
        let (slot, evicted) = self.directory.insert(at.directory, OWNER, note);
        let dropped = match evicted {
            Some((line, Evicted { state, note, .. })) => {
                let owner = (state == OWNER).then_some(note as usize);
                Some((line, self.named(slot, owner)))
            }
            None => None,
        };
        if !self.notes_owner {
            self.name_alone(slot, core);
        }
        dropped
    }

    #[inline]
    fn name_owner(&mut self, slot: Slot, core: usize) {
        if self.notes_owner {
            self.directory.sets.set_note(slot, core as u32);
        } else {
            self.name_alone(slot, core);
        }
    }

    #[inline]
    fn name_alone(&mut self, slot: Slot, core: usize) {
        let sharers = &mut self.sharers[slot.index() * self.halves..][..self.halves];
        for (at, half) in sharers.iter_mut().enumerate() {
            *half = if at == core / 32 { 1 << (core % 32) } else { 0 };
        }
    }

    /// Whether one core alone holds the line, and may have changed it.
    #[inline]
    pub fn is_owned(&self, at: Tracked) -> bool {
        self.directory.sets.state(at.0) == OWNER
    }

    /// The cores that hold a line.
    #[inline]
    pub fn holders(&self, at: Tracked) -> CoreSet {
        let owner = self.is_owned(at).then(|| self.directory.sets.note(at.0) as usize);
        self.named(at.0, owner)
    }

    /// The cores that an entry names, in the note that it had as `owner` or as sharers.
    #[inline]
    fn named(&self, slot: Slot, owner: Option<usize>) -> CoreSet {
        let mut set = CoreSet::default();
        match owner {
            Some(owner) if self.notes_owner => set.0[owner / 64] = 1 << (owner % 64),
            _ => {
                let sharers = &self.sharers[slot.index() * self.halves..][..self.halves];
                for (number, half) in sharers.iter().enumerate() {
                    set.0[number / 2] |= u64::from(*half) << (32 * (number % 2));
                }
            }
        }
        set
    }

    /// One more core holds the line; all hold it clean.
    #[inline]
    pub fn share(&mut self, at: Tracked, core: usize) {
        if self.notes_owner && self.is_owned(at) {
            let owner = self.directory.sets.note(at.0) as usize;
            self.name_alone(at.0, owner);
        }
        self.directory.sets.set_state(at.0, SHARERS);
        self.sharers[at.0.index() * self.halves + core / 32] |= 1 << (core % 32);
    }

    /// `core` alone holds the line.
    pub fn own(&mut self, at: Tracked, core: usize) {
        self.directory.sets.set_state(at.0, OWNER);
        self.name_owner(at.0, core);
    }

    /// No core holds the line any more.
    #[inline]
    pub fn untrack(&mut self, at: Tracked) {
        self.directory.sets.remove(at.0);
    }

    /// All tracked lines: where, which, and whether owned.
    pub fn all_tracked(&self) -> impl Iterator<Item = (Tracked, Line, bool)> + '_ {
        self.directory.iter().map(|(slot, line, state)| (Tracked(slot), line, state == OWNER))
    }

    /// Whether the data of a line is here; no use.
    pub fn holds(&self, line: Line) -> bool {
        self.data.sets.find(self.place(line).data).is_some()
    }

    /// Whether any core holds a line; no use.
    #[inline]
    pub fn is_tracked(&self, line: Line) -> bool {
        self.directory.sets.find(self.place(line).directory).is_some()
    }

    /// Checks both arrays.
    pub fn validate(&self) {
        self.data.sets.validate();
        self.directory.sets.validate();
    }

    /// Bytes of host memory.
    pub fn bytes(&self) -> usize {
        self.data.sets.bytes() + self.directory.sets.bytes() + self.sharers.len() * 4
    }
}
