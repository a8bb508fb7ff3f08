//! Caches: the private L1 and L2 of each core, and the sliced last-level cache with its directory.
//!
//! They know lines and states, not time. Names of states are those of the MESI protocol.
//!
//! The L1 is a filter in front of the L2: it holds a subset of its lines, and whether a line may be
//! written without asking. (Intel's L2 does not enforce that subset; with 32 times the size the
//! difference is small.) The L2 therefore always knows the true state, and evicting from the L1
//! costs nothing.

use crate::address::Line;
use crate::lru::{Evicted, Sets};
use crate::params::Params;
use hostmem::{Array, prefetch};

/// Held by this and perhaps other cores, clean.
pub const SHARED: u32 = 1;
/// Held by this core alone, clean.
pub const EXCLUSIVE: u32 = 2;
/// Held by this core alone, changed.
pub const MODIFIED: u32 = 3;

/// Sets indexed by the low bits of the line, in one or several slices.
#[derive(Clone, Debug)]
pub struct Cache {
    sets: Sets,
    bits: u32,
    /// Sets of a slice, less one.
    mask: u32,
}

impl Cache {
    /// `slices` slices, each of a power of two of sets.
    pub fn new(slices: usize, sets: usize, ways: usize) -> Cache {
        assert!(sets.is_power_of_two() && sets >= 4);
        let (bits, mask) = (sets.trailing_zeros(), sets as u32 - 1);
        Cache { sets: Sets::new(slices * sets, ways), bits, mask }
    }

    #[inline]
    fn place(&self, slice: usize, line: Line) -> (usize, u32) {
        ((slice << self.bits) + (line.0 & self.mask) as usize, line.0 >> self.bits)
    }

    #[inline]
    fn line(&self, set: usize, key: u32) -> Line {
        Line(key << self.bits | set as u32 & self.mask)
    }

    #[inline(always)]
    fn touch(&mut self, slice: usize, line: Line) -> Option<usize> {
        let (set, key) = self.place(slice, line);
        self.sets.touch(set, key)
    }

    #[inline(always)]
    fn find(&self, slice: usize, line: Line) -> Option<usize> {
        let (set, key) = self.place(slice, line);
        self.sets.find(set, key)
    }

    #[inline(always)]
    fn insert(&mut self, slice: usize, line: Line, state: u32) -> (usize, Option<(Line, u32)>) {
        let (set, key) = self.place(slice, line);
        let (slot, evicted) = self.sets.insert(set, key, state);
        (slot, evicted.map(|Evicted { key, state }| (self.line(set, key), state)))
    }

    /// See [`Sets::prefetch`].
    #[inline]
    fn prefetch(&self, slice: usize, line: Line) {
        self.sets.prefetch(self.place(slice, line).0);
    }

    fn iter(&self) -> impl Iterator<Item = (usize, Line, u32)> + '_ {
        self.sets.iter().map(|(set, slot, key, state)| (slot, self.line(set, key), state))
    }
}

/// Where a private access ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Served by the L1.
    L1,
    /// Served by the L2; the L1 has it now.
    L2,
    /// A store to a line that others may share: the directory has to be asked.
    Upgrade,
    /// In neither.
    Nowhere,
}

/// The private caches of all cores.
#[derive(Clone, Debug)]
pub struct Private {
    l1: Cache,
    l2: Cache,
}

impl Private {
    /// Empty caches.
    pub fn new(params: &Params) -> Private {
        let cores = params.cores.count as usize;
        let cache =
            |kib: u64, ways: u64| Cache::new(cores, (kib * 16 / ways) as usize, ways as usize);
        Private {
            l1: cache(params.l1.kib, params.l1.ways),
            l2: cache(params.l2.kib, params.l2.ways),
        }
    }

    /// A load or store of a core.
    #[inline]
    pub fn access(&mut self, core: usize, line: Line, write: bool) -> Found {
        match self.l1.touch(core, line) {
            Some(slot) if !write || self.l1.sets.state(slot) == MODIFIED => Found::L1,
            l1_slot => self.access_l2(core, line, write, l1_slot),
        }
    }

    fn access_l2(&mut self, core: usize, line: Line, write: bool, l1_slot: Option<usize>) -> Found {
        let Some(slot) = self.l2.touch(core, line) else { return Found::Nowhere };
        if write {
            if self.l2.sets.state(slot) == SHARED {
                return Found::Upgrade;
            }
            self.l2.sets.set_state(slot, MODIFIED);
        }
        // The L1 knows only whether a store has to ask.
        let state = if self.l2.sets.state(slot) == MODIFIED { MODIFIED } else { SHARED };
        match l1_slot {
            Some(l1_slot) => {
                self.l1.sets.set_state(l1_slot, state);
                Found::L1
            }
            None => {
                self.l1.insert(core, line, state);
                Found::L2
            }
        }
    }

