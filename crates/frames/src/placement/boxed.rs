//! A boxed placement is a placement, so that one loop drives any of them.
//!
//! Every method is forwarded, those with a default as well: a policy's own way to allocate many
//! frames at once must not be lost behind a box.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Placement, forward};

impl<P: Placement + ?Sized> Placement for Box<P> {
    forward! {
        self => **self;
        mark_pageblock, seed, start, boot, allocate, allocate_singles, allocate_listed, plans,
        plan, free, free_singles, maintain, observe, take_boost, free_for, pin_block, unpin_block,
        free_blocks, pageblocks, free_frames, cached_frames, counters, validate,
    }
}
