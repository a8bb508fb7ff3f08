//! GFP flags: their names in all versions, and the bits of a request's that placement depends on.
//!
//! Numbers of `include/linux/gfp_types.h` in Linux 6.1. Who replays the record of a kernel that
//! numbers them otherwise translates first.

mod flags;
pub mod names;

use self::names::bits;

pub use self::flags::GfpFlags;

/// May use half of what the min watermark keeps back (`__GFP_HIGH`).
pub const HIGH: u32 = bits("__GFP_HIGH");
/// Cannot wait, and is important (`__GFP_ATOMIC`).
pub(crate) const ATOMIC: u32 = bits("__GFP_ATOMIC");
/// May wait for memory to be reclaimed (`__GFP_DIRECT_RECLAIM`).
pub const DIRECT_RECLAIM: u32 = bits("__GFP_DIRECT_RECLAIM");
/// May wake kswapd (`__GFP_KSWAPD_RECLAIM`).
pub const KSWAPD_RECLAIM: u32 = bits("__GFP_KSWAPD_RECLAIM");
/// May fail, but only after trying hard (`__GFP_RETRY_MAYFAIL`).
pub const RETRY_MAYFAIL: u32 = bits("__GFP_RETRY_MAYFAIL");
/// Must not loop: better fail than try again (`__GFP_NORETRY`).
pub const NORETRY: u32 = bits("__GFP_NORETRY");
/// May use all memory, because it will free more (`__GFP_MEMALLOC`).
pub const MEMALLOC: u32 = bits("__GFP_MEMALLOC");
/// Must not use reserves, whatever else is set (`__GFP_NOMEMALLOC`).
pub const NOMEMALLOC: u32 = bits("__GFP_NOMEMALLOC");

/// An ordinary request of the kernel: may wait, start I/O and use file systems (`GFP_KERNEL`).
pub const KERNEL: u32 = bits("GFP_KERNEL");
/// A request that cannot wait (`GFP_ATOMIC`).
pub const ATOMIC_REQUEST: u32 = bits("GFP_ATOMIC");