    /// A core takes a line that the directory granted in `state`. Returns the line that had to go
    /// and whether it was changed.
    #[inline]
    pub fn fill(&mut self, core: usize, line: Line, state: u32) -> Option<(Line, bool)> {
        let (_, evicted) = self.l2.insert(core, line, state);
        let evicted = evicted.map(|(line, state)| {
            self.drop_l1(core, line);
            (line, state == MODIFIED)
        });
        self.l1.insert(core, line, if state == MODIFIED { MODIFIED } else { SHARED });
        evicted
    }

    /// The directory grants a core ownership of a line that it holds shared.
    pub fn upgrade(&mut self, core: usize, line: Line) {
        let slot = self.l2.find(core, line).expect("an upgrade is of a line that is held");
        self.l2.sets.set_state(slot, MODIFIED);
        match self.l1.touch(core, line) {
            Some(slot) => self.l1.sets.set_state(slot, MODIFIED),
            None => drop(self.l1.insert(core, line, MODIFIED)),
        }
    }

    /// A core gives up a line. Returns whether it was changed.
    pub fn invalidate(&mut self, core: usize, line: Line) -> bool {
        let Some(slot) = self.l2.find(core, line) else { return false };
        let modified = self.l2.sets.state(slot) == MODIFIED;
        self.l2.sets.remove(slot);
        self.drop_l1(core, line);
        modified
    }

    /// A core keeps a line, clean and shared. Returns whether it was changed.
    pub fn downgrade(&mut self, core: usize, line: Line) -> bool {
        let Some(slot) = self.l2.find(core, line) else { return false };
        let modified = self.l2.sets.state(slot) == MODIFIED;
        self.l2.sets.set_state(slot, SHARED);
        if let Some(slot) = self.l1.find(core, line) {
            self.l1.sets.set_state(slot, SHARED);
        }
        modified
    }

    /// The state of a line in a core's caches; `None` if it is not held.
    pub fn state(&self, core: usize, line: Line) -> Option<u32> {
        self.l2.find(core, line).map(|slot| self.l2.sets.state(slot))
    }

    /// Whether a core's L1 holds a line; no use.
    #[inline]
    pub fn is_in_l1(&self, core: usize, line: Line) -> bool {
        self.l1.find(core, line).is_some()
    }

    /// Has what an access that the L1 misses looks at brought into the host's cache.
    #[inline]
    pub fn prefetch_l2(&self, core: usize, line: Line) {
        self.l2.prefetch(core, line);
    }

    /// The line that would be put out if `line` were fetched.
    #[inline]
    pub fn next_out(&self, core: usize, line: Line) -> Option<Line> {
        let (set, _) = self.l2.place(core, line);
        self.l2.sets.next_out(set).map(|key| self.l2.line(set, key))
    }

    #[inline]
    fn drop_l1(&mut self, core: usize, line: Line) {
        if let Some(slot) = self.l1.find(core, line) {
            self.l1.sets.remove(slot);
        }
    }

    /// How many lines all cores hold.
    pub fn lines(&self) -> usize {
        self.l2.iter().count()
    }

    /// Checks that each L1 holds a subset of its L2 and may write only what is modified.
    pub fn validate(&self) {
        self.l1.sets.validate();
        self.l2.sets.validate();
        for (set, key, state) in self.l1.sets.iter().map(|(set, _, key, state)| (set, key, state)) {
            let (core, line) = (set >> self.l1.bits, self.l1.line(set, key));
            let l2 = self.state(core, line);
            let l2 = l2.unwrap_or_else(|| panic!("{line:?} is in the L1 of core {core} alone"));
            assert_eq!(state == MODIFIED, l2 == MODIFIED, "{line:?} is {state} in L1, {l2} in L2");
        }
    }

    /// Bytes of host memory.
    pub fn bytes(&self) -> usize {
        self.l1.sets.bytes() + self.l2.sets.bytes()
    }
}

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
pub struct Llc {
    slices: u64,
    data: Cache,
    directory: Cache,
    /// Cores that hold the line of a slot of the directory, a bit each, in `halves` words of 32.
    /// Of a slot that tracks nothing they are stale.
    sharers: Array<u32>,
    halves: usize,
}

/// A line that a slice had to drop from its data, and whether memory has to be written.
pub type Dropped = Option<(Line, bool)>;

