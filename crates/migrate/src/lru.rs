//! Associative sets with exact least-recently-used replacement, packed for speed.
//!
//! Caches, directories, TLBs and walk caches are all [`Sets`]. A way is one 32-bit word, and the
//! order of use of up to sixteen ways is one 64-bit word of four-bit way numbers, most recent
//! lowest, so that a use rotates a few bits instead of shifting entries. Up to twelve ways and
//! their order are one 64-byte line of the host's cache, which a look-up thus touches alone; of
//! sixteen ways the order lies apart.
//!
//! ```text
//! word    key (30 bits, never 0)                                   state (2 bits, 0 = empty)
//! order   way used longest ago | … | second | way used last (4 bits each)
//! set     words of 4 ways,  padding to 6,  order: low half, high half         half a host line
//!         words of 12 ways, padding to 14, order: low half, high half         a host line
//!         words of 16 ways                                                    a host line
//! ```
//!
//! What else an entry carries (a frame, a set of sharers) lies in an array of the owner, indexed by
//! slot: `set << shift | way`.

use hostmem::{Array, prefetch};

/// The most ways that a set can have: sixteen four-bit numbers fill the order word.
pub const MAX_WAYS: usize = 16;

/// The largest key: 30 bits, less the one value that would look empty.
pub const MAX_KEY: u32 = (1 << 30) - 2;

const STATE: u32 = 3;
const ONES: u64 = 0x1111_1111_1111_1111;
const IDENTITY: u64 = 0xFEDC_BA98_7654_3210;

/// The sets of one cache or TLB, all empty at first.
#[derive(Clone, Debug)]
pub struct Sets {
    sets: usize,
    ways: usize,
    /// Ways rounded up to whole comparisons of four.
    lanes: usize,
    /// Words from one set to the next, as a power of two.
    shift: u32,
    /// Where the first set's order is, and the way from one to the next as a power of two.
    orders: usize,
    order_shift: u32,
    words: Array<u32>,
}

/// What an insertion put out of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// Its key.
    pub key: u32,
    /// Its state, 1 to 3.
    pub state: u32,
}

impl Sets {
    /// `sets` empty sets of `ways` ways, at most [`MAX_WAYS`].
    pub fn new(sets: usize, ways: usize) -> Sets {
        assert!((1..=MAX_WAYS).contains(&ways), "{ways} ways");
        let lanes = ways.next_multiple_of(4);
        let shift = if lanes == 4 { 3 } else { 4 };
        let (orders, order_shift) =
            if lanes == 16 { (sets << shift, 1) } else { ((1 << shift) - 2, shift) };
        let beyond = if lanes == 16 { 2 * sets } else { 0 };
        let words = Array::zeroed((sets << shift) + beyond);
        let mut all = Sets { sets, ways, lanes, shift, orders, order_shift, words };
        all.clear(0..sets);
        all
    }

    /// How many slots there are, for arrays indexed by slot: somewhat more than entries.
    pub fn slots(&self) -> usize {
        self.sets << self.shift
    }

    /// Bytes of host memory that the sets take.
    pub fn bytes(&self) -> usize {
        self.words.len() * 4
    }

    #[inline]
    fn order(&self, set: usize) -> u64 {
        let halves = &self.words[self.orders + (set << self.order_shift)..][..2];
        u64::from(halves[0]) | u64::from(halves[1]) << 32
    }

    #[inline]
    fn set_order(&mut self, set: usize, order: u64) {
        let halves = &mut self.words[self.orders + (set << self.order_shift)..][..2];
        halves[0] = order as u32;
        halves[1] = (order >> 32) as u32;
    }

    /// The slot of `key` in `set`, its place in the order of use unchanged.
    #[inline]
    pub fn find(&self, set: usize, key: u32) -> Option<usize> {
        let (wanted, base) = (word(key, 0), set << self.shift);
        let words = &self.words[base..][..self.lanes];
        // All ways are compared before any is looked at: which of them it is cannot be predicted.
        let mut hits = 0;
        for (at, four) in words.as_chunks::<4>().0.iter().enumerate() {
            hits |= hits_of_four(four, wanted) << (4 * at);
        }
        (hits != 0).then(|| base + hits.trailing_zeros() as usize)
    }

