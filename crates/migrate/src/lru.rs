//! Associative sets with exact least-recently-used replacement, packed for speed.
//!
//! Caches, directories, TLBs and walk caches are all [`Sets`]. The keys of a set are one 64-byte
//! line of the host's cache, compared all at once. The ages of up to sixteen ways are sixteen bytes,
//! 0 for the way used last; a use makes all younger ones older at once. Up to twelve ways leave room
//! for their ages in the line of their keys, which a look-up thus touches alone; of more ways they
//! lie apart. How many ways are checked is known when this is compiled, by [`Shape`].
//!
//! ```text
//! word    key | note | state (2 bits), 1 to 3; 0 = empty, and the key has all bits set
//! ages    a byte a way, 0 … ways - 1, each once
//! set     words of at most 12 ways, ages              a line of the host's cache
//!         words of 16 ways; ages of all sets elsewhere
//! ```
//!
//! Further data of an entry (a frame, a set of sharers) lies in an array of the owner, indexed by
//! [`Slot`]. If it is small, it lies in the entry's note: bits that are known to be 0 in every key,
//! such as those that name a cache's set.

use std::fmt::Debug;
use std::marker::PhantomData;

use prairie_hostmem::{Array, count_up_below, equal, equal_bytes, prefetch};

/// The maximum number of ways: the words of a line of the host's cache.
pub const MAX_WAYS: usize = 16;

/// Bytes of a set: a line of the host's cache.
const LINE: usize = 64;
/// The bits of a state in a word.
const STATE: u32 = 3;
/// The position of the note in a word.
const NOTE_SHIFT: u32 = STATE.count_ones();

/// The age of each way of a set.
type Ages = [u8; MAX_WAYS];

/// How much room a set has: what code is compiled for. Sets of fewer ways leave some of it empty.
pub trait Shape: Clone + Debug + Send + 'static {
    /// Quadruples of ways, 1 to 4.
    const FOURS: usize;
    /// Ways.
    const WAYS: usize = 4 * Self::FOURS;
    /// Whether the words of a set leave no room for its ages.
    const IS_FULL: bool = Self::WAYS == MAX_WAYS;
}

/// Room for `N` quadruples of ways.
#[derive(Clone, Debug)]
pub struct Fours<const N: usize>;

impl<const N: usize> Shape for Fours<N> {
    const FOURS: usize = N;
}

/// The sets of one cache or TLB, all empty at first.
#[derive(Clone, Debug)]
pub struct Sets<S: Shape> {
    ways: usize,
    /// The age of the way used longest ago.
    oldest: u8,
    /// The bits of a key, which an empty way has all set.
    key: u32,
    /// The words of each set, and its ages where there is room.
    lines: Array<[u8; LINE]>,
    /// The ages of each set where there is none.
    apart: Array<Ages>,
    shape: PhantomData<S>,
}

/// Where a key belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The set.
    pub set: usize,
    /// The key.
    pub key: u32,
}

/// Where an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    set: usize,
    way: usize,
}

impl Slot {
    /// Its place in an array of what else entries carry.
    #[inline(always)]
    pub fn index(self) -> usize {
        self.set * MAX_WAYS + self.way
    }

    #[inline(always)]
    fn of(set: usize, way: u32) -> Slot {
        Slot { set, way: way.trailing_zeros() as usize }
    }
}

/// The entry that an insertion evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// Its key.
    pub key: u32,
    /// Its state, 1 to 3.
    pub state: u32,
    /// Its note.
    pub note: u32,
}

impl<S: Shape> Sets<S> {
    /// `sets` empty sets of `ways` ways, at most [`Shape::WAYS`], for keys whose lowest `free` bits,
    /// two at least, are 0.
    pub fn new(sets: usize, ways: usize, free: u32) -> Sets<S> {
        assert!((1..=S::WAYS).contains(&ways) && (2..=30).contains(&free), "{ways} ways, {free}");
        let mut all = Sets {
            ways,
            oldest: ways as u8 - 1,
            key: u32::MAX << free,
            lines: Array::zeroed(sets),
            apart: Array::zeroed(if S::IS_FULL { sets } else { 0 }),
            shape: PhantomData,
        };
        all.clear(0..sets);
        all
    }

    /// How many slots there are, for arrays indexed by slot: somewhat more than entries.
    pub fn slots(&self) -> usize {
        self.lines.len() * MAX_WAYS
    }