/// A slot of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracked(usize);

/// The most cores that a directory can tell apart.
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

impl Llc {
    /// An empty cache.
    pub fn new(params: &Params) -> Llc {
        let (slices, ways) = (params.llc.slices as usize, params.llc.ways);
        let sets = (params.llc.kib_per_slice * 16 / ways) as usize;
        let d = &params.directory;
        let directory = Cache::new(slices, d.sets_per_slice as usize, d.ways as usize);
        let halves = params.cores.count.div_ceil(32) as usize;
        Llc {
            slices: params.llc.slices,
            data: Cache::new(slices, sets, ways as usize),
            sharers: Array::zeroed(directory.sets.slots() * halves),
            directory,
            halves,
        }
    }

    /// The slice of a line.
    #[inline]
    pub fn slice(&self, line: Line) -> usize {
        let mixed = line.0.wrapping_mul(0x9E37_79B1);
        ((u64::from(mixed ^ mixed >> 15) * self.slices) >> 32) as usize
    }

    /// Has what a request for a line looks at brought into the host's cache.
    #[inline]
    pub fn prefetch(&self, line: Line) {
        let slice = self.slice(line);
        self.directory.prefetch(slice, line);
        self.data.prefetch(slice, line);
        let first = self.directory.sets.first_slot(self.directory.place(slice, line).0);
        prefetch(&self.sharers, first * self.halves);
    }

    /// Whether the data of a line is here, which counts as a use.
    #[inline]
    pub fn has(&mut self, line: Line) -> bool {
        self.data.touch(self.slice(line), line).is_some()
    }

    /// Keeps the data of a line.
    #[inline]
    pub fn keep(&mut self, line: Line, dirty: bool) -> Dropped {
        let slice = self.slice(line);
        match self.data.touch(slice, line) {
            Some(slot) if dirty => self.data.sets.set_state(slot, DIRTY),
            Some(_) => {}
            None => {
                let state = if dirty { DIRTY } else { CLEAN };
                let (_, evicted) = self.data.insert(slice, line, state);
                return evicted.map(|(line, state)| (line, state == DIRTY));
            }
        }
        None
    }

    /// Drops the data of a line; whoever asked has it. Returns whether it was here.
    #[inline]
    pub fn take(&mut self, line: Line) -> bool {
        let found = self.data.find(self.slice(line), line);
        found.inspect(|slot| self.data.sets.remove(*slot)).is_some()
    }

    /// The directory's record of a line, if cores hold it.
    #[inline]
    pub fn tracked(&mut self, line: Line) -> Option<Tracked> {
        self.directory.touch(self.slice(line), line).map(Tracked)
    }

    /// `core` gives a line up. Returns whether it was the last to hold it.
    ///
    /// # Panics
    /// If nobody holds it.
    #[inline]
    pub fn give_up(&mut self, line: Line, core: usize) -> bool {
        let slot = self.directory.find(self.slice(line), line);
        let slot = slot.expect("the directory tracks every line that cores hold");
        // Of an owned line its owner is who gives it up: no need to read who holds it.
        let last = self.is_owned(Tracked(slot)) || {
            let sharers = &mut self.sharers[slot * self.halves..][..self.halves];
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
    #[inline]
    pub fn track(&mut self, line: Line, core: usize) -> Option<(Line, CoreSet)> {
        let (slot, evicted) = self.directory.insert(self.slice(line), line, OWNER);
        let dropped = evicted.map(|(line, _)| (line, self.holders(Tracked(slot))));
        self.name_owner(slot, core);
        dropped
    }

    #[inline]
    fn name_owner(&mut self, slot: usize, core: usize) {
        let sharers = &mut self.sharers[slot * self.halves..][..self.halves];
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
        let mut set = CoreSet::default();
        let sharers = &self.sharers[at.0 * self.halves..][..self.halves];
        for (number, half) in sharers.iter().enumerate() {
            set.0[number / 2] |= u64::from(*half) << (32 * (number % 2));
        }
        set
    }

    /// One more core holds the line; all hold it clean.
    #[inline]
    pub fn share(&mut self, at: Tracked, core: usize) {
        self.directory.sets.set_state(at.0, SHARERS);
        self.sharers[at.0 * self.halves + core / 32] |= 1 << (core % 32);
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
        self.data.find(self.slice(line), line).is_some()
    }

    /// Whether any core holds a line; no use.
    #[inline]
    pub fn is_tracked(&self, line: Line) -> bool {
        self.directory.find(self.slice(line), line).is_some()
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
