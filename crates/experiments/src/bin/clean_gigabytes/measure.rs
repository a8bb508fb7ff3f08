//! What is measured of memory, whatever the system.

use prairie_frames::{BlockCounts, FrameTable};

/// Frames of a gigabyte, and of a pageblock.
pub const GIB: u64 = 1 << 18;
pub const PAGEBLOCK: u64 = 512;

/// Memory at one instant.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// Frames in use that cannot be moved.
    pub unmovable: u64,
    /// 2 MiB blocks with such a frame.
    pub tainted_blocks: u64,
    /// Aligned gigabytes of memory.
    pub gigabytes: u64,
    /// Those without such a frame.
    pub clean_gigabytes: u64,
}

impl Memory {
    pub fn of(table: &FrameTable) -> Memory {
        let mut memory = Memory::default();
        let is_unmovable = |block: &&BlockCounts| block.unmovable + block.unknown > 0;
        for gigabyte in table.blocks().chunks_exact((GIB / PAGEBLOCK) as usize) {
            let tainted = gigabyte.iter().filter(is_unmovable).count() as u64;
            memory.tainted_blocks += tainted;
            memory.unmovable +=
                gigabyte.iter().map(|block| u64::from(block.unmovable)).sum::<u64>();
            let whole = gigabyte.iter().all(BlockCounts::is_whole);
            memory.gigabytes += u64::from(whole);
            memory.clean_gigabytes += u64::from(whole && tainted == 0);
        }
        memory
    }
}
