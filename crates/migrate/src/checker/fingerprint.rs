//! Visited states as fingerprints of 64 bits.
//!
//! Two states with one fingerprint would be taken for one, and what lies behind the second would
//! not be seen. Among n states the chance of any such pair is about n² / 2⁶⁵: 3·10⁻⁶ for ten
//! million states. Every result reports it; a second run with another `key` squares it.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Multiplies to 128 bits and folds: every bit of the input reaches every bit of the result.
#[derive(Clone, Copy)]
struct Folding {
    hash: u64,
}

const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Folding {
    #[inline]
    fn word(&mut self, word: u64) {
        let product = u128::from(self.hash ^ word) * u128::from(ODD ^ word.rotate_left(32));
        let folded = product as u64 ^ (product >> 64) as u64;
        // A factor of zero must not forget what came before.
        self.hash = folded ^ self.hash.rotate_left(23).wrapping_mul(ODD);
    }
}

impl Hasher for Folding {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.word(u64::from_le_bytes(last));
        }
    }

    #[inline]
    fn write_u8(&mut self, value: u8) {
        self.word(u64::from(value));
    }

    #[inline]
    fn write_u16(&mut self, value: u16) {
        self.word(u64::from(value));
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.word(value);
    }

    // The length of an array is the same in every state.
    #[inline]
    fn write_usize(&mut self, _: usize) {}

    #[inline]
    fn finish(&self) -> u64 {
        let product = u128::from(self.hash ^ (self.hash >> 29)) * u128::from(ODD);
        product as u64 ^ (product >> 64) as u64
    }
}

/// The fingerprint of a state; never 0. Equal keys give equal fingerprints on every machine.
#[inline]
pub fn of<S: Hash>(state: &S, key: u64) -> u64 {
    let mut folding = Folding { hash: key.wrapping_mul(ODD) ^ 0x51_7c_c1_b7_27_22_0a_95 };
    state.hash(&mut folding);
    folding.finish().max(1)
}

/// The chance that among `states` any two have one fingerprint.
#[must_use]
pub fn collision_chance(states: u64) -> f64 {
    (states as f64).powi(2) / 2f64.powi(65)
}

/// A set of fingerprints that several threads enter at once: flat tables, 8 bytes a slot, at most
/// four in five of them used.
///
/// A fingerprint's place is its share of 2⁶⁴, so the tables are nearly sorted, and growing one by
/// half copies it from front to back instead of scattering it over memory. There are 64, by the
/// highest bits, each growing by itself: the set never stands in memory twice.
pub struct Fingerprints {
    tables: Vec<Table>,
}

/// The highest bits of a fingerprint that choose the table.
const TABLE_BITS: u32 = 6;
/// Slots of a table at first. A fifth of them is more than the threads of any machine enter
/// between one of them finding it crowded and its growing.
const FIRST_SLOTS: usize = 1 << 12;

struct Table {
    /// 0 is an empty slot.
    slots: Vec<AtomicU64>,
    len: Len,
}

/// Slots in use. It has a cache line of its own: each thread writes it with every new fingerprint,
/// and where the slots are is read for every fingerprint looked up.
#[repr(align(64))]
struct Len(AtomicUsize);

impl Default for Fingerprints {
    fn default() -> Self {
        // Of all sizes up to the first growth, so that they do not grow all at once, and the set
        // is always about two thirds full.
        let slots = |nth: usize| FIRST_SLOTS + FIRST_SLOTS / 2 * nth / (1 << TABLE_BITS);
        Fingerprints { tables: (0..1 << TABLE_BITS).map(|nth| Table::new(slots(nth))).collect() }
    }
}

impl Fingerprints {
    /// Adds a fingerprint that is not 0; false if it was there. The caller [grows](Self::grow) the
    /// set when it has become [crowded](Self::is_crowded).
    #[inline]
    pub fn insert(&self, fingerprint: u64) -> bool {
        let table = self.table(fingerprint);
        let new = table.put(fingerprint);
        if new {
            table.len.0.fetch_add(1, Ordering::Relaxed);
        }
        new
    }

    /// Whether a fingerprint that is not 0 is in the set. One that another thread enters at the
    /// same time may be missed.
    #[inline]
    #[must_use]
    pub fn contains(&self, fingerprint: u64) -> bool {
        self.table(fingerprint).has(fingerprint)
    }

    /// Whether there is too little room left near a fingerprint.
    #[inline]
    #[must_use]
    pub fn is_crowded(&self, fingerprint: u64) -> bool {
        self.table(fingerprint).is_crowded()
    }

    /// Makes more room near a fingerprint, if it is needed.
    pub fn grow(&mut self, fingerprint: u64) {
        let table = &mut self.tables[(fingerprint >> (64 - TABLE_BITS)) as usize];
        if table.is_crowded() {
            table.grow();
        }
    }

    /// Fingerprints in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tables.iter().map(|table| table.len.0.load(Ordering::Relaxed)).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory of the tables.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.tables.iter().map(|table| table.slots.capacity() * size_of::<u64>()).sum()
    }

    #[inline]
    fn table(&self, fingerprint: u64) -> &Table {
        &self.tables[(fingerprint >> (64 - TABLE_BITS)) as usize]
    }
}

