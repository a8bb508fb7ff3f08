//! Distance between the end state of a replay and that of the recorded kernel.
//!
//! A replay of `linux` that starts in place should end where the kernel ended. It does not quite:
//! reclaim and migration follow the record, but not their causes; the order of the free lists at
//! the start is unknown; and frames move between the end of the events and the reading of `/proc`.

use prairie_frames::indices::{FreeBlocks, unusable_free_space};
use prairie_frames::{MigrateType, Order};
use prairie_host::Capture;
use prairie_host::texts::{buddyinfo, pagetypeinfo};
use serde::Serialize;

use crate::initial_state::{InitialState, id_of};
use crate::run::SystemResult;

/// One zone at the end, in the kernel and in the replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ZoneDistance {
    /// NUMA node.
    pub node: u16,
    /// The zone's name.
    pub zone: &'static str,
    /// Frames on the kernel's free lists.
    pub kernel_free_frames: u64,
    /// Frames on the replay's.
    pub replay_free_frames: u64,
    /// The kernel's F_u(9).
    pub kernel_unusable_2_mib: f64,
    /// The replay's.
    pub replay_unusable_2_mib: f64,
    /// The kernel's free blocks by order.
    pub kernel_free_blocks: Vec<u64>,
    /// The replay's.
    pub replay_free_blocks: Vec<u64>,
    /// The kernel's pageblocks by type, if known.
    pub kernel_pageblocks: Option<[u64; MigrateType::ALL.len()]>,
    /// The replay's, where the system has types.
    pub replay_pageblocks: Option<[u64; MigrateType::ALL.len()]>,
}

impl ZoneDistance {
    /// Free blocks that one has and the other has not, summed over the orders.
    pub fn block_distance(&self) -> u64 {
        let orders = self.kernel_free_blocks.len().max(self.replay_free_blocks.len());
        let at = |counts: &[u64], j: usize| counts.get(j).copied().unwrap_or(0);
        (0..orders)
            .map(|j| at(&self.kernel_free_blocks, j).abs_diff(at(&self.replay_free_blocks, j)))
            .sum()
    }
}

/// Compares the end of a replay with the texts that were read when the recording ended. Zones
/// that the texts do not name are left out.
///
/// # Errors
/// If a text is not understood.
pub fn with_kernel(
    found: &InitialState,
    after: &Capture,
    result: &SystemResult,
) -> Result<Vec<ZoneDistance>, prairie_host::Error> {
    let text = |file| after.files.get(file).map(String::as_str).unwrap_or_default();
    let free = buddyinfo::parse(text(buddyinfo::FILE))?;
    let types = match after.files.get(pagetypeinfo::FILE) {
        Some(text) => pagetypeinfo::parse(text)?.pageblocks,
        None => Vec::new(),
    };
    let mut distances = Vec::new();
    for (index, zone) in found.layout.zones().iter().enumerate() {
        let id = id_of(&zone.span);
        let Some(kernel) = free.iter().find(|zone| zone.id == id) else { continue };
        let replayed = &result.end().zones[index].free_blocks;
        let (k, r) = (FreeBlocks { counts: &kernel.blocks }, FreeBlocks { counts: replayed });
        distances.push(ZoneDistance {
            node: zone.span.node,
            zone: zone.span.kind.name(),
            kernel_free_frames: k.frames(),
            replay_free_frames: r.frames(),
            kernel_unusable_2_mib: unusable_free_space(k, Order::HUGE),
            replay_unusable_2_mib: unusable_free_space(r, Order::HUGE),
            kernel_free_blocks: kernel.blocks.clone(),
            replay_free_blocks: replayed.clone(),
            kernel_pageblocks: types.iter().find(|zone| zone.id == id).map(|zone| {
                let mut by_type = [0; MigrateType::ALL.len()];
                zone.blocks.iter().for_each(|(t, blocks)| by_type[t.index()] += blocks);
                by_type
            }),
            replay_pageblocks: result.pageblocks_by_type[index],
        });
    }
    Ok(distances)
}
