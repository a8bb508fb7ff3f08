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
    pub(super) waited: u64,
    pub(super) blocks_emptied: u64,
    pub(super) pages_moved: u64,
    pub(super) strays_evicted: u64,
    pub(super) moved_blocks_split: u64,
    pub(super) below_low: u64,
    pub(super) below_min: u64,
    pub(super) failed: [u64; PER_REGION],
    pub(super) wake_ups: u64,
    pub(super) resizes: u64,
    pub(super) shootdowns: u64,
    pub(super) pages_moved_by_hardware: u64,
    pub(super) pinned: u64,
    pub(super) pinned_in_place: u64,
    pub(super) pins_refused: u64,
    pub(super) unpinned: u64,
    pub(super) unpinned_in_place: u64,
    pub(super) long_lived: u64,
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
                "waited",
                "allocations that found their region exhausted and had the border moved for them",
                counts.waited,
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
                "shootdowns",
                "of the blocks moved, those that needed a TLB shootdown on every CPU",
                counts.shootdowns,
            ),
            counter(
                "pages_moved_by_hardware",
                "of the pages moved, unmovable ones that hardware migrated in use",
                counts.pages_moved_by_hardware,
            ),
            counter(
                "hardware_ns",
                "what hardware migration cost, in nanoseconds",
                counts.pages_moved_by_hardware
                    * self.config.hardware.map_or(0, |hardware| hardware.ns_per_page),
            ),
            counter(
                "wake_ups",
                "times that the resizer looked at the regions, off the allocation path",
                counts.wake_ups,
            ),
            counter("resizes", "times that it moved a border", counts.resizes),
            counter(
                "turns_refused",
                "times that a border had to wait before it turned round",
                self.nodes.iter().map(|node| node.resizer.turns_refused()).sum(),
            ),
            counter(
                "pinned",
                "blocks migrated to the unmovable region to be pinned",
                counts.pinned,
            ),
            counter(
                "pinned_in_place",
                "inherited blocks that lay in the unmovable region when they were pinned",
                counts.pinned_in_place,
            ),
            counter("pins_refused", "pins that found no room", counts.pins_refused),
            counter("unpinned", "blocks that went back when they were unpinned", counts.unpinned),
            counter(
                "unpinned_in_place",
                "blocks that stayed in the unmovable region when they were unpinned",
                counts.unpinned_in_place,
            ),
            counter("long_lived", "blocks placed at the far end for good", counts.long_lived),
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
