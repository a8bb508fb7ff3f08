//! The C ABI between Prairie and a policy in a shared library, version 1.
//!
//! The library exports `prairie_policy_v1`, a function without arguments that returns a
//! [`PolicyTable`]. Prairie calls the policy through that table, on one thread, and passes a
//! [`CoreTable`] that is valid during the call. Frames are physical frame numbers. Functions that
//! return a status return 0, or -1 after a fault; Prairie ends the replay then.

use std::ffi::c_void;

/// The version of this interface. Prairie loads only libraries of the same version.
pub const VERSION: u32 = 1;

/// No frame, no region, or no hint.
pub const NONE: u64 = u64::MAX;

/// The answer of a failed call, after `fail` or a fault.
pub const FAILED: u64 = u64::MAX - 1;

/// UTF-8 text that lives as long as the library or the call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Text {
    /// First byte.
    pub data: *const u8,
    /// Number of bytes.
    pub bytes: usize,
}

/// A request for a block.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawRequest {
    /// The flags of the request (`gfp_t`), as Linux 6.1 numbers them.
    pub gfp_flags: u32,
    /// The node it should come from.
    pub node: u16,
    /// The CPU that asks.
    pub cpu: u16,
    /// The block has two to this power frames.
    pub order: u8,
    /// 1 movable, 2 unmovable, 3 unknown.
    pub mobility: u8,
    /// 0 unmovable, 1 movable, 2 reclaimable, 3 high-atomic, 4 CMA, 5 isolate.
    pub migrate_type: u8,
    /// The highest zone: 0 DMA, 1 DMA32, 2 Normal, 3 HighMem, 4 Movable, 5 Device.
    pub highest_zone: u8,
}

/// A freed block.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawBlock {
    /// First frame.
    pub frame: u64,
    /// The CPU that frees it.
    pub cpu: u16,
    /// The block has two to this power frames.
    pub order: u8,
    /// Its mobility while it was in use: 1 movable, 2 unmovable, 3 unknown.
    pub mobility: u8,
}

/// A region: a zone or a part of one, with free lists of its own.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawRegion {
    /// First frame.
    pub start: u64,
    /// One past the last frame.
    pub end: u64,
    /// Frames on its free lists.
    pub free_frames: u64,
    /// Its node.
    pub node: u16,
    /// Its zone, numbered as in [`RawRequest::highest_zone`].
    pub zone: u8,
}

/// What a policy can ask of the core.
#[repr(C)]
pub struct CoreTable {
    /// Passed to each function.
    pub context: *mut c_void,
    /// Number of regions.
    pub regions: unsafe extern "C" fn(*mut c_void) -> u64,
    /// Describes a region.
    pub region: unsafe extern "C" fn(*mut c_void, u64, *mut RawRegion) -> i32,
    /// The regions that a request may use, best first: writes at most the given number, returns how
    /// many there are.
    pub regions_for: unsafe extern "C" fn(*mut c_void, *const RawRequest, *mut u64, u64) -> u64,
    /// Blocks on a free list, by region, order and list.
    pub blocks: unsafe extern "C" fn(*mut c_void, u64, u8, u64) -> u64,
    /// Divides a region at a frame, in `boot` only; returns the number of the upper one.
    pub divide: unsafe extern "C" fn(*mut c_void, u64, u64) -> u64,
    /// Takes a block of an order: region or `NONE`, list, frame to be near or `NONE`.
    pub take_block: unsafe extern "C" fn(*mut c_void, u8, u64, u64, u64) -> u64,
    /// Puts a taken block on a list, at its tail if the last argument is not 0.
    pub put: unsafe extern "C" fn(*mut c_void, u64, u64, i32) -> i32,
    /// Splits a taken block; returns the upper half.
    pub split: unsafe extern "C" fn(*mut c_void, u64) -> u64,
    /// Merges a taken block with its buddy; returns the lower half, or `NONE` if it cannot.
    pub merge: unsafe extern "C" fn(*mut c_void, u64) -> u64,
    /// Migrates a movable block to a taken one.
    pub move_block: unsafe extern "C" fn(*mut c_void, u64, u64) -> i32,
    /// Puts a freed block back by the default rule.
    pub put_back: unsafe extern "C" fn(*mut c_void, *const RawBlock) -> i32,
    /// Leaves the reason why a call failed.
    pub fail: unsafe extern "C" fn(*mut c_void, Text),
}

/// A policy.
#[repr(C)]
pub struct PolicyTable {
    /// [`VERSION`].
    pub version: u32,
    /// The name in tables and charts.
    pub name: Text,
    /// A description in one sentence.
    pub summary: Text,
    /// Makes a policy for one replay.
    pub create: unsafe extern "C" fn() -> *mut c_void,
    /// Ends it.
    pub destroy: unsafe extern "C" fn(*mut c_void),
    /// Prepares regions before any memory is there.
    pub boot: unsafe extern "C" fn(*mut c_void, *const CoreTable) -> i32,
    /// Returns a taken block of the order requested, `NONE` if nothing fits, or `FAILED`.
    pub allocate: unsafe extern "C" fn(*mut c_void, *const CoreTable, *const RawRequest) -> u64,
    /// Puts a freed block on a list, or keeps it.
    pub free: unsafe extern "C" fn(*mut c_void, *const CoreTable, *const RawBlock) -> i32,
    /// Upkeep off the allocation path.
    pub tick: unsafe extern "C" fn(*mut c_void, *const CoreTable) -> i32,
}
