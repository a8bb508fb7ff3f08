//! The mark of every page: the type of its last allocation (`PG_easyrclm`).

use alloc::vec;
use alloc::vec::Vec;

use super::Reclaimability;
use crate::Order;
use crate::layout::Frame;

/// Bits that a mark takes.
const BITS: u32 = 2;
/// Marks in a word.
const PER_WORD: u32 = u64::BITS / BITS;

/// A mark for each frame. All frames of a block carry it, so that parts of a block that are freed
/// one by one find their lists.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    words: Vec<u64>,
}

impl Marks {
    /// Marks for `frames` frames, all of [`Reclaimability::KernNoRclm`]: a page that was never
    /// allocated has no flag set.
    pub(super) fn new(frames: u64) -> Marks {
        Marks { words: vec![0; frames.div_ceil(u64::from(PER_WORD)) as usize] }
    }

    pub(super) fn get(&self, frame: Frame) -> Reclaimability {
        let bits = self.words[(frame.0 / PER_WORD) as usize] >> (frame.0 % PER_WORD * BITS) & 3;
        Reclaimability::ALL[bits as usize]
    }

    /// Marks all frames of an aligned block.
    pub(super) fn set(&mut self, frame: Frame, order: Order, mark: Reclaimability) {
        // The mark repeated over the word, and the part of the word that the block takes.
        let pattern = (u64::MAX / 3) * mark as u64;
        let word = (frame.0 / PER_WORD) as usize;
        let marks = order.frames() as u32;
        if marks < PER_WORD {
            let mask = ((1 << (marks * BITS)) - 1) << (frame.0 % PER_WORD * BITS);
            self.words[word] = self.words[word] & !mask | pattern & mask;
            return;
        }
        self.words[word..word + (marks / PER_WORD) as usize].fill(pattern);
    }

    pub(super) fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn agree_with_a_list_of_types(
            steps in prop::collection::vec((0..2048u32, 0..=10u8, 0..3usize), 1..40)
        ) {
            let mut marks = Marks::new(2048);
            let mut model: Vec<Reclaimability> = vec![Reclaimability::KernNoRclm; 2048];
            for (frame, order, mark) in steps {
                let (order, mark) = (Order::new(order).unwrap(), Reclaimability::ALL[mark]);
                let frame = Frame(frame).align_down(order);
                marks.set(frame, order, mark);
                model[frame.index()..frame.index() + order.frames() as usize].fill(mark);
                for (at, &expected) in model.iter().enumerate() {
                    prop_assert_eq!(marks.get(Frame(at as u32)), expected);
                }
            }
        }
    }
}
