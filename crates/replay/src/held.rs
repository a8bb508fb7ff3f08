//! Which recorded frames are allocated at the moment, one bit each.

use prairie_frames::Order;
use prairie_frames::table::Owner;
use prairie_hostmem::{Array, prefetch};

/// A set of owners, that is, of recorded frames.
#[derive(Clone, Debug)]
pub struct Held {
    words: Array<u64>,
}

impl Held {
    /// No owner of `owners` holds a frame.
    pub fn new(owners: u64) -> Held {
        Held { words: Array::zeroed(owners.div_ceil(64) as usize) }
    }

    /// Whether `owner` holds a frame.
    pub fn contains(&self, owner: Owner) -> bool {
        self.words[owner as usize / 64] >> (owner % 64) & 1 == 1
    }

    /// Has the host fetch what is known of `owner`. Changes nothing.
    #[inline]
    pub fn prefetch(&self, owner: Owner) {
        prefetch(&self.words, owner as usize / 64);
    }

    /// Whether any of the `2^order` owners from `first` on, which is aligned, holds a frame.
    pub fn any(&self, first: Owner, order: Order) -> bool {
        self.spans(first, order).any(|(word, mask)| self.words[word] & mask != 0)
    }

    /// Whether all of them do.
    pub fn all(&self, first: Owner, order: Order) -> bool {
        self.spans(first, order).all(|(word, mask)| self.words[word] & mask == mask)
    }

    /// Lets all of them hold their frames.
    pub fn insert(&mut self, first: Owner, order: Order) {
        for (word, mask) in self.spans(first, order) {
            self.words[word] |= mask;
        }
    }

    /// Lets none of them hold anything.
    pub fn remove(&mut self, first: Owner, order: Order) {
        for (word, mask) in self.spans(first, order) {
            self.words[word] &= !mask;
        }
    }

    /// The words that `2^order` aligned owners occupy, and the bits in each.
    fn spans(&self, first: Owner, order: Order) -> impl Iterator<Item = (usize, u64)> + use<> {
        debug_assert_eq!(u64::from(first) % order.frames(), 0, "owner {first}, order {order}");
        let word = first as usize / 64;
        let (words, mask) = match order.frames() {
            frames @ 0..64 => (1, ((1 << frames) - 1) << (first % 64)),
            frames => (frames as usize / 64, u64::MAX),
        };
        (word..word + words).map(move |word| (word, mask))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn agrees_with_a_set_of_numbers(steps in prop::collection::vec(
            (0..1024u32, 0..=8u8, any::<bool>()), 1..60)
        ) {
            let mut held = Held::new(1024);
            let mut model = BTreeSet::new();
            for (owner, order, insert) in steps {
                let order = Order::new(order).unwrap();
                let first = owner & !(order.frames() as u32 - 1);
                let block = first..first + order.frames() as u32;
                prop_assert_eq!(held.any(first, order), block.clone().any(|o| model.contains(&o)));
                prop_assert_eq!(held.all(first, order), block.clone().all(|o| model.contains(&o)));
                if insert {
                    held.insert(first, order);
                    model.extend(block);
                } else {
                    held.remove(first, order);
                    model.retain(|o| !block.contains(o));
                }
                prop_assert!((0..1024).all(|o| held.contains(o) == model.contains(&o)));
            }
        }
    }
}
