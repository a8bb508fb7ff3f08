//! A set of small numbers that knows its least and its greatest member at once.
//!
//! A tree of 64-bit words: a bit of the lowest level is a member, a bit of a higher level is set if
//! the word below it is not zero. Five levels hold the frames of a terabyte. Every operation
//! touches at most one word a level, and setting or clearing a bit beside another one that is set
//! touches a single word. The tree takes 64/63 of a bit for each number.

use alloc::vec;
use alloc::vec::Vec;

/// Numbers below a bound that is fixed when the set is made.
#[derive(Clone, Debug)]
pub(crate) struct BitTree {
    /// Lowest level first. The last level is a single word.
    levels: Vec<Vec<u64>>,
}

const fn bit(number: usize) -> u64 {
    1 << (number % 64)
}

impl BitTree {
    /// The empty set of numbers below `bound`.
    pub fn new(bound: usize) -> BitTree {
        let mut words = bound.div_ceil(64).max(1);
        let mut levels = vec![vec![0; words]];
        while words > 1 {
            words = words.div_ceil(64);
            levels.push(vec![0; words]);
        }
        BitTree { levels }
    }

    /// Whether `number` is a member.
    ///
    /// # Panics
    /// If it is beyond the bound, rounded up to 64.
    pub fn contains(&self, number: usize) -> bool {
        self.levels[0][number / 64] & bit(number) != 0
    }

    /// Adds `number`.
    ///
    /// # Panics
    /// If it is beyond the bound, rounded up to 64.
    pub fn insert(&mut self, number: usize) {
        let mut at = number;
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            let was = *word;
            *word |= bit(at);
            if was != 0 {
                break;
            }
            at /= 64;
        }
    }

    /// Takes `number` out.
    ///
    /// # Panics
    /// If it is beyond the bound, rounded up to 64.
    pub fn remove(&mut self, number: usize) {
        let mut at = number;
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            *word &= !bit(at);
            if *word != 0 {
                break;
            }
            at /= 64;
        }
    }

    /// The least member.
    pub fn first(&self) -> Option<usize> {
        self.descend(u64::trailing_zeros)
    }

    /// The greatest member.
    pub fn last(&self) -> Option<usize> {
        self.descend(|word| 63 - word.leading_zeros())
    }

    /// The greatest member below `bound`.
    pub fn last_before(&self, bound: usize) -> Option<usize> {
        if bound / 64 >= self.levels[0].len() {
            return self.last();
        }
        let mut at = bound;
        for (height, level) in self.levels.iter().enumerate() {
            let below = level.get(at / 64).map_or(0, |word| word & (bit(at) - 1));
            if below != 0 {
                let mut found = at / 64 * 64 + below.ilog2() as usize;
                for lower in self.levels[..height].iter().rev() {
                    found = found * 64 + lower[found].ilog2() as usize;
                }
                return Some(found);
            }
            at /= 64;
        }
        None
    }

    /// Follows one bit of each word from the top down.
    fn descend(&self, choose: impl Fn(u64) -> u32) -> Option<usize> {
        let mut at = 0;
        for level in self.levels.iter().rev() {
            let word = level[at];
            if word == 0 {
                return None;
            }
            at = at * 64 + choose(word) as usize;
        }
        Some(at)
    }

    /// Counts the members; time linear in the bound.
    pub fn count(&self) -> usize {
        self.levels[0].iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Bytes that the tree takes.
    pub fn bytes(&self) -> usize {
        self.levels.iter().map(|level| level.capacity() * size_of::<u64>()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn agrees_with_an_ordered_set(
            bound in prop::sample::select(&[1usize, 63, 64, 65, 4096, 4097, 300_000]),
            steps in prop::collection::vec((any::<prop::sample::Index>(), 0..3u8), 1..200),
        ) {
            let (mut tree, mut set) = (BitTree::new(bound), BTreeSet::new());
            for (which, what) in steps {
                // One step in three takes a member out, so that words empty again.
                match (what, set.iter().nth(which.index(set.len().max(1))).copied()) {
                    (0, Some(member)) => {
                        tree.remove(member);
                        set.remove(&member);
                    }
                    _ => {
                        tree.insert(which.index(bound));
                        set.insert(which.index(bound));
                    }
                }
                prop_assert_eq!(tree.first(), set.first().copied());
                prop_assert_eq!(tree.last(), set.last().copied());
                for at in [which.index(bound), which.index(bound) + 1, 0, bound, bound + 5_000] {
                    prop_assert_eq!(tree.last_before(at), set.range(..at).next_back().copied());
                }
                prop_assert_eq!(tree.count(), set.len());
                prop_assert_eq!(tree.contains(which.index(bound)), set.contains(&which.index(bound)));
            }
        }
    }

    #[test]
    fn five_levels_hold_a_terabyte_of_frames() {
        let mut tree = BitTree::new(1 << 28);
        assert_eq!(tree.levels.len(), 5);
        assert_eq!((tree.first(), tree.last()), (None, None));
        tree.insert((1 << 28) - 1);
        tree.insert(77);
        assert_eq!((tree.first(), tree.last()), (Some(77), Some((1 << 28) - 1)));
        assert!(tree.bytes() as f64 / (1u64 << 25) as f64 <= 64.0 / 63.0 + 1e-4);
    }
}