    /// Bytes of host memory that the sets take.
    pub fn bytes(&self) -> usize {
        self.lines.len() * LINE + self.apart.len() * MAX_WAYS
    }

    /// The state, note and key of a slot.
    #[inline(always)]
    fn word(&self, slot: Slot) -> u32 {
        u32::from_le_bytes(self.lines[slot.set].as_chunks().0[slot.way % MAX_WAYS])
    }

    #[inline(always)]
    fn set_word(&mut self, slot: Slot, word: u32) {
        self.replace_word(slot, word);
    }

    /// Returns the previous word.
    #[inline(always)]
    fn replace_word(&mut self, slot: Slot, word: u32) -> u32 {
        let there = &mut self.lines[slot.set].as_chunks_mut().0[slot.way % MAX_WAYS];
        u32::from_le_bytes(std::mem::replace(there, word.to_le_bytes()))
    }

    #[inline(always)]
    fn ages(&self, set: usize) -> &Ages {
        match S::IS_FULL {
            true => &self.apart[set],
            false => self.lines[set].last_chunk().expect("64 bytes"),
        }
    }

    #[inline(always)]
    fn ages_mut(&mut self, set: usize) -> &mut Ages {
        match S::IS_FULL {
            true => &mut self.apart[set],
            false => self.lines[set].last_chunk_mut().expect("64 bytes"),
        }
    }

    /// The way that holds a key, as a bit; 0 if none does.
    #[inline(always)]
    fn holding(&self, Place { set, key }: Place) -> u32 {
        let all: &[[u8; 16]; 4] = self.lines[set].as_chunks().0.try_into().expect("64 bytes");
        match S::FOURS {
            1 => equal::<1>(all.first_chunk().expect("one of four"), self.key, key),
            2 => equal::<2>(all.first_chunk().expect("two of four"), self.key, key),
            3 => equal::<3>(all.first_chunk().expect("three of four"), self.key, key),
            _ => equal::<4>(all, self.key, key),
        }
    }

    /// The way of `set` used longest ago, as a bit. An emptied one was.
    #[inline(always)]
    fn used_longest_ago(&self, set: usize) -> u32 {
        equal_bytes(self.ages(set), self.oldest)
    }

    /// The slot of a key, its age unchanged.
    #[inline(always)]
    pub fn find(&self, at: Place) -> Option<Slot> {
        let way = self.holding(at);
        (way != 0).then(|| Slot::of(at.set, way))
    }

    /// The slot of a key, which becomes the one used last.
    #[inline(always)]
    pub fn touch(&mut self, at: Place) -> Option<Slot> {
        let slot = self.find(at)?;
        self.use_slot(slot);
        Some(slot)
    }

    /// Uses a key, and puts it there, in state 1, if it is not. Returns whether it was. Which of the
    /// two is not branched on, for it cannot be predicted.
    #[inline(always)]
    pub fn take(&mut self, at: Place) -> bool {
        let (holding, oldest) = (self.holding(at), self.used_longest_ago(at.set));
        let slot = Slot::of(at.set, if holding != 0 { holding } else { oldest });
        self.set_word(slot, at.key | 1);
        self.use_slot(slot);
        holding != 0
    }

    /// The entry in `slot` becomes the one used last.
    #[inline(always)]
    pub fn use_slot(&mut self, slot: Slot) {
        let ages = self.ages_mut(slot.set);
        *ages = used_last(*ages, slot.way, ages[slot.way % MAX_WAYS]);
    }

    /// Has the set brought into the host's cache.
    #[inline(always)]
    pub fn prefetch(&self, set: usize) {
        prefetch(&self.lines, set);
        if S::IS_FULL {
            prefetch(&self.apart, set);
        }
    }

    /// The key that the next insertion into `set` would put out, if any.
    #[inline(always)]
    pub fn next_out(&self, set: usize) -> Option<u32> {
        let word = self.word(Slot::of(set, self.used_longest_ago(set)));
        (word & STATE != 0).then_some(word & self.key)
    }

    /// The state of the entry in `slot`; 0 if there is none.
    #[inline(always)]
    pub fn state(&self, slot: Slot) -> u32 {
        self.word(slot) & STATE
    }

    /// The key of the entry in `slot`.
    pub fn key(&self, slot: Slot) -> u32 {
        debug_assert_ne!(self.state(slot), 0, "{slot:?} is empty");
        self.word(slot) & self.key
    }

