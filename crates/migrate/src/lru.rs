//! Associative sets with exact least-recently-used replacement, packed for speed.
//!
//! Caches, directories, TLBs and walk caches are all [`Sets`]. The keys of a set are one 64-byte
//! line of the host's cache, compared all at once. The order of use of up to sixteen ways is one
//! 64-bit word of four-bit way numbers, most recent lowest, so that a use rotates a few bits instead
//! of shifting entries. States are two bits each. Up to twelve ways leave room for both in the line
//! of their keys, which a look-up thus touches alone; of more ways they lie apart.
//!
//! ```text
//! word    key + 1 (32 bits, 0 = empty)
//! order   way used longest ago | … | second | way used last (4 bits each)
//! rest    order: low half, high half;  states (2 bits each, way 0 lowest);  unused
//! set     words of 12 ways, rest                      a line of the host's cache
//!         words of 16 ways; all rests after all words
//! ```
//!
//! What else an entry carries (a frame, a set of sharers) lies in an array of the owner, indexed by
//! slot: `16 * set + way`.

use hostmem::{Array, equal, prefetch};

/// The most ways that a set can have: sixteen four-bit numbers fill the order word.
pub const MAX_WAYS: usize = 16;

/// The largest key.
pub const MAX_KEY: u32 = u32::MAX - 1;

/// Most ways whose order and states lie beside their keys.
const WAYS_BESIDE: usize = 12;
/// Bytes of the keys of a set: a line of the host's cache.
const LINE: usize = 64;
/// Bytes of what is kept of a set beside its keys.
const REST: usize = 16;

const STATE: u32 = 3;
const ONES: u64 = 0x1111_1111_1111_1111;
const IDENTITY: u64 = 0xFEDC_BA98_7654_3210;

/// The sets of one cache or TLB, all empty at first.
#[derive(Clone, Debug)]
pub struct Sets {
    sets: usize,
    ways: usize,
    /// Bit position in the order word of the way used longest ago.
    last: u32,
    /// Where the first set's rest is, in rests, and the way from one to the next as a power of two.
    rests: usize,
    rest_shift: u32,
    bytes: Array<u8>,
}

/// The order of use and the states of a set. The order is read and written as one word: the host
/// would wait for two halves before it hands them on as one.
struct Rest {
    order: u64,
    states: u32,
}

