//! What work costs in simulated time.
//!
//! Round figures for a core of the time, so that reclaim and compaction have a price in the same
//! coin as the work they hinder. Nothing that is compared between systems depends on a difference
//! between them here: all systems pay the same for the same step.

use serde::{Deserialize, Serialize};

/// Nanoseconds of CPU time for each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Costs {
    /// One page fault, without clearing the page.
    pub fault_ns: u64,
    /// Clearing or copying a frame.
    pub copy_frame_ns: u64,
    /// Finding a page of a file in the cache and reading it.
    pub read_hit_ns: u64,
    /// Looking at a page of an LRU list.
    pub scan_ns: u64,
    /// Unmapping and freeing a page that reclaim chose.
    pub evict_ns: u64,
    /// Looking at a frame in compaction or linear reclaim.
    pub scan_frame_ns: u64,
    /// Moving a page, without copying it.
    pub migrate_ns: u64,
    /// Allocating or freeing a kernel object.
    pub object_ns: u64,
}

impl Default for Costs {
    fn default() -> Costs {
        Costs {
            fault_ns: 700,
            copy_frame_ns: 400,
            read_hit_ns: 500,
            scan_ns: 80,
            evict_ns: 600,
            scan_frame_ns: 15,
            migrate_ns: 2_000,
            object_ns: 100,
        }
    }
}