    /// Changes the state (1 to 3) of the entry in `slot`.
    #[inline(always)]
    pub fn set_state(&mut self, slot: Slot, state: u32) {
        debug_assert!(self.state(slot) != 0 && (1..=3).contains(&state));
        self.set_word(slot, self.word(slot) & !STATE | state);
    }

    /// How many different notes an entry can carry, from 0 on.
    pub fn notes(&self) -> usize {
        1 << (self.key.trailing_zeros() - NOTE_SHIFT)
    }

    /// The note of the entry in `slot`: 0 when it was put there.
    #[inline(always)]
    pub fn note(&self, slot: Slot) -> u32 {
        (self.word(slot) & !self.key) >> NOTE_SHIFT
    }

    /// Changes the note of the entry in `slot`.
    #[inline(always)]
    pub fn set_note(&mut self, slot: Slot, note: u32) {
        debug_assert!((note as usize) < self.notes());
        self.set_word(slot, self.word(slot) & (self.key | STATE) | note << NOTE_SHIFT);
    }

    /// Puts a key, which is not there, in the place of the entry used longest ago, as the one used
    /// last. Returns its slot and what had to go.
    #[inline(always)]
    pub fn insert(&mut self, at: Place, state: u32, note: u32) -> (Slot, Option<Evicted>) {
        let Place { set, key } = at;
        debug_assert!(key & !self.key == 0 && key != self.key && (1..=3).contains(&state));
        debug_assert!(self.find(at).is_none(), "key {key} twice in set {set}");
        let oldest = self.oldest;
        let ages = self.ages_mut(set);
        let slot = Slot::of(set, equal_bytes(ages, oldest));
        *ages = used_last(*ages, slot.way, oldest);
        let old = self.replace_word(slot, key | note << NOTE_SHIFT | state);
        let (key, note) = (old & self.key, (old & !self.key) >> NOTE_SHIFT);
        let evicted = Evicted { key, state: old & STATE, note };
        (slot, (evicted.state != 0).then_some(evicted))
    }

    /// Empties `slot`, which the next insertion into its set then takes.
    #[inline(always)]
    pub fn remove(&mut self, slot: Slot) {
        self.set_word(slot, self.key);
        let oldest = self.oldest;
        let ages = self.ages_mut(slot.set);
        *ages = used_longest_ago(*ages, slot.way, oldest);
    }

    /// Empties some sets.
    pub fn clear(&mut self, sets: std::ops::Range<usize>) {
        for set in sets {
            for way in 0..S::WAYS {
                self.set_word(Slot { set, way }, self.key);
            }
            *self.ages_mut(set) = std::array::from_fn(|way| way as u8);
        }
    }

    /// All entries: set, slot, key and state.
    pub fn iter(&self) -> impl Iterator<Item = (usize, Slot, u32, u32)> + '_ {
        let slots = (0..self.lines.len())
            .flat_map(move |set| (0..self.ways).map(move |way| Slot { set, way }));
        let full = slots.filter(|slot| self.state(*slot) != 0);
        full.map(|slot| (slot.set, slot, self.key(slot), self.state(slot)))
    }

    /// Checks that every age is that of one way, that no key is twice in a set, and that what is
    /// empty has no state.
    pub fn validate(&self) {
        for set in 0..self.lines.len() {
            let ages = self.ages(set);
            let seen = ages[..self.ways].iter().fold(0u32, |seen, age| seen | 1 << age);
            assert_eq!(seen, (1 << self.ways) - 1, "the ages of set {set} are {ages:?}");
            let slots = (0..self.ways).map(|way| Slot { set, way });
            for slot in slots.clone() {
                let (key, state) = (self.word(slot) & self.key, self.state(slot));
                assert_eq!(state == 0, key == self.key, "{slot:?}: {key:#x} in {state}");
                let same = slots.clone().filter(|other| self.word(*other) & self.key == key);
                assert!(state == 0 || same.count() == 1, "set {set} holds {key:#x} twice");
            }
        }
    }
}

/// For each way, the bytes of all others.
const OTHERS: [Ages; MAX_WAYS] = {
    let mut others = [[0xFF; MAX_WAYS]; MAX_WAYS];
    let mut way = 0;
    while way < MAX_WAYS {
        others[way][way] = 0;
        way += 1;
    }
    others
};

/// Ages after `way`, whose age is known, became the one used last. Unused ways are older than all
/// that are used, and stay so.
#[inline(always)]
fn used_last(ages: Ages, way: usize, age: u8) -> Ages {
    count_up_below(&ages, age, &OTHERS[way % MAX_WAYS])
}

