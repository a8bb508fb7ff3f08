//! The record of one server: of a simulated one at the end of its life, of a real one when it was
//! surveyed.

use prairie_frames::BlockCounts;
use prairie_frames::placement::Placement;
use serde::Serialize;

use crate::server::Server;
use prairie_model::sample::{BlocksBySize, Tally};

/// One server under one allocator. Sizes are in frames of 4 KiB.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// Its workload.
    pub workload: String,
    /// The allocator; `host` for a real server.
    pub system: String,
    /// Seconds since boot.
    pub uptime_s: f64,
    /// Number of the server in its study.
    pub server: u64,
    /// Memory.
    pub frames: u64,
    /// Free memory.
    pub free_frames: u64,
    /// Aligned 2 MiB blocks that are wholly free.
    pub free_2_mib: u64,
    /// Aligned 4 MiB blocks that are wholly free.
    pub free_4_mib: u64,
    /// Aligned 32 MiB blocks that are wholly free.
    pub free_32_mib: u64,
    /// Aligned 1 GiB blocks that are wholly free.
    pub free_1_gib: u64,
    /// Aligned blocks without an unmovable frame if unknown frames are unmovable.
    pub potential_min: BlocksBySize,
    /// Aligned blocks without an unmovable frame if unknown frames are movable.
    pub potential_max: BlocksBySize,
    /// Frames in use that cannot be moved.
    pub unmovable_frames: u64,
    /// Frames of unknown mobility. A simulated server has none.
    pub unknown_frames: u64,
    /// 2 MiB blocks with an unmovable frame if unknown frames are movable.
    pub polluted_min: u64,
    /// 2 MiB blocks with an unmovable frame if unknown frames are unmovable.
    pub polluted_max: u64,
    /// What only a simulation knows; `None` for a real server.
    #[serde(flatten)]
    pub simulated: Option<Counters>,
}

/// Counters of a simulation, besides the state of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Allocations that succeeded.
    pub allocations: u64,
    /// Kernel requests that failed.
    pub failed_kernel: u64,
    /// Requests of programs for small pages that failed.
    pub failed_movable: u64,
    /// Requests of programs for huge pages that failed and were served with small pages.
    pub failed_huge: u64,
    /// Pages that the allocator migrated.
    pub pages_moved: u64,
    /// Pageblocks by which an allocation grew its region in order to succeed.
    pub grown_on_failure: u64,
    /// Pins that failed because no memory was left for them.
    pub failed_pins: u64,
    /// Allocations that waited until the border had moved.
    pub waited: u64,
    /// Pageblocks that the border passed.
    pub border_moves: u64,
    /// Frames below the border at the end.
    pub unmovable_region: u64,
    /// Frames held by the kernel kinds that are called `network`.
    pub network_frames: u64,
    /// Frames of programs that are pinned.
    pub pinned_frames: u64,
}

impl Row {
    /// Measures a simulated server.
    pub(super) fn of<P: Placement>(
        number: u64,
        workload: &str,
        system: &str,
        uptime_s: f64,
        server: &Server<'_, P>,
    ) -> Row {
        let blocks = server.table.blocks();
        let tally = Tally::of(blocks);
        let is_free = |block: &BlockCounts| block.free == BlockCounts::FRAMES;
        let pairs = blocks.chunks_exact(2).filter(|pair| pair.iter().all(is_free));
        Row {
            workload: workload.to_owned(),
            system: system.to_owned(),
            uptime_s,
            server: number,
            frames: server.frames,
            free_frames: server.free,
            free_2_mib: tally.free.mib_2,
            free_4_mib: pairs.count() as u64,
            free_32_mib: tally.free.mib_32,
            free_1_gib: tally.free.gib_1,
            potential_min: tally.potential_at_least,
            potential_max: tally.potential,
            unmovable_frames: tally.frames[2],
            unknown_frames: tally.frames[3],
            polluted_min: tally.polluted,
            polluted_max: tally.polluted,
            simulated: Some(Counters::of(server)),
        }
    }

    /// Free memory in free blocks of 2 MiB, 4 MiB, 32 MiB and 1 GiB, as shares of free memory
    /// (Contiguitas, Figure 2).
    pub fn contiguity(&self) -> [f64; 4] {
        let of = |blocks: u64, order: u32| share(blocks << order, self.free_frames);
        [
            of(self.free_2_mib, 9),
            of(self.free_4_mib, 10),
            of(self.free_32_mib, 13),
            of(self.free_1_gib, 18),
        ]
    }

    /// Potential contiguity at 2 MiB, 32 MiB and 1 GiB as shares of memory, if unknown frames are
    /// movable (Contiguitas, Figure 5). Simulated servers have no unknown frames.
    pub fn potential(&self) -> [f64; 3] {
        shares(self.potential_max, self.frames)
    }

    /// The same if unknown frames are unmovable.
    pub fn potential_min(&self) -> [f64; 3] {
        shares(self.potential_min, self.frames)
    }
}

impl Counters {
    fn of<P: Placement>(server: &Server<'_, P>) -> Counters {
        let counters = server.placement.counters();
        let counter = |name: &str| counters.iter().find(|c| c.name == name).map_or(0, |c| c.value);
        Counters {
            allocations: server.allocations,
            failed_kernel: server.failures.kernel,
            failed_movable: server.failures.movable,
            failed_huge: server.failures.huge,
            pages_moved: counter("pages_moved"),
            grown_on_failure: counter("grown_on_failure"),
            failed_pins: server.failures.pin,
            waited: counter("waited"),
            border_moves: counter("growths") + counter("shrinks"),
            unmovable_region: counter("border_node_0"),
            network_frames: server.network_frames(),
            pinned_frames: server.pinned_frames(),
        }
    }
}

fn shares(blocks: BlocksBySize, frames: u64) -> [f64; 3] {
    let of = |blocks: u64, order: u32| share(blocks << order, frames);
    [of(blocks.mib_2, 9), of(blocks.mib_32, 13), of(blocks.gib_1, 18)]
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
