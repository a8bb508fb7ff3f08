//! The profile of an access stream, in figures that do not depend on the location of its memory:
//! what a synthetic stream and the recording of a real program are compared by.

use std::collections::HashMap;

use serde::Serialize;

/// Classes of reuse distance: less than 1, 2, 4, … different lines in between.
pub const CLASSES: usize = 24;

/// The figures of a stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Profile {
    /// Loads and stores.
    pub accesses: u64,
    /// Instructions.
    pub instructions: u64,
    /// Share of stores among accesses.
    pub stores: f64,
    /// Different lines of 64 bytes.
    pub lines: u64,
    /// Different pages of 4 KiB.
    pub pages: u64,
    /// Mean number of distinct lines in a run of as many accesses as a request has.
    pub lines_per_request: f64,
    /// Mean number of different pages in the same.
    pub pages_per_request: f64,
    /// Share of all accesses whose line was used before with fewer than 2⁰, 2¹, 2², … other lines
    /// in between: what a fully associative cache of N lines with exact LRU would serve.
    pub within: Vec<f64>,
}

/// Measures a stream of accesses as it passes: O(log n) each.
#[derive(Clone, Debug)]
pub struct Profiler {
    per_request: u64,
    accesses: u64,
    instructions: u64,
    stores: u64,
    /// When each line was used last.
    last: HashMap<u64, u32>,
    pages: HashMap<u64, u64>,
    /// Marks the moments at which some line was used last, as a Fenwick tree of counts.
    marks: Vec<u32>,
    now: u32,
    within: [u64; CLASSES],
    seen: [u64; 2],
    lines_in: HashMap<u64, u64>,
}

impl Profiler {
    /// For requests of `per_request` accesses, at least 1.
    pub fn new(per_request: u64) -> Profiler {
        Profiler {
            per_request: per_request.max(1),
            accesses: 0,
            instructions: 0,
            stores: 0,
            last: HashMap::new(),
            pages: HashMap::new(),
            marks: vec![0; 1 << 16],
            now: 0,
            within: [0; CLASSES],
            seen: [0; 2],
            lines_in: HashMap::new(),
        }
    }

    /// The next access.
    pub fn access(&mut self, address: u64, store: bool, instructions: u64) {
        let request = self.accesses / self.per_request + 1;
        self.accesses += 1;
        self.instructions += instructions;
        self.stores += u64::from(store);
        let (line, page) = (address >> 6, address >> 12);
        self.seen[0] += u64::from(self.lines_in.insert(line, request) != Some(request));
        self.seen[1] += u64::from(self.pages.insert(page, request) != Some(request));
        if self.now as usize + 1 >= self.marks.len() {
            self.compact();
        }
        self.now += 1;
        if let Some(then) = self.last.insert(line, self.now) {
            // Lines used last after then, this one not counted.
            let between = self.marked(self.now - 1) - self.marked(then);
            let class = u32::BITS - between.leading_zeros();
            if let Some(count) = self.within.get_mut(class as usize) {
                *count += 1;
            }
            self.mark(then, -1);
        }
        self.mark(self.now, 1);
    }

    /// Numbers the moments again, those at which no line was used last left out.
    fn compact(&mut self) {
        let mut moments: Vec<(u32, u64)> =
            self.last.iter().map(|(line, at)| (*at, *line)).collect();
        moments.sort_unstable();
        let room = (moments.len() * 4).max(1 << 16).next_power_of_two();
        self.marks = vec![0; room];
        for (number, (_, line)) in moments.iter().enumerate() {
            self.last.insert(*line, number as u32 + 1);
            self.mark(number as u32 + 1, 1);
        }
        self.now = moments.len() as u32;
    }

    fn mark(&mut self, at: u32, by: i32) {
        let mut at = at as usize;
        while at < self.marks.len() {
            self.marks[at] = self.marks[at].wrapping_add_signed(by);
            at += at & at.wrapping_neg();
        }
    }

    /// Marks up to and including a moment.
    fn marked(&self, until: u32) -> u32 {
        let (mut at, mut sum) = (until as usize, 0);
        while at > 0 {
            sum += self.marks[at];
            at &= at - 1;
        }
        sum
    }

    /// The figures so far.
    pub fn profile(&self) -> Profile {
        let accesses = self.accesses.max(1) as f64;
        let requests = (self.accesses as f64 / self.per_request as f64).max(1.0);
        let running = self.within.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum as f64 / accesses)
        });
        Profile {
            accesses: self.accesses,
            instructions: self.instructions,
            stores: self.stores as f64 / accesses,
            lines: self.last.len() as u64,
            pages: self.pages.len() as u64,
            lines_per_request: self.seen[0] as f64 / requests,
            pages_per_request: self.seen[1] as f64 / requests,
            within: running.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// a b b a c a: b again with 0 lines in between, a with 1 (b), a with 1 (c).
    #[test]
    fn reuse_distances_are_counted_in_other_lines() {
        let mut profiler = Profiler::new(3);
        for (number, line) in [0u64, 1, 1, 0, 2, 0].into_iter().enumerate() {
            profiler.access(line * 64, number == 4, 2);
        }
        let profile = profiler.profile();
        assert_eq!(
            (profile.accesses, profile.instructions, profile.lines, profile.pages),
            (6, 12, 3, 1)
        );
        assert!((profile.stores - 1.0 / 6.0).abs() < 1e-12);
        assert_eq!(profile.within[0], 1.0 / 6.0);
        assert_eq!(profile.within[1], 3.0 / 6.0);
        // Two requests of three: lines {0, 1} and {0, 2}.
        assert_eq!((profile.lines_per_request, profile.pages_per_request), (2.0, 1.0));
    }

    proptest! {
        /// Against a list of lines in order of use; long enough that moments are numbered again.
        #[test]
        fn the_tree_counts_as_a_list_does(seed in any::<u64>()) {
            let mut random = crate::random::Random::new(seed, 0);
            let mut profiler = Profiler::new(10);
            profiler.marks = vec![0; 64];
            let (mut list, mut within): (Vec<u64>, [u64; CLASSES]) = (Vec::new(), [0; CLASSES]);
            for _ in 0..500 {
                let line = random.below(40);
                if let Some(at) = list.iter().position(|other| *other == line) {
                    within[(u64::BITS - (at as u64).leading_zeros()) as usize] += 1;
                    list.remove(at);
                }
                list.insert(0, line);
                profiler.access(line << 6, false, 1);
            }
            prop_assert_eq!(profiler.within, within);
        }
    }
}
