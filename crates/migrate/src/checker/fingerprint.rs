//! Visited states as fingerprints of 64 bits.
//!
//! Two states with one fingerprint would be taken for one, and what lies behind the second would
//! not be seen. Among n states the chance of any such pair is about n² / 2⁶⁵: 3·10⁻⁶ for ten
//! million states. It is told with every result; a second run with another `key` squares it.

use std::hash::{Hash, Hasher};

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

/// A set of fingerprints: one flat table, 8 bytes a slot, at most four in five of them used.
///
/// A fingerprint's place is its share of 2⁶⁴, so the table is nearly sorted, and growing by half
/// copies it from front to back instead of scattering it over memory.
pub struct Fingerprints {
    /// 0 is an empty slot.
    slots: Vec<u64>,
    len: usize,
}

impl Default for Fingerprints {
    fn default() -> Self {
        Fingerprints { slots: vec![0; 1 << 10], len: 0 }
    }
}

impl Fingerprints {
    /// Adds a fingerprint that is not 0; false if it was there.
    #[inline]
    pub fn insert(&mut self, fingerprint: u64) -> bool {
        if self.len * 5 >= self.slots.len() * 4 {
            self.grow();
        }
        let new = put(&mut self.slots, fingerprint);
        self.len += usize::from(new);
        new
    }

    /// Fingerprints in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Memory of the table.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<u64>()
    }

    #[cold]
    fn grow(&mut self) {
        let mut larger = vec![0; self.slots.len() / 2 * 3];
        for &fingerprint in self.slots.iter().filter(|&&slot| slot != 0) {
            put(&mut larger, fingerprint);
        }
        self.slots = larger;
    }
}

#[inline]
fn put(slots: &mut [u64], fingerprint: u64) -> bool {
    let mut at = ((u128::from(fingerprint) * slots.len() as u128) >> 64) as usize;
    loop {
        match slots[at] {
            0 => {
                slots[at] = fingerprint;
                return true;
            }
            there if there == fingerprint => return false,
            _ => at = if at + 1 == slots.len() { 0 } else { at + 1 },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn neighbouring_states_have_fingerprints_of_their_own() {
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
        fn the_table_is_a_set(values in prop::collection::vec(1u64.., 0..3000), high: bool) {
            let mut ours = Fingerprints::default();
            let mut plain = HashSet::new();
            for value in values {
                // Crowded at the end, where probing wraps around.
                let value = if high { value | 0xffff_ff00_0000_0000 } else { value % 3000 + 1 };
                prop_assert_eq!(ours.insert(value), plain.insert(value));
            }
            prop_assert_eq!(ours.len(), plain.len());
        }
    }
}
