//! The private L1 and L2 of each core.
//!
//! The L1 is a filter in front of the L2: it holds a subset of its lines, and whether a line may be
//! written without asking. (Intel's L2 does not enforce that subset; with 32 times the size the
//! difference is small.) The L2 therefore always knows the true state, and evicting from the L1
//! costs nothing.

use super::{Cache, MODIFIED, SHARED};
use crate::address::Line;
use crate::geometry::{Any, Geometry};
use crate::lru::{Place, Shape, Slot};
use crate::params::Params;

/// Where a private access ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HitLevel {
    /// Served by the L1.
    L1,
    /// Served by the L2; the L1 has it now.
    L2,
    /// A store to a line that others may share: the directory has to be asked.
    Upgrade,
    /// In neither; its place.
    Nowhere(Vacancy),
}

/// Where a line that a core does not hold belongs in its L1 and L2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vacancy {
    l1: Place,
    l2: Place,
}

/// The L1's result of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InL1 {
    /// It is served.
    Served,
    /// It is not; where the line belongs, and where it is, if it is here and may not be written.
    Not(Place, Option<Slot>),
}

/// The private caches of all cores.
#[derive(Clone, Debug)]
pub struct Private<G: Geometry = Any> {
    l1: Cache<G::L1>,
    l2: Cache<G::L2>,
}

/// A cache of `kib` KiB for each core.
fn cache<S: Shape>(params: &Params, kib: u64, ways: u64) -> Cache<S> {
    Cache::new(params.cores.count as usize, (kib * 16 / ways) as usize, ways as usize)
}

impl Private {
    /// Empty caches of any machine.
    pub fn new(params: &Params) -> Private {
        Private::of(params)
    }
}

impl<G: Geometry> Private<G> {
    /// Empty caches.
    pub fn of(params: &Params) -> Private<G> {
        Private {
            l1: cache(params, params.l1.kib, params.l1.ways),
            l2: cache(params, params.l2.kib, params.l2.ways),
        }
    }

    /// A load or store of a core.
    pub fn access(&mut self, core: usize, line: Line, write: bool) -> HitLevel {
        match self.look_up_l1(core, line, write) {
            InL1::Served => HitLevel::L1,
            InL1::Not(at, slot) => self.look_up_l2(core, line, write, at, slot),
        }
    }

    /// Its first step.
    #[inline(always)]
    pub fn look_up_l1(&mut self, core: usize, line: Line, write: bool) -> InL1 {
        let at = self.l1.place(core, line);
        match self.l1.sets.touch(at) {
            // Not `||`: whether it is a store cannot be predicted.
            Some(slot) if !write | (self.l1.sets.state(slot) == MODIFIED) => InL1::Served,
            slot => InL1::Not(at, slot),
        }
    }

    /// The second step: accesses that the L1 does not serve, and their place in the L1.
    #[inline(always)]
    pub fn look_up_l2(
        &mut self,
        core: usize,
        line: Line,
        write: bool,
        l1: Place,
        l1_slot: Option<Slot>,
    ) -> HitLevel {
        let l2 = self.l2.place(core, line);
        let Some(slot) = self.l2.sets.touch(l2) else {
            return HitLevel::Nowhere(Vacancy { l1, l2 });
        };
        let mut state = self.l2.sets.state(slot);
        if write {
            if state == SHARED {
                return HitLevel::Upgrade;
            }
            state = MODIFIED;
            self.l2.sets.set_state(slot, MODIFIED);
        }
        match l1_slot {
            Some(l1_slot) => {
                self.l1.sets.set_state(l1_slot, in_l1(state));
                HitLevel::L1
            }
            None => {
                self.l1.sets.insert(l1, in_l1(state), 0);
                HitLevel::L2
            }
        }
    }

    /// A core takes a line that the directory granted in `state`. Returns the line that had to go
    /// and whether it was changed.
    #[inline(always)]
    pub fn fill(&mut self, core: usize, at: Vacancy, state: u32) -> Option<(Line, bool)> {
        let (_, evicted) = self.l2.insert(at.l2, state, 0);
        if let Some((line, _)) = evicted {
            self.drop_l1(core, line);
        }
        self.l1.sets.insert(at.l1, in_l1(state), 0);
        evicted.map(|(line, evicted)| (line, evicted.state == MODIFIED))
    }

    /// Where a line belongs that the core lost while it asked to own it.
    pub fn vacancy(&self, core: usize, line: Line) -> Vacancy {
        Vacancy { l1: self.l1.place(core, line), l2: self.l2.place(core, line) }
    }

    /// The directory grants a core ownership of a line that it holds shared.
    pub fn upgrade(&mut self, core: usize, line: Line) {
        let slot = self.in_l2(core, line).expect("an upgrade is of a line that is held");
        self.l2.sets.set_state(slot, MODIFIED);
        let at = self.l1.place(core, line);
        match self.l1.sets.touch(at) {
            Some(slot) => self.l1.sets.set_state(slot, MODIFIED),
            None => drop(self.l1.sets.insert(at, MODIFIED, 0)),
        }
    }

    /// A core gives up a line. Returns whether it was changed.
    pub fn invalidate(&mut self, core: usize, line: Line) -> bool {
        let Some(slot) = self.in_l2(core, line) else { return false };
        let modified = self.l2.sets.state(slot) == MODIFIED;
        self.l2.sets.remove(slot);
        self.drop_l1(core, line);
        modified
    }

    /// A core keeps a line, clean and shared. Returns whether it was changed.
    pub fn downgrade(&mut self, core: usize, line: Line) -> bool {
        let Some(slot) = self.in_l2(core, line) else { return false };
        let modified = self.l2.sets.state(slot) == MODIFIED;
        self.l2.sets.set_state(slot, SHARED);
        if let Some(slot) = self.in_l1(core, line) {
            self.l1.sets.set_state(slot, SHARED);
        }
        modified
    }

    #[inline(always)]
    fn in_l1(&self, core: usize, line: Line) -> Option<Slot> {
        self.l1.sets.find(self.l1.place(core, line))
    }

    #[inline(always)]
    fn in_l2(&self, core: usize, line: Line) -> Option<Slot> {
        self.l2.sets.find(self.l2.place(core, line))
    }

    /// The state of a line in a core's caches; `None` if it is not held.
    pub fn state(&self, core: usize, line: Line) -> Option<u32> {
        self.in_l2(core, line).map(|slot| self.l2.sets.state(slot))
    }

    /// Whether a core's L1 holds a line; no use.
    #[inline(always)]
    pub fn is_in_l1(&self, core: usize, line: Line) -> bool {
        self.in_l1(core, line).is_some()
    }

    /// Prefetches the data that an access reads after a miss in the L1.
    #[inline(always)]
    pub fn prefetch_l2(&self, core: usize, line: Line) {
        self.l2.sets.prefetch(self.l2.place(core, line).set);
    }

    /// The line that would be put out if `line` were fetched.
    #[inline(always)]
    pub fn next_out(&self, core: usize, line: Line) -> Option<Line> {
        let set = self.l2.place(core, line).set;
        self.l2.sets.next_out(set).map(|key| self.l2.line(set, key))
    }

    #[inline(always)]
    fn drop_l1(&mut self, core: usize, line: Line) {
        if let Some(slot) = self.in_l1(core, line) {
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
            let (core, line) = (set / self.l1.of_slice, self.l1.line(set, key));
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

/// The L1's view of a state: whether a store needs a request.
#[inline(always)]
fn in_l1(state: u32) -> u32 {
    if state == MODIFIED { MODIFIED } else { SHARED }
}