/// Ages after `way` became the one used longest ago.
#[inline(always)]
fn used_longest_ago(ages: Ages, way: usize, oldest: u8) -> Ages {
    let (age, others) = (ages[way % MAX_WAYS], &OTHERS[way % MAX_WAYS]);
    let mut after = ages;
    for (after, others) in after.iter_mut().zip(others) {
        let is_older = *after as i8 > age as i8 && *after as i8 <= oldest as i8;
        *after = after.wrapping_sub(u8::from(is_older)) & others | oldest & !others;
    }
    after
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(set: usize, key: u32) -> Place {
        Place { set, key }
    }

    #[test]
    fn the_entry_used_longest_ago_goes() {
        let mut sets = Sets::<Fours<1>>::new(1, 3, 2);
        for key in [40, 44, 48] {
            assert_eq!(sets.insert(at(0, key), 1, 0).1, None);
        }
        assert!(sets.touch(at(0, 40)).is_some());
        assert_eq!(sets.insert(at(0, 52), 2, 0).1, Some(Evicted { key: 44, state: 1, note: 0 }));
        let slot = sets.find(at(0, 40)).unwrap();
        sets.remove(slot);
        assert_eq!(sets.insert(at(0, 56), 1, 0).1, None, "the emptied way is taken first");
        assert_eq!(sets.insert(at(0, 60), 1, 0).1, Some(Evicted { key: 48, state: 1, note: 0 }));
    }

    #[test]
    fn a_key_of_zero_is_not_an_empty_way() {
        let mut sets = Sets::<Fours<1>>::new(2, 4, 2);
        assert_eq!(sets.find(at(0, 0)), None);
        sets.insert(at(0, 0), 1, 0);
        assert_eq!(sets.find(at(0, 0)), sets.touch(at(0, 0)));
        assert_eq!(sets.iter().count(), 1);
        assert_eq!(sets.find(at(1, 0)), None);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Touch(u32),
        Insert(u32),
        Remove(u32),
    }

    /// Against a list of keys in order of use.
    fn do_as_a_list<S: Shape>(ways: usize, free: u32, steps: &[Step]) -> Result<(), TestCaseError> {
        let mut sets = Sets::<S>::new(2, ways, free);
        prop_assert_eq!(sets.notes(), 1 << (free - 2));
        // A note where there is room for one.
        let note = |key: u32| (key >> 7) & ((1 << (free - 2)) - 1);
        let entry = |key: u32| Evicted { key, state: 1 + (key >> 7) % 3, note: note(key) };
        let mut model: Vec<u32> = Vec::new();
        for step in steps {
            match *step {
                Step::Touch(key) => {
                    let there = model.contains(&key);
                    prop_assert_eq!(sets.touch(at(1, key)).is_some(), there);
                    if there {
                        model.retain(|other| *other != key);
                        model.insert(0, key);
                    }
                }
                Step::Insert(key) if !model.contains(&key) => {
                    model.insert(0, key);
                    let gone = if model.len() > ways { model.pop() } else { None };
                    let (slot, evicted) = sets.insert(at(1, key), entry(key).state, note(key));
                    prop_assert_eq!(sets.key(slot), key);
                    prop_assert_eq!(sets.note(slot), note(key));
                    sets.set_note(slot, 0);
                    sets.set_note(slot, note(key));
                    prop_assert_eq!(evicted, gone.map(entry));
                }
                Step::Insert(_) => {}
                Step::Remove(key) => {
                    if let Some(slot) = sets.find(at(1, key)) {
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
        Ok(())
    }

    fn step() -> impl Strategy<Value = Step> {
        (0u32..24, 0u8..4).prop_map(|(number, what)| match (number << 7, what) {
            (key, 0) => Step::Touch(key),
            (key, 1) => Step::Remove(key),
            (key, _) => Step::Insert(key),
        })
    }

    proptest! {
        #[test]
        fn sets_do_as_a_list_in_order_of_use(
            ways in 1usize..=16,
            free in prop_oneof![Just(2u32), Just(7)],
            steps in prop::collection::vec(step(), 0..200),
        ) {
            match ways.div_ceil(4) {
                1 => do_as_a_list::<Fours<1>>(ways, free, &steps)?,
                2 => do_as_a_list::<Fours<2>>(ways, free, &steps)?,
                3 => do_as_a_list::<Fours<3>>(ways, free, &steps)?,
                _ => {}
            }
            do_as_a_list::<Fours<4>>(ways, free, &steps)?;
        }
    }
}
