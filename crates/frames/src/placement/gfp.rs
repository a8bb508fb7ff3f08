//! The bits of a request's GFP flags that decide how deep into the reserves it may reach.
//!
//! Numbers of `include/linux/gfp_types.h` in Linux 6.1. Who replays the record of a kernel that
//! numbers them otherwise translates first.

/// May use half of what the min watermark keeps back (`__GFP_HIGH`).
pub const HIGH: u32 = 0x20;
/// Cannot wait, and is important (`__GFP_ATOMIC`).
pub const ATOMIC: u32 = 0x200;
/// May wait for memory to be reclaimed (`__GFP_DIRECT_RECLAIM`).
pub const DIRECT_RECLAIM: u32 = 0x400;
/// May wake kswapd (`__GFP_KSWAPD_RECLAIM`).
pub const KSWAPD_RECLAIM: u32 = 0x800;
/// May fail, but only after trying hard (`__GFP_RETRY_MAYFAIL`).
pub const RETRY_MAYFAIL: u32 = 0x4000;
/// Must not loop: better fail than try again (`__GFP_NORETRY`).
pub const NORETRY: u32 = 0x1_0000;
/// May use all memory, because it will free more (`__GFP_MEMALLOC`).
pub const MEMALLOC: u32 = 0x2_0000;
/// Must not use reserves, whatever else is set (`__GFP_NOMEMALLOC`).
pub const NOMEMALLOC: u32 = 0x8_0000;

/// An ordinary request of the kernel: may wait, start I/O and use file systems (`GFP_KERNEL`).
pub const KERNEL: u32 = DIRECT_RECLAIM | KSWAPD_RECLAIM | 0x40 | 0x80;
/// A request that cannot wait (`GFP_ATOMIC`).
pub const ATOMIC_REQUEST: u32 = HIGH | ATOMIC | KSWAPD_RECLAIM;