    /// The slot of `key` in `set`, which becomes the one used last.
    #[inline]
    pub fn touch(&mut self, set: usize, key: u32) -> Option<usize> {
        let slot = self.find(set, key)?;
        let way = (slot - (set << self.shift)) as u64;
        self.set_order(set, used_last(self.order(set), way));
        Some(slot)
    }

    /// Has the set brought into the host's cache.
    #[inline]
    pub fn prefetch(&self, set: usize) {
        prefetch(&self.words, set << self.shift);
        if self.lanes == 16 {
            prefetch(&self.words, self.orders + (set << self.order_shift));
        }
    }

    /// The first slot of a set.
    #[inline]
    pub fn first_slot(&self, set: usize) -> usize {
        set << self.shift
    }

    /// The key that the next insertion into `set` would put out, if any.
    #[inline]
    pub fn next_out(&self, set: usize) -> Option<u32> {
        let way = self.order(set) >> (4 * (self.ways - 1)) & 15;
        let word = self.words[(set << self.shift) + way as usize];
        (word != 0).then(|| (word >> 2) - 1)
    }

    /// The state of the entry in `slot`; 0 if there is none.
    #[inline]
    pub fn state(&self, slot: usize) -> u32 {
        self.words[slot] & STATE
    }

    /// The key of the entry in `slot`.
    pub fn key(&self, slot: usize) -> u32 {
        debug_assert_ne!(self.state(slot), 0, "slot {slot} is empty");
        (self.words[slot] >> 2) - 1
    }

    /// Changes the state (1 to 3) of the entry in `slot`.
    #[inline]
    pub fn set_state(&mut self, slot: usize, state: u32) {
        debug_assert!(self.state(slot) != 0 && (1..=3).contains(&state));
        self.words[slot] = self.words[slot] & !STATE | state;
    }

    /// Puts `key`, which is not there, in the place of the entry of `set` used longest ago, as the
    /// one used last. Returns its slot and what had to go.
    #[inline]
    pub fn insert(&mut self, set: usize, key: u32, state: u32) -> (usize, Option<Evicted>) {
        debug_assert!(key <= MAX_KEY && (1..=3).contains(&state));
        debug_assert!(self.find(set, key).is_none(), "key {key} twice in set {set}");
        let order = self.order(set);
        let way = order >> (4 * (self.ways - 1)) & 15;
        let slot = (set << self.shift) + way as usize;
        let old = std::mem::replace(&mut self.words[slot], word(key, state));
        self.set_order(set, used_last(order, way));
        let evicted = (old != 0).then(|| Evicted { key: (old >> 2) - 1, state: old & STATE });
        (slot, evicted)
    }

    /// Empties `slot`, which the next insertion into its set then takes.
    #[inline]
    pub fn remove(&mut self, slot: usize) {
        self.words[slot] = 0;
        let set = slot >> self.shift;
        let way = (slot - (set << self.shift)) as u64;
        let order = used_longest_ago(self.order(set), way, self.ways);
        self.set_order(set, order);
    }

    /// Empties some sets.
    pub fn clear(&mut self, sets: std::ops::Range<usize>) {
        for set in sets {
            self.words[set << self.shift..][..self.lanes].fill(0);
            self.set_order(set, IDENTITY);
        }
    }

    /// All entries: set, slot, key and state.
    pub fn iter(&self) -> impl Iterator<Item = (usize, usize, u32, u32)> + '_ {
        let ways = (0..self.sets)
            .flat_map(move |set| (0..self.ways).map(move |way| (set, (set << self.shift) + way)));
        let full = ways.filter(|(_, slot)| self.state(*slot) != 0);
        full.map(|(set, slot)| (set, slot, self.key(slot), self.state(slot)))
    }

    /// Checks that every order word names each way once and that no key is twice in a set.
    pub fn validate(&self) {
        for set in 0..self.sets {
            let order = self.order(set);
            let named = (0..16).fold(0u32, |named, at| named | 1 << (order >> (4 * at) & 15));
            assert_eq!(named, 0xFFFF, "the order of set {set} is {order:#x}");
            let words = &self.words[set << self.shift..][..self.lanes];
            for (way, word) in words.iter().enumerate().filter(|(_, word)| **word != 0) {
                assert!(way < self.ways && word & STATE != 0, "set {set} way {way}: {word:#x}");
                let same = words.iter().filter(|other| *other & !STATE == word & !STATE);
                assert_eq!(same.count(), 1, "set {set} holds {word:#x} more than once");
            }
        }
    }
}

