//! Caches: the private L1 and L2 of each core, and the sliced last-level cache with its directory.
//!
//! They know lines and states, not time. Names of states are those of the MESI protocol.

mod llc;
mod private;

use crate::address::Line;
use crate::lru::{Evicted, Place, Sets, Shape, Slot};

pub use llc::{CoreSet, Dropped, InLlc, Llc, MAX_CORES, Tracked};
pub use private::{HitLevel, InL1, Private, Vacancy};

/// Held by this and perhaps other cores, clean.
pub const SHARED: u32 = 1;
/// Held by this core alone, clean.
pub const EXCLUSIVE: u32 = 2;
/// Held by this core alone, changed.
pub const MODIFIED: u32 = 3;

/// Sets indexed by the low bits of the line, in one or several slices.
#[derive(Clone, Debug)]
pub struct Cache<S: Shape> {
    sets: Sets<S>,
    /// Sets of a slice.
    of_slice: usize,
    /// The bits of a line that name its set; its key has the others.
    mask: u32,
}

impl<S: Shape> Cache<S> {
    /// `slices` slices, each of a power of two of sets.
    pub fn new(slices: usize, sets: usize, ways: usize) -> Cache<S> {
        assert!(sets.is_power_of_two() && sets >= 4);
        let free = sets.trailing_zeros();
        Cache { sets: Sets::new(slices * sets, ways, free), of_slice: sets, mask: sets as u32 - 1 }
    }

    #[inline(always)]
    fn place(&self, slice: usize, line: Line) -> Place {
        let set = slice * self.of_slice + (line.0 & self.mask) as usize;
        Place { set, key: line.0 & !self.mask }
    }

    #[inline(always)]
    fn line(&self, set: usize, key: u32) -> Line {
        Line(key | set as u32 & self.mask)
    }

    #[inline(always)]
    fn insert(&mut self, at: Place, state: u32, note: u32) -> (Slot, Option<(Line, Evicted)>) {
        let (slot, evicted) = self.sets.insert(at, state, note);
        (slot, evicted.map(|evicted| (self.line(at.set, evicted.key), evicted)))
    }

    fn iter(&self) -> impl Iterator<Item = (Slot, Line, u32)> + '_ {
        self.sets.iter().map(|(set, slot, key, state)| (slot, self.line(set, key), state))
    }
}