impl Rest {
    #[inline(always)]
    fn read(bytes: &[u8; REST]) -> Rest {
        let (order, states) = bytes.split_at(8);
        Rest {
            order: u64::from_le_bytes(*order.first_chunk().expect("8 bytes")),
            states: u32::from_le_bytes(*states.first_chunk().expect("8 bytes")),
        }
    }
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
        let apart = ways > WAYS_BESIDE;
        let (rests, rest_shift) =
            if apart { (sets * LINE / REST, 0) } else { (LINE / REST - 1, 2) };
        let bytes = Array::zeroed(sets * (LINE + if apart { REST } else { 0 }));
        let last = 4 * (ways as u32 - 1);
        let mut all = Sets { sets, ways, last, rests, rest_shift, bytes };
        all.clear(0..sets);
        all
    }

    /// How many slots there are, for arrays indexed by slot: somewhat more than entries.
    pub fn slots(&self) -> usize {
        self.sets * MAX_WAYS
    }

    /// Bytes of host memory that the sets take.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    #[inline(always)]
    fn rest(&self, set: usize) -> Rest {
        Rest::read(&self.bytes.as_chunks().0[self.rests + (set << self.rest_shift)])
    }

    #[inline(always)]
    fn rest_mut(&mut self, set: usize) -> &mut [u8; REST] {
        &mut self.bytes.as_chunks_mut().0[self.rests + (set << self.rest_shift)]
    }

    #[inline(always)]
    fn set_rest(&mut self, set: usize, Rest { order, states }: Rest) {
        let bytes = self.rest_mut(set);
        bytes[..8].copy_from_slice(&order.to_le_bytes());
        bytes[8..12].copy_from_slice(&states.to_le_bytes());
    }

    /// The key of a slot and one, or 0.
    #[inline(always)]
    fn word(&self, slot: usize) -> u32 {
        u32::from_le_bytes(self.bytes.as_chunks().0[slot])
    }

    #[inline(always)]
    fn set_word(&mut self, slot: usize, word: u32) {
        self.bytes.as_chunks_mut().0[slot] = word.to_le_bytes();
    }

    /// The slot of `key` in `set`, its place in the order of use unchanged.
    #[inline(always)]
    pub fn find(&self, set: usize, key: u32) -> Option<usize> {
        let line: &[u8; LINE] = &self.bytes.as_chunks().0[set];
        let fours: &[[u8; 16]; 4] = line.as_chunks().0.try_into().expect("64 bytes");
        // The rest is not read along with the keys: where it was just written, the host would wait
        // until that has arrived in its cache.
        let same = match self.ways > WAYS_BESIDE {
            true => equal(fours, key + 1),
            false => equal(fours.first_chunk::<3>().expect("three of four"), key + 1),
        };
        let way = same.trailing_zeros() as usize;
        (way < self.ways).then_some(set * MAX_WAYS + way)
    }

    /// The slot of `key` in `set`, which becomes the one used last.
    #[inline(always)]
    pub fn touch(&mut self, set: usize, key: u32) -> Option<usize> {
        let slot = self.find(set, key)?;
        self.use_way(set, slot % MAX_WAYS);
        Some(slot)
    }

    /// The entry in `slot` becomes the one used last.
    #[inline(always)]
    pub fn use_slot(&mut self, slot: usize) {
        self.use_way(slot / MAX_WAYS, slot % MAX_WAYS);
    }

    #[inline(always)]
    fn use_way(&mut self, set: usize, way: usize) {
        let bytes = self.rest_mut(set);
        let order = used_last(Rest::read(bytes).order, way as u64);
        bytes[..8].copy_from_slice(&order.to_le_bytes());
    }

    /// Has the set brought into the host's cache.
    #[inline]
    pub fn prefetch(&self, set: usize) {
        prefetch(&self.bytes, set * LINE);
        if self.rest_shift == 0 {
            prefetch(&self.bytes, (self.rests + set) * REST);
        }
    }

    /// The first slot of a set.
    #[inline]
    pub fn first_slot(&self, set: usize) -> usize {
        set * MAX_WAYS
    }

    /// The key that the next insertion into `set` would put out, if any.
    #[inline]
    pub fn next_out(&self, set: usize) -> Option<u32> {
        let way = self.rest(set).order >> self.last & 15;
        self.word(set * MAX_WAYS + way as usize).checked_sub(1)
    }

    /// The state of the entry in `slot`; 0 if there is none.
    #[inline]
    pub fn state(&self, slot: usize) -> u32 {
        self.rest(slot / MAX_WAYS).states >> (2 * (slot % MAX_WAYS)) & STATE
    }

    /// The key of the entry in `slot`.
    pub fn key(&self, slot: usize) -> u32 {
        debug_assert_ne!(self.state(slot), 0, "slot {slot} is empty");
        self.word(slot) - 1
    }

    /// Changes the state (1 to 3) of the entry in `slot`.
    #[inline]
    pub fn set_state(&mut self, slot: usize, state: u32) {
        debug_assert!(self.state(slot) != 0 && (1..=3).contains(&state));
        let (set, shift) = (slot / MAX_WAYS, 2 * (slot % MAX_WAYS));
        let bytes = self.rest_mut(set);
        let states = Rest::read(bytes).states & !(STATE << shift) | state << shift;
        bytes[8..12].copy_from_slice(&states.to_le_bytes());
    }

    /// Puts `key`, which is not there, in the place of the entry of `set` used longest ago, as the
    /// one used last. Returns its slot and what had to go.
    #[inline(always)]
    pub fn insert(&mut self, set: usize, key: u32, state: u32) -> (usize, Option<Evicted>) {
        debug_assert!(key <= MAX_KEY && (1..=3).contains(&state));
        debug_assert!(self.find(set, key).is_none(), "key {key} twice in set {set}");
        let Rest { order, states } = self.rest(set);
        let way = order >> self.last & 15;
        let unused = order & (u64::MAX << self.last) << 4;
        let order = unused | (order & !(u64::MAX << self.last)) << 4 | way;
        let (shift, slot) = (2 * way, set * MAX_WAYS + way as usize);
        let old_state = states >> shift & STATE;
        self.set_rest(set, Rest { order, states: states & !(STATE << shift) | state << shift });
        let old = self.word(slot);
        self.set_word(slot, key + 1);
        (slot, old.checked_sub(1).map(|key| Evicted { key, state: old_state }))
    }

    /// Empties `slot`, which the next insertion into its set then takes.
    #[inline]
    pub fn remove(&mut self, slot: usize) {
        self.set_word(slot, 0);
        let (set, way) = (slot / MAX_WAYS, slot % MAX_WAYS);
        let Rest { order, states } = self.rest(set);
        let order = used_longest_ago(order, way as u64, self.ways);
        self.set_rest(set, Rest { order, states: states & !(STATE << (2 * way)) });
    }

    /// Empties some sets.
    pub fn clear(&mut self, sets: std::ops::Range<usize>) {
        for set in sets {
            let keys = 4 * self.ways;
            self.bytes[set * LINE..][..keys].fill(0);
            self.set_rest(set, Rest { order: IDENTITY, states: 0 });
        }
    }

    /// All entries: set, slot, key and state.
    pub fn iter(&self) -> impl Iterator<Item = (usize, usize, u32, u32)> + '_ {
        let ways = (0..self.sets)
            .flat_map(move |set| (0..self.ways).map(move |way| (set, set * MAX_WAYS + way)));
        let full = ways.filter(|(_, slot)| self.state(*slot) != 0);
        full.map(|(set, slot)| (set, slot, self.key(slot), self.state(slot)))
    }

    /// Checks that every order word names each way once, that no key is twice in a set, and that
    /// what is empty has no state.
    pub fn validate(&self) {
        for set in 0..self.sets {
            let order = self.rest(set).order;
            let named = (0..16).fold(0u32, |named, at| named | 1 << (order >> (4 * at) & 15));
            assert_eq!(named, 0xFFFF, "the order of set {set} is {order:#x}");
            let slots = set * MAX_WAYS..set * MAX_WAYS + self.ways;
            for slot in slots.clone() {
                let (word, state) = (self.word(slot), self.state(slot));
                assert_eq!(state == 0, word == 0, "slot {slot} of set {set}: {word:#x} in {state}");
                let same = slots.clone().filter(|other| word != 0 && self.word(*other) == word);
                assert!(same.count() <= 1, "set {set} holds {word:#x} more than once");
            }
        }
    }
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

#[inline]
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
