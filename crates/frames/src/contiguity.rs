//! Available and potential contiguity (Contiguitas, Figures 2, 5).
//!
//! Both measures count aligned blocks of one order, because that is what an allocation of that
//! order and a huge page of that size need. They work on pageblock counts, so they answer for
//! orders from [`Order::HUGE`] up, in one pass over `frames / 512` entries.

use crate::{BlockCounts, Order, Pfn};

/// How frames of [`Mobility::Unknown`](crate::Mobility::Unknown) are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unknown {
    /// As if software could move them: the optimistic answer.
    AsMovable,
    /// As if it could not: the pessimistic answer.
    AsUnmovable,
}

/// A run of pageblocks without a gap, which belong to one node.
#[derive(Clone, Copy, Debug)]
pub struct Blocks<'a> {
    /// First frame of the first block; a multiple of 512.
    pub start: Pfn,
    /// The blocks, ascending.
    pub counts: &'a [BlockCounts],
}

/// Number of aligned blocks of `order` that full compaction could turn into free memory: all of
/// their frames exist and none is unmovable.
///
/// # Panics
/// If `order` is below [`Order::HUGE`], or the run does not start on a pageblock.
pub fn potential_blocks(blocks: Blocks<'_>, order: Order, unknown: Unknown) -> u64 {
    count_aligned(blocks, order, |block| could_be_emptied(block, unknown))
}

/// Whether full compaction could turn a whole pageblock into free memory.
pub fn could_be_emptied(block: &BlockCounts, unknown: Unknown) -> bool {
    block.is_whole()
        && block.unmovable == 0
        && (unknown == Unknown::AsMovable || block.unknown == 0)
}

/// Number of aligned blocks of `order` that are wholly free now.
///
/// # Panics
/// If `order` is below [`Order::HUGE`], or the run does not start on a pageblock.
pub fn free_blocks(blocks: Blocks<'_>, order: Order) -> u64 {
    count_aligned(blocks, order, |b| b.free == BlockCounts::FRAMES)
}

/// Counts aligned groups of pageblocks that all satisfy `good`.
fn count_aligned(blocks: Blocks<'_>, order: Order, good: impl Fn(&BlockCounts) -> bool) -> u64 {
    assert!(order >= Order::HUGE, "order {order} is smaller than a pageblock");
    assert!(
        blocks.start.is_aligned(Order::HUGE),
        "run starts inside a pageblock: {}",
        blocks.start
    );
    let group = (order.frames() / Order::HUGE.frames()) as usize;
    let misalignment = (blocks.start.0 / Order::HUGE.frames()) as usize % group;
    let skip = (group - misalignment) % group;
    let aligned = blocks.counts.get(skip..).unwrap_or_default();
    aligned.chunks_exact(group).filter(|chunk| chunk.iter().all(&good)).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mobility;
    use std::vec::Vec;

    /// A map drawn by hand, a letter a pageblock: `.` free, `m` movable, `U` one unmovable frame
    /// and the rest movable, `?` one unknown frame and the rest free, `h` half of it a hole.
    fn drawn(map: &str) -> Vec<BlockCounts> {
        map.chars()
            .map(|letter| {
                let mut counts = BlockCounts::default();
                let (first, rest) = match letter {
                    '.' => (Mobility::Free, Mobility::Free),
                    'm' => (Mobility::Movable, Mobility::Movable),
                    'U' => (Mobility::Unmovable, Mobility::Movable),
                    '?' => (Mobility::Unknown, Mobility::Free),
                    'h' => {
                        counts.add(Mobility::Free, 256);
                        return counts;
                    }
                    other => panic!("no such block: {other}"),
                };
                counts.add(first, 1);
                counts.add(rest, 511);
                counts
            })
            .collect()
    }

    #[test]
    fn one_unmovable_frame_pollutes_its_block_and_every_larger_one() {
        let counts = drawn("mm.m mU.. .... ...?".replace(' ', "").as_str());
        let blocks = Blocks { start: Pfn(0), counts: &counts };
        let order_11 = Order::new(11).unwrap();
        assert_eq!(potential_blocks(blocks, Order::HUGE, Unknown::AsMovable), 15);
        assert_eq!(potential_blocks(blocks, Order::HUGE, Unknown::AsUnmovable), 14);
        assert_eq!(potential_blocks(blocks, order_11, Unknown::AsMovable), 3);
        assert_eq!(potential_blocks(blocks, order_11, Unknown::AsUnmovable), 2);
        assert_eq!(potential_blocks(blocks, Order::MIB_32, Unknown::AsMovable), 0);
        assert_eq!(free_blocks(blocks, Order::HUGE), 10);
        assert_eq!(free_blocks(blocks, order_11), 1);
    }

    #[test]
    fn only_aligned_whole_blocks_count() {
        let counts = drawn("....h...");
        let order_10 = Order::LARGEST_FREE;
        let from_even = Blocks { start: Pfn(0), counts: &counts };
        assert_eq!(free_blocks(from_even, order_10), 3);
        // Starting one pageblock later, the pairs fall differently: .[..][.h][..]. -> 2.
        let from_odd = Blocks { start: Pfn(512), counts: &counts };
        assert_eq!(free_blocks(from_odd, order_10), 2);
        assert_eq!(free_blocks(Blocks { start: Pfn(512), counts: &counts[..1] }, order_10), 0);
    }
}
