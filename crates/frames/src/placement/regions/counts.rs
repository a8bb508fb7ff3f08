//! What the placement counts, for reports.

use alloc::vec;
use alloc::vec::Vec;

use super::{PER_REGION, Region, Regions};
use crate::Order;
use crate::placement::Counter;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) growths: u64,
    pub(super) shrinks: u64,
    pub(super) grown_on_failure: u64,
    pub(super) shrunk_on_failure: u64,
    pub(super) blocks_emptied: u64,
    pub(super) pages_moved: u64,
    pub(super) strays_evicted: u64,
    pub(super) moved_blocks_split: u64,
    pub(super) below_low: u64,
    pub(super) below_min: u64,
    pub(super) failed: [u64; PER_REGION],
}

/// Names of the borders' counters. [`Regions::border`] answers for nodes beyond.
const BORDERS: [&str; 8] = [
    "border_node_0",
    "border_node_1",
    "border_node_2",
    "border_node_3",
    "border_node_4",
    "border_node_5",
    "border_node_6",
    "border_node_7",
];

impl Regions {
    /// Every count under its name, and where each node's border is.
    pub(super) fn all_counters(&self) -> Vec<Counter> {
        let counts = &self.counts;
        let counter = |name, meaning, value| Counter { name, meaning, value };
        let mut counters = vec![
            counter("growths", "pageblocks the unmovable region gained", counts.growths),
            counter("shrinks", "pageblocks the unmovable region gave back", counts.shrinks),
            counter(
                "grown_on_failure",
                "of the growths, those on the path of an allocation that would have failed",
                counts.grown_on_failure,
            ),
            counter(
                "shrunk_on_failure",
                "of the shrinks, those on the path of an allocation that would have failed",
                counts.shrunk_on_failure,
            ),
            counter(
                "blocks_emptied",
                "pageblocks that changed sides and held movable pages",
                counts.blocks_emptied,
            ),
            counter("pages_moved", "pages migrated out of the border's way", counts.pages_moved),
            counter(
                "bytes_copied",
                "bytes copied to migrate them",
                counts.pages_moved * Order::BASE.bytes(),
            ),
            counter(
                "moved_blocks_split",
                "times a block was halved because no free one of its size was left",
                counts.moved_blocks_split,
            ),
            counter(
                "inherited_strays",
                "frames allocated before the start that still lie in the wrong region",
                self.outsiders.strays(),
            ),
            counter(
                "strays_evicted",
                "of the pages moved, inherited movable ones that lay in the unmovable region",
                counts.strays_evicted,
            ),
            counter(
                "below_low",
                "allocations that no zone could serve above its low watermark",
                counts.below_low,
            ),
            counter(
                "below_min",
                "allocations that no zone could serve above its min watermark",
                counts.below_min,
            ),
            counter(
                "failed_unmovable",
                "unmovable and reclaimable allocations that nothing fitted",
                counts.failed[Region::Unmovable as usize],
            ),
            counter(
                "failed_movable",
                "movable allocations that nothing fitted",
                counts.failed[Region::Movable as usize],
            ),
        ];
        counters.extend(self.nodes.iter().filter_map(|node| {
            let name = BORDERS.get(usize::from(node.number))?;
            let meaning = "dense number of the first frame of the node's movable region";
            Some(counter(*name, meaning, u64::from(node.border.0)))
        }));
        counters
    }
}