impl Table {
    fn new(slots: usize) -> Table {
        Table {
            slots: (0..slots).map(|_| AtomicU64::new(0)).collect(),
            len: Len(AtomicUsize::new(0)),
        }
    }

    #[inline]
    fn place(&self, fingerprint: u64) -> usize {
        let share = u128::from(fingerprint << TABLE_BITS);
        ((share * self.slots.len() as u128) >> 64) as usize
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() { 0 } else { at + 1 }
    }

    #[inline]
    fn has(&self, fingerprint: u64) -> bool {
        let mut at = self.place(fingerprint);
        loop {
            match self.slots[at].load(Ordering::Relaxed) {
                0 => return false,
                there if there == fingerprint => return true,
                _ => at = self.after(at),
            }
        }
    }

    /// Of threads that put the same fingerprint at once, exactly one gets true: a slot is never
    /// emptied, so all of them reach the same slot, and one of the exchanges succeeds.
    #[inline]
    fn put(&self, fingerprint: u64) -> bool {
        let mut at = self.place(fingerprint);
        loop {
            let slot = &self.slots[at];
            let mut there = slot.load(Ordering::Relaxed);
            if there == 0 {
                let (old, new) = (Ordering::Relaxed, Ordering::Relaxed);
                match slot.compare_exchange(0, fingerprint, old, new) {
                    Ok(_) => return true,
                    Err(other) => there = other,
                }
            }
            if there == fingerprint {
                return false;
            }
            at = self.after(at);
        }
    }

    #[inline]
    fn is_crowded(&self) -> bool {
        self.len.0.load(Ordering::Relaxed) * 5 >= self.slots.len() * 4
    }

    #[cold]
    fn grow(&mut self) {
        let larger = Table::new(self.slots.len() / 2 * 3);
        for slot in &self.slots {
            let fingerprint = slot.load(Ordering::Relaxed);
            if fingerprint != 0 {
                larger.put(fingerprint);
            }
        }
        self.slots = larger.slots;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn neighboring_states_have_fingerprints_of_their_own() {
        let mut seen = HashSet::new();
        for a in 0..=255u8 {
            for b in 0..=255u8 {
                assert!(seen.insert(of(&([a, 0, b], 0u16), 0)), "{a} {b}");
                assert!(seen.insert(of(&([0, a, 0], u16::from(b) + 256), 0)), "{a} {b}");
            }
        }
        assert_ne!(of(&1u64, 0), of(&1u64, 1), "another key, another fingerprint");
    }

    /// Chi-squared over 256 buckets of a million counted states, of both the highest bits, which
    /// choose the slot, and the lowest.
    #[test]
    fn fingerprints_spread_evenly() {
        for shift in [56, 0] {
            let mut buckets = [0u32; 256];
            for n in 0..1u64 << 20 {
                buckets[(of(&n, 7) >> shift) as usize & 255] += 1;
            }
            let expected = f64::from(1 << 12);
            let chi: f64 =
                buckets.iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
            // Mean 255, deviation 22.6.
            assert!((160.0..360.0).contains(&chi), "chi² {chi} of bits from {shift}");
        }
    }

    proptest! {
        #[test]
        fn the_table_is_a_set(values in prop::collection::vec(1u64.., 0..5000), high: bool) {
            let mut ours = Fingerprints::default();
            let mut plain = HashSet::new();
            for value in values {
                // Crowded at the end, where probing wraps around.
                let value = if high { value | 0xffff_ff00_0000_0000 } else { value % 5000 + 1 };
                prop_assert_eq!(ours.contains(value), plain.contains(&value));
                prop_assert_eq!(ours.insert(value), plain.insert(value));
                ours.grow(value);
                prop_assert!(!ours.is_crowded(value));
            }
            prop_assert_eq!(ours.len(), plain.len());
        }
    }

    /// It grows many times, and loses nothing.
    #[test]
    fn a_table_that_grows_keeps_all() {
        let mut table = Fingerprints::default();
        for n in 0..1_000_000u64 {
            let fingerprint = of(&n, 3);
            assert!(table.insert(fingerprint));
            if table.is_crowded(fingerprint) {
                table.grow(fingerprint);
            }
        }
        assert!((0..1_000_000u64).all(|n| table.contains(of(&n, 3))));
        assert_eq!(table.len(), 1_000_000);
        let each = table.bytes() as f64 / 1e6;
        assert!((10.0..16.0).contains(&each), "{each} bytes each");
    }

    /// Four threads enter the same numbers, from both ends: each is new to one of them.
    #[test]
    fn threads_agree_on_who_was_first() {
        const NUMBERS: u64 = 100_000;
        let table = Fingerprints::default();
        let new = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (table, new) = (&table, &new);
                scope.spawn(move || {
                    for n in 0..NUMBERS {
                        let n = if thread % 2 == 0 { n } else { NUMBERS - 1 - n };
                        new.fetch_add(u64::from(table.insert(of(&n, 5))), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(new.into_inner(), NUMBERS);
        assert_eq!(table.len() as u64, NUMBERS);
    }
}
