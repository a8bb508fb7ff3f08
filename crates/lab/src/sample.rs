//! One measurement of a system: how broken its memory is at an instant.

use frames::contiguity::{Unknown, could_be_emptied};
use frames::indices::{self, FreeBlocks};
use frames::placement::Placement;
use frames::{BlockCounts, FrameTable, Layout, Order};
use serde::Serialize;

/// Free blocks of one zone by order, over all migrate types and without per-CPU lists.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ZoneFree {
    /// NUMA node.
    pub node: u16,
    /// The zone's name.
    pub zone: &'static str,
    /// Number of free blocks of each order, ascending from 0.
    pub free_blocks: Vec<u64>,
}

/// Blocks of one size, as counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BlocksBySize {
    /// Aligned 2 MiB blocks.
    pub mib_2: u64,
    /// Aligned 32 MiB blocks.
    pub mib_32: u64,
    /// Aligned 1 GiB blocks.
    pub gib_1: u64,
}

/// The state of a system's memory at one instant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// Nanoseconds since the first event.
    pub time_ns: u64,
    /// Events replayed until then.
    pub events: u64,
    /// Frames that exist.
    pub frames: u64,
    /// Frames that are free, per-CPU lists included.
    pub free_frames: u64,
    /// Frames in use that cannot be moved.
    pub unmovable_frames: u64,
    /// Frames of which it is not known whether they can.
    pub unknown_frames: u64,
    /// F_u(9) over all zones: the share of free memory on the free lists that lies in blocks
    /// smaller than 2 MiB.
    pub unusable_2_mib: f64,
    /// F_u(j) for each order of the free lists, over all zones.
    pub unusable_by_order: Vec<f64>,
    /// Free blocks by zone and order.
    pub zones: Vec<ZoneFree>,
    /// Aligned blocks that are wholly free.
    pub free_blocks: BlocksBySize,
    /// Aligned blocks without an unmovable frame, unknown frames taken as movable.
    pub potential_blocks: BlocksBySize,
    /// The same with unknown frames taken as unmovable.
    pub potential_blocks_at_least: BlocksBySize,
    /// 2 MiB blocks with at least one unmovable frame.
    pub spoiled_blocks: u64,
    /// Allocations that this system could not satisfy, so far.
    pub failed_allocations: u64,
}

impl Sample {
    /// Measures `table` and the free lists of `placement`. Linear in the number of pageblocks.
    pub fn take(
        layout: &Layout,
        table: &FrameTable,
        placement: &impl Placement,
        time_ns: u64,
        events: u64,
        failed_allocations: u64,
    ) -> Sample {
        let zones = layout.zones().iter().enumerate().map(|(index, zone)| ZoneFree {
            node: zone.span.node,
            zone: zone.span.kind.name(),
            free_blocks: sum_types(&placement.free_blocks(index)),
        });
        let zones = zones.collect::<Vec<_>>();
        let all = sum(zones.iter().map(|zone| zone.free_blocks.as_slice()));
        let free = FreeBlocks { counts: &all };
        let last = Order::new(all.len().saturating_sub(1) as u8).unwrap_or(Order::LARGEST_FREE);
        let blocks = table.blocks();
        let total = blocks.iter().fold([0u64; 4], |sum, block| {
            let of = [block.free, block.movable, block.unmovable, block.unknown];
            std::array::from_fn(|i| sum[i] + u64::from(of[i]))
        });
        Sample {
            time_ns,
            events,
            frames: total.iter().sum(),
            free_frames: total[0],
            unmovable_frames: total[2],
            unknown_frames: total[3],
            unusable_2_mib: indices::unusable_free_space(free, Order::HUGE),
            unusable_by_order: Order::up_to(last)
                .map(|order| indices::unusable_free_space(free, order))
                .collect(),
            zones,
            free_blocks: by_size(blocks, |block| block.free == BlockCounts::FRAMES),
            potential_blocks: by_size(blocks, |b| could_be_emptied(b, Unknown::AsMovable)),
            potential_blocks_at_least: by_size(blocks, |b| {
                could_be_emptied(b, Unknown::AsUnmovable)
            }),
            spoiled_blocks: blocks.iter().filter(|block| block.is_spoiled()).count() as u64,
            failed_allocations,
        }
    }

