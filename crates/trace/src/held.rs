//! Blocks of frames that are in use, found by any frame in them.

use std::collections::BTreeMap;

use prairie_frames::{Order, Pfn};

/// An aligned block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Block {
    pub pfn: Pfn,
    pub order: Order,
}

impl Block {
    fn end(self) -> u64 {
        self.pfn.0.saturating_add(self.order.frames())
    }
}

/// Blocks without overlap, each with something that belongs to it.
///
/// A block may be freed in parts (the kernel splits compound pages, and returns the tail of an
/// allocation that was too large), so taking out a part leaves the rest.
#[derive(Debug)]
pub struct Held<T> {
    blocks: BTreeMap<u64, (Order, T)>,
}

impl<T> Default for Held<T> {
    fn default() -> Self {
        Held { blocks: BTreeMap::new() }
    }
}

impl<T: Copy> Held<T> {
    /// Adds a block; none of its frames may be held.
    pub fn insert(&mut self, block: Block, value: T) {
        self.blocks.insert(block.pfn.0, (block.order, value));
    }

    /// Takes out all frames of `block` that are held, as blocks. Logarithmic, and linear in what
    /// is taken out.
    pub fn remove(&mut self, block: Block) -> Vec<(Block, T)> {
        let mut removed = Vec::new();
        let before = self.blocks.range(..=block.pfn.0).next_back();
        if let Some((&start, &(order, value))) = before {
            let around = Block { pfn: Pfn(start), order };
            if around.end() > block.pfn.0 && around.order > block.order {
                self.blocks.remove(&start);
                self.split(around, block, value);
                return vec![(block, value)];
            }
        }
        let inside: Vec<u64> =
            self.blocks.range(block.pfn.0..block.end()).map(|(&start, _)| start).collect();
        for start in inside {
            if let Some((order, value)) = self.blocks.remove(&start) {
                removed.push((Block { pfn: Pfn(start), order }, value));
            }
        }
        removed
    }

    /// Puts back what remains of `around` without `part`: its halves, quarters, … that do not
    /// contain the part.
    fn split(&mut self, around: Block, part: Block, value: T) {
        let mut start = around.pfn.0;
        let mut order = around.order;
        while order > part.order {
            order = Order::new(order.get() - 1).expect("above another order");
            let (low, high) = (start, start + order.frames());
            let (rest, on) = if part.pfn.0 >= high { (low, high) } else { (high, low) };
            self.blocks.insert(rest, (order, value));
            start = on;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a plain array of frames.
        #[test]
        fn same_as_an_array(
            steps in prop::collection::vec((0..256u64, 0..6u8, any::<bool>()), 0..60)
        ) {
            let mut held = Held::default();
            let mut array = [None; 256];
            for (number, &(frame, order, insert)) in (0u32..).zip(&steps) {
                let order = Order::new(order).unwrap();
                let block = Block { pfn: Pfn(frame).align_down(order), order };
                let range = block.pfn.0 as usize..block.end() as usize;
                let expected = array[range.clone()].iter().flatten().count() as u64;
                let removed = held.remove(block);
                prop_assert_eq!(removed.iter().map(|(b, _)| b.order.frames()).sum::<u64>(), expected);
                for (part, value) in removed {
                    for frame in part.pfn.0..part.end() {
                        prop_assert_eq!(array[frame as usize], Some(value));
                    }
                }
                array[range].fill(insert.then_some(number));
                if insert {
                    held.insert(block, number);
                }
            }
        }
    }
}