#[inline]
fn word(key: u32, state: u32) -> u32 {
    ((key + 1) << 2) | state
}

/// Which of four ways have the key `wanted`, a bit each: one comparison of vectors.
#[inline]
fn hits_of_four(words: &[u32; 4], wanted: u32) -> u32 {
    let mut hits = 0;
    for (way, word) in words.iter().enumerate() {
        hits |= u32::from(word & !STATE == wanted) << way;
    }
    hits
}

/// Bit position of `way` in an order word: the lowest nibble that equals it.
#[inline]
fn position(order: u64, way: u64) -> u32 {
    let differs = order ^ (way * ONES);
    let zero = differs.wrapping_sub(ONES) & !differs & (8 * ONES);
    zero.trailing_zeros() & !3
}

#[inline]
fn used_last(order: u64, way: u64) -> u64 {
    let at = position(order, way);
    let more_recent = order & !(u64::MAX << at);
    let older = order & (u64::MAX << at) << 4;
    older | more_recent << 4 | way
}

fn used_longest_ago(order: u64, way: u64, ways: usize) -> u64 {
    let at = position(order, way);
    let end = 4 * (ways as u32 - 1);
    let unused = order & (u64::MAX << end) << 4;
    let more_recent = order & !(u64::MAX << at);
    let older = (order & !unused) >> at >> 4 << at;
    unused | way << end | older | more_recent
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_entry_used_longest_ago_goes() {
        let mut sets = Sets::new(1, 3);
        for key in [10, 11, 12] {
            assert_eq!(sets.insert(0, key, 1).1, None);
        }
        assert!(sets.touch(0, 10).is_some());
        assert_eq!(sets.insert(0, 13, 2).1, Some(Evicted { key: 11, state: 1 }));
        let slot = sets.find(0, 10).unwrap();
        sets.remove(slot);
        assert_eq!(sets.insert(0, 14, 1).1, None, "the emptied way is taken first");
        assert_eq!(sets.insert(0, 15, 1).1, Some(Evicted { key: 12, state: 1 }));
    }

    #[test]
    fn a_key_of_zero_is_not_an_empty_way() {
        let mut sets = Sets::new(2, 4);
        assert_eq!(sets.find(0, 0), None);
        sets.insert(0, 0, 1);
        assert_eq!(sets.find(0, 0), sets.touch(0, 0));
        assert_eq!(sets.iter().count(), 1);
        assert_eq!(sets.find(1, 0), None);
        assert_eq!(sets.find(0, MAX_KEY), None);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Touch(u32),
        Insert(u32),
        Remove(u32),
    }

    proptest! {
        /// Against a list of keys in order of use.
        #[test]
        fn sets_do_as_a_list_in_order_of_use(
            ways in 1usize..=16,
            steps in prop::collection::vec((0u32..24, 0u8..4).prop_map(|(key, what)| match what {
                0 => Step::Touch(key),
                1 => Step::Remove(key),
                _ => Step::Insert(key),
            }), 0..200),
        ) {
            let mut sets = Sets::new(2, ways);
            let mut model: Vec<u32> = Vec::new();
            for step in steps {
                match step {
                    Step::Touch(key) => {
                        let there = model.contains(&key);
                        prop_assert_eq!(sets.touch(1, key).is_some(), there);
                        if there {
                            model.retain(|other| *other != key);
                            model.insert(0, key);
                        }
                    }
                    Step::Insert(key) if !model.contains(&key) => {
                        model.insert(0, key);
                        let gone = if model.len() > ways { model.pop() } else { None };
                        let (slot, evicted) = sets.insert(1, key, 1 + key % 3);
                        prop_assert_eq!(sets.key(slot), key);
                        prop_assert_eq!(evicted, gone.map(|key| Evicted { key, state: 1 + key % 3 }));
                    }
                    Step::Insert(_) => {}
                    Step::Remove(key) => {
                        if let Some(slot) = sets.find(1, key) {
                            sets.remove(slot);
                        }
                        model.retain(|other| *other != key);
                    }
                }
                sets.validate();
                let mut held: Vec<u32> = sets.iter().map(|(_, _, key, _)| key).collect();
                held.sort();
                let mut expected = model.clone();
                expected.sort();
                prop_assert_eq!(held, expected);
            }
        }
    }
}
