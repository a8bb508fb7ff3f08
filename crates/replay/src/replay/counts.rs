//! What a replay counts.

use serde::Serialize;

/// Counts of events that are not placements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Recorded allocations.
    pub allocations: u64,
    /// Frames of them.
    pub allocated_frames: u64,
    /// Allocations that landed on the very frame that the kernel chose.
    pub same_frame: u64,
    /// Recorded frees.
    pub frees: u64,
    /// Allocations that nothing fitted.
    pub failed_allocations: u64,
    /// Of those, allocations of 2 MiB or more.
    pub failed_huge_allocations: u64,
    /// Frames freed whose allocation failed here.
    pub frees_of_failed: u64,
    /// Frames freed without a recorded allocation.
    pub frees_of_unknown: u64,
    /// Frames allocated while still held, because their free was not recorded. They were freed
    /// first.
    pub frees_implied: u64,
    /// Frees known only from the batched event.
    pub frees_by_batch_only: u64,
    /// Recorded pins.
    pub pins: u64,
    /// Frames pinned without a recorded allocation.
    pub pins_of_unknown: u64,
    /// Pins of blocks that could not move in any case, for which nothing was to be done.
    pub pins_of_unmovable: u64,
    /// Blocks that were to be moved before they were pinned and found no room.
    pub pins_refused: u64,
    /// Recorded ends of pins.
    pub unpins: u64,
    /// Blocks that were freed while they were still known to be pinned.
    pub pins_ended_by_free: u64,
    /// Events that name a frame outside every zone.
    pub outside_zones: u64,
    /// Blocks that do not start at a multiple of their size.
    pub misaligned: u64,
    /// Requests that the kernel itself could not satisfy; no system is asked to.
    pub failed_in_kernel: u64,
    /// Frames that joined because an event named memory that was not initialized before.
    pub joined_frames: u64,
    /// Frames that were in use at the start.
    pub initial_frames: u64,
    /// Of those, frames that found no place in the system.
    pub initial_without_place: u64,
    /// With simulated reclaim: frames that the record reclaims and that stay in memory here.
    pub reclaims_left_out: u64,
    /// Frames reclaimed in the background, as by kswapd.
    pub reclaimed_in_background: u64,
    /// Frames reclaimed by requests that found nothing.
    pub reclaimed_by_requests: u64,
    /// Frames freed that were already reclaimed here.
    pub frees_of_reclaimed: u64,
}
