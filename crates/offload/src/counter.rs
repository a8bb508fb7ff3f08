//! Cumulative counters of a cgroup, read from its files by the signals that need them.

use std::ops::{Index, IndexMut};

use serde::Serialize;

/// Counters that an observation holds.
const CAPACITY: usize = 8;

/// The place of one counter in [`Counters`]. Each signal defines its own, with a number that no
/// other signal uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Counter(usize);

impl Counter {
    /// The counter with this number.
    ///
    /// # Panics
    /// If the number is 8 or more.
    pub const fn new(number: usize) -> Counter {
        assert!(number < CAPACITY, "an observation holds 8 counters");
        Counter(number)
    }
}

/// The values of all counters at one instant. Counters that no signal reads stay 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters([u64; CAPACITY]);

impl Counters {
    /// These counters, and 0 for all others.
    pub fn of<const N: usize>(values: [(Counter, u64); N]) -> Counters {
        let mut counters = Counters::default();
        for (counter, value) in values {
            counters[counter] = value;
        }
        counters
    }
}

impl Index<Counter> for Counters {
    type Output = u64;

    fn index(&self, counter: Counter) -> &u64 {
        &self.0[counter.0]
    }
}

impl IndexMut<Counter> for Counters {
    fn index_mut(&mut self, counter: Counter) -> &mut u64 {
        &mut self.0[counter.0]
    }
}
