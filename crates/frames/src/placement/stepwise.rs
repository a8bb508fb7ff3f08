//! The placement interface of a machine that reclaims: one attempt at a time, and free blocks by
//! their address.
//!
//! [`Placement::allocate`] goes down to the last frame by itself, because a recorded trace cannot
//! react. A simulated machine must learn that a zone is low, so that it can wake kswapd, reclaim,
//! compact, and try again. And what makes contiguity (compaction, linear reclaim, ranges of 1 GiB,
//! offlining of sections) has to take free blocks where they lie.

use core::ops::Range;

use super::zonelist::Depth;
use super::{Placement, Request};
use crate::free_area::ORDERS;
use crate::layout::Frame;
use crate::table::{FrameTable, Owner};
use crate::{MigrateType, Order, ZoneKind};

/// A placement that is driven one attempt at a time.
pub trait Stepwise: Placement + core::any::Any {
    /// One pass over the zones of a request that reaches no deeper than `depth`; nothing else is
    /// tried (`get_page_from_freelist`, `mm/page_alloc.c`).
    fn attempt(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        owner: Owner,
        depth: Depth,
    ) -> Option<Frame>;

    /// Attempts to allocate a single frame to each of `owners`, as one batch of contiguous runs
    /// that reaches no deeper than `depth`; returns how many of them, from the first on, received
    /// one. Policies whose kernel has no interface for batches return 0.
    fn attempt_singles(
        &mut self,
        _table: &mut FrameTable,
        _request: &Request,
        _owners: &[Owner],
        _depth: Depth,
    ) -> u32 {
        0
    }

    /// Free blocks of one zone by order, over all types.
    fn free_counts(&self, zone: usize) -> [u64; ORDERS];

    /// The same, of memory that movable pages may use: what compaction gathers. Differs where a
    /// policy keeps other memory apart.
    fn movable_counts(&self, zone: usize) -> [u64; ORDERS] {
        self.free_counts(zone)
    }

    /// Whether a zone would have `mark` frames left after an ordinary request of `order` and has a
    /// block of the size (`zone_watermark_ok`). `highest` is the highest zone of the request, for
    /// which the zone may keep a reserve.
    fn watermark_ok(&self, zone: usize, order: Order, mark: u64, highest: ZoneKind) -> bool;

    /// Gives everything on per-CPU lists back to the free lists (`drain_all_pages`).
    fn drain(&mut self, table: &mut FrameTable);

    /// Whether attempts from now on may break up pageblocks of other types, where a policy spares
    /// them until reclaim and compaction have failed (`vm.defrag_mode`).
    fn may_mix(&mut self, _allowed: bool) {}

    /// Takes the free block that starts at `frame` off its list, whole, and returns its order. Its
    /// frames are then on no list ([`State::Inside`](crate::table::State::Inside)) until they are
    /// allocated in the table or returned (`__isolate_free_page`).
    fn take_block(&mut self, table: &mut FrameTable, frame: Frame) -> Order;

    /// Puts a block that is on no list back, past the per-CPU lists (`__free_one_page`).
    fn give_block(&mut self, table: &mut FrameTable, frame: Frame, order: Order);

    /// Gives up what the policy has set aside for anyone in a range that is about to be emptied by
    /// address; what is free of it goes to the free lists.
    fn give_up(&mut self, _table: &mut FrameTable, _range: Range<Frame>) {}

    /// Whether compaction should not move the page at `frame`, as what it leaves behind would be
    /// free for its neighbors only.
    fn is_spared(&self, _frame: Frame) -> bool {
        false
    }

    /// The zone that has the memory at `frame` now, where memory blocks change zones; `None` where
    /// the layout says it.
    fn zone_at(&self, _frame: Frame) -> Option<usize> {
        None
    }

    /// The type of the pageblock that contains `frame`; movable where the policy has none.
    fn pageblock_type(&self, _frame: Frame) -> MigrateType {
        MigrateType::Movable
    }

    /// Frames by which fallbacks have raised the watermarks of a zone (`watermark_boost`).
    fn boost(&self, _zone: usize) -> u64 {
        0
    }

    /// Takes the boost back, as kswapd does once it has reclaimed enough.
    fn end_boost(&mut self, _zone: usize) {}

    /// Says whether a zone is being reclaimed, which keeps its per-CPU lists short
    /// (`ZONE_RECLAIM_ACTIVE`).
    fn set_reclaim_active(&mut self, _zone: usize, _active: bool) {}
}
