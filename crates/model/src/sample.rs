//! One measurement of a system: how broken its memory is at an instant.

use prairie_frames::contiguity::{Unknown, could_be_emptied};
use prairie_frames::indices::{self, FreeBlocks};
use prairie_frames::placement::Placement;
use prairie_frames::{BlockCounts, FrameTable, Layout, Order};
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
    /// Frames of unknown mobility.
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
    pub polluted_blocks: u64,
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
        let tally = Tally::of(table.blocks());
        Sample {
            time_ns,
            events,
            frames: tally.frames.iter().sum(),
            free_frames: tally.frames[0],
            unmovable_frames: tally.frames[2],
            unknown_frames: tally.frames[3],
            unusable_2_mib: indices::unusable_free_space(free, Order::HUGE),
            unusable_by_order: Order::up_to(last)
                .map(|order| indices::unusable_free_space(free, order))
                .collect(),
            zones,
            free_blocks: tally.free,
            potential_blocks: tally.potential,
            potential_blocks_at_least: tally.potential_at_least,
            polluted_blocks: tally.polluted,
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

    /// How many huge pages of `order` could be allocated once full compaction has run: blocks that
    /// can be emptied, as far as there is free memory to fill the emptied ones' place.
    pub fn satisfiable_after_compaction(&self, order: Order) -> u64 {
        let blocks = match order {
            Order::GIGANTIC => self.potential_blocks.gib_1,
            Order::MIB_32 => self.potential_blocks.mib_32,
            _ => self.potential_blocks.mib_2,
        };
        blocks.min(self.free_frames / order.frames())
    }
}

/// What pageblocks add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Frames that are free, movable, unmovable and unknown.
    pub frames: [u64; 4],
    /// Pageblocks with an unmovable frame.
    pub polluted: u64,
    /// Memory available now, by block size.
    pub free: BlocksBySize,
    /// Memory in blocks without an unmovable frame, by block size.
    pub potential: BlocksBySize,
    /// The same with unknown frames taken as unmovable.
    pub potential_at_least: BlocksBySize,
}

impl Tally {
    /// Adds up all pageblocks in one pass, for a sample every few thousand events should cost the
    /// replay next to nothing. Dense frame numbers keep alignment up to a gigantic page, so the
    /// whole table is one run.
    pub fn of(blocks: &[BlockCounts]) -> Tally {
        const PER_32_MIB: usize = 16;
        const PER_GIB: usize = 512;
        let mut tally = Tally::default();
        for gib in blocks.chunks(PER_GIB) {
            let mut whole = [0; 3];
            for mib_32 in gib.chunks(PER_32_MIB) {
                let found = tally.add(mib_32);
                for (whole, found) in whole.iter_mut().zip(found) {
                    *whole += usize::from(found == PER_32_MIB as u16);
                }
            }
            for (sizes, whole) in tally.by_size().into_iter().zip(whole) {
                sizes.mib_32 += whole as u64;
                sizes.gib_1 += u64::from(whole == PER_GIB / PER_32_MIB);
            }
        }
        tally
    }

    /// Adds up to 32 MiB; returns how many of its pageblocks are free, could be emptied, and could
    /// be emptied with unknown frames taken as unmovable. Without branches, so that the compiler
    /// takes several pageblocks at a time; 16 times 512 frames fit the counts' own 16 bits.
    fn add(&mut self, blocks: &[BlockCounts]) -> [u16; 3] {
        let (mut frames, mut polluted, mut found) = ([0u16; 4], 0u16, [0u16; 3]);
        for block in blocks {
            let of = [block.free, block.movable, block.unmovable, block.unknown];
            for (sum, count) in frames.iter_mut().zip(of) {
                *sum += count;
            }
            polluted += u16::from(block.is_polluted());
            found[0] += u16::from(block.free == BlockCounts::FRAMES);
            found[1] += u16::from(could_be_emptied(block, Unknown::AsMovable));
            found[2] += u16::from(could_be_emptied(block, Unknown::AsUnmovable));
        }
        for (sum, count) in self.frames.iter_mut().zip(frames) {
            *sum += u64::from(count);
        }
        self.polluted += u64::from(polluted);
        for (sizes, found) in self.by_size().into_iter().zip(found) {
            sizes.mib_2 += u64::from(found);
        }
        found
    }

    fn by_size(&mut self) -> [&mut BlocksBySize; 3] {
        [&mut self.free, &mut self.potential, &mut self.potential_at_least]
    }
}

fn sum_types(by_type: &[(prairie_frames::MigrateType, Vec<u64>)]) -> Vec<u64> {
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
    use prairie_frames::Pfn;
    use prairie_frames::contiguity::{Blocks, free_blocks, potential_blocks};
    use proptest::prelude::*;

    /// A pageblock with one frame that is not free, of any kind, or with a hole.
    fn block() -> impl Strategy<Value = BlockCounts> {
        (0..4u8).prop_map(|kind| {
            let mut counts = BlockCounts { free: 511, ..Default::default() };
            match kind {
                0 => counts.movable = 1,
                1 => counts.unmovable = 1,
                2 => counts.unknown = 1,
                _ => {}
            }
            counts
        })
    }

    proptest! {
        /// One pass over all sizes counts what a pass for each size counts.
        #[test]
        fn sizes_are_counted_as_one_by_one(
            others in prop::collection::btree_map(0..1536usize, block(), 0..40)
        ) {
            let mut blocks = vec![BlockCounts { free: 512, ..Default::default() }; 1536];
            for (&at, &other) in &others {
                blocks[at] = other;
            }
            let tally = Tally::of(&blocks);
            let run = Blocks { start: Pfn(0), counts: &blocks };
            let sizes = |one: &dyn Fn(Order) -> u64| BlocksBySize {
                mib_2: one(Order::HUGE),
                mib_32: one(Order::MIB_32),
                gib_1: one(Order::GIGANTIC),
            };
            let potential = |unknown| sizes(&|order| potential_blocks(run, order, unknown));
            prop_assert_eq!(tally.free, sizes(&|order| free_blocks(run, order)));
            prop_assert_eq!(tally.potential, potential(Unknown::AsMovable));
            prop_assert_eq!(tally.potential_at_least, potential(Unknown::AsUnmovable));
            prop_assert_eq!(tally.polluted, blocks.iter().filter(|b| b.is_polluted()).count() as u64);
            let sum = |of: fn(&BlockCounts) -> u16| blocks.iter().map(|b| u64::from(of(b))).sum();
            let frames: [u64; 4] =
                [sum(|b| b.free), sum(|b| b.movable), sum(|b| b.unmovable), sum(|b| b.unknown)];
            prop_assert_eq!(tally.frames, frames);
        }
    }
}
