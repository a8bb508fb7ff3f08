//! Whether a zone is worth compacting for a request (`compaction_suitable`).

use super::{COSTLY, Compactable};
use crate::indices::{FreeBlocks, kernel_fragmentation_index};
use crate::{Order, ZoneKind};

/// Whether to compact a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Suitable {
    /// Nothing: the request can be satisfied as it is.
    Satisfied,
    /// Nothing: too little is free to move pages into, or lack of memory is why it fails.
    Skip,
    /// Compact.
    Compact,
}

/// Up to this fragmentation index, in thousandths, a failure counts as lack of memory
/// (`vm.extfrag_threshold`).
pub const EXTFRAG_THRESHOLD: i64 = 500;

/// Frames that must be free above the watermark: twice what is wanted (`compact_gap`).
pub const fn gap(order: Order) -> u64 {
    2 * order.frames()
}

/// Decides for one zone (`compaction_suitable`). The fragmentation index counts for costly orders
/// only; smaller requests that fail would end in killing a process.
pub fn suitable(
    placement: &impl Compactable,
    zone: usize,
    order: Order,
    highest: ZoneKind,
    threshold: i64,
) -> Suitable {
    let boost = placement.boost(zone);
    let marks = placement.zone(zone).span.watermarks;
    if placement.watermark_ok(zone, order, marks.min + boost, highest) {
        return Suitable::Satisfied;
    }
    worth_it(placement, zone, order, highest, threshold, marks.min)
}

/// Whether reclaim for a request has done enough: it can be satisfied, or compaction can go to work
/// and leave others room above the high mark (`compaction_ready`).
pub fn is_ready(
    placement: &impl Compactable,
    zone: usize,
    order: Order,
    highest: ZoneKind,
    threshold: i64,
) -> bool {
    match suitable(placement, zone, order, highest, threshold) {
        Suitable::Satisfied => true,
        Suitable::Skip => false,
        Suitable::Compact => {
            let high = placement.zone(zone).span.watermarks.high + placement.boost(zone);
            placement.watermark_ok(zone, Order::BASE, high + gap(order), highest)
        }
    }
}

/// The same, but only free memory in whole pageblocks counts. The zone is satisfied with more than
/// `until_blocks` such frames, and must keep its high watermark while pages move
/// (`compaction_suit_allocation_order` of 6.15 for kcompactd in defrag mode).
pub(crate) fn suitable_in_blocks(
    placement: &impl Compactable,
    zone: usize,
    order: Order,
    highest: ZoneKind,
    threshold: i64,
    until_blocks: u64,
) -> Suitable {
    if frames_in_blocks(&placement.movable_counts(zone)) > until_blocks {
        return Suitable::Satisfied;
    }
    let high = placement.zone(zone).span.watermarks.high;
    worth_it(placement, zone, order, highest, threshold, high)
}

/// Free frames in whole pageblocks (`NR_FREE_PAGES_BLOCKS`, 6.15), of free blocks by order.
pub fn frames_in_blocks(counts: &[u64]) -> u64 {
    let whole = counts.iter().enumerate().skip(Order::HUGE.index());
    whole.map(|(order, blocks)| blocks << order).sum()
}

/// Whether there is room above `mark` to move pages into, more of it for a costly order, and the
/// failure is not for lack of memory.
fn worth_it(
    placement: &impl Compactable,
    zone: usize,
    order: Order,
    highest: ZoneKind,
    threshold: i64,
    mark: u64,
) -> Suitable {
    let boost = placement.boost(zone);
    let marks = placement.zone(zone).span.watermarks;
    let more = if order > COSTLY { marks.low - marks.min } else { 0 };
    if !placement.watermark_ok(zone, Order::BASE, mark + more + boost + gap(order), highest) {
        return Suitable::Skip;
    }
    if order > COSTLY {
        let counts = placement.movable_counts(zone);
        let index = kernel_fragmentation_index(FreeBlocks { counts: &counts }, order);
        if (0..=threshold).contains(&index) {
            return Suitable::Skip;
        }
    }
    Suitable::Compact
}