    /// Potential contiguity at 2 MiB, 32 MiB and 1 GiB as shares of all memory (Contiguitas,
    /// Figure 5).
    pub fn potential_shares(&self) -> [f64; 3] {
        let of = |blocks: u64, order: Order| match self.frames {
            0 => 0.0,
            frames => (blocks * order.frames()) as f64 / frames as f64,
        };
        let BlocksBySize { mib_2, mib_32, gib_1 } = self.potential_blocks;
        [of(mib_2, Order::HUGE), of(mib_32, Order::MIB_32), of(gib_1, Order::GIGANTIC)]
    }

    /// How many huge pages of `order` could be allocated once perfect compaction has run: blocks
    /// that can be emptied, as far as there is free memory to fill the emptied ones' place.
    pub fn satisfiable_after_compaction(&self, order: Order) -> u64 {
        let blocks = match order {
            Order::GIGANTIC => self.potential_blocks.gib_1,
            Order::MIB_32 => self.potential_blocks.mib_32,
            _ => self.potential_blocks.mib_2,
        };
        blocks.min(self.free_frames / order.frames())
    }
}

/// Counts aligned blocks of all three sizes of which every pageblock is `good`, in one pass. Dense
/// frame numbers keep alignment up to a gigantic page, so the whole table is one run.
fn by_size(blocks: &[BlockCounts], good: impl Fn(&BlockCounts) -> bool) -> BlocksBySize {
    const PER_32_MIB: usize = 16;
    const PER_GIB: usize = 512;
    let mut counts = BlocksBySize::default();
    for gib in blocks.chunks(PER_GIB) {
        let mut whole = 0;
        for mib_32 in gib.chunks(PER_32_MIB) {
            let found = mib_32.iter().filter(|block| good(block)).count();
            counts.mib_2 += found as u64;
            whole += usize::from(found == PER_32_MIB);
        }
        counts.mib_32 += whole as u64;
        counts.gib_1 += u64::from(whole == PER_GIB / PER_32_MIB);
    }
    counts
}

fn sum_types(by_type: &[(frames::MigrateType, Vec<u64>)]) -> Vec<u64> {
    sum(by_type.iter().map(|(_, counts)| counts.as_slice()))
}

/// The sums, order by order.
fn sum<'a>(rows: impl Iterator<Item = &'a [u64]>) -> Vec<u64> {
    let mut total = Vec::new();
    for row in rows {
        total.resize(total.len().max(row.len()), 0);
        for (sum, count) in total.iter_mut().zip(row) {
            *sum += count;
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use frames::Pfn;
    use frames::contiguity::{Blocks, potential_blocks};
    use proptest::prelude::*;

    proptest! {
        /// One pass over all sizes counts what a pass for each size counts.
        #[test]
        fn sizes_are_counted_as_one_by_one(spoiled in prop::collection::btree_set(0..1536usize, 0..40)) {
            let mut blocks = vec![BlockCounts { free: BlockCounts::FRAMES, ..Default::default() }; 1536];
            for &at in &spoiled {
                blocks[at] = BlockCounts { free: 511, unmovable: 1, ..Default::default() };
            }
            let counts = by_size(&blocks, |b| could_be_emptied(b, Unknown::AsMovable));
            let run = Blocks { start: Pfn(0), counts: &blocks };
            let one = |order| potential_blocks(run, order, Unknown::AsMovable);
            prop_assert_eq!(counts.mib_2, one(Order::HUGE));
            prop_assert_eq!(counts.mib_32, one(Order::MIB_32));
            prop_assert_eq!(counts.gib_1, one(Order::GIGANTIC));
        }
    }
}
