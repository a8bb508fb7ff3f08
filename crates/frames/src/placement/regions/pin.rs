//! Memory that is allocated movable and becomes unmovable, and back (Contiguitas, "Unmovable
//! Confinement": RDMA, long-term pins of user pages, DMA mappings).
//!
//! A page is migrated into the unmovable region before it is pinned, so that it never pollutes the
//! movable one. It is put near the border, other than pages that were unmovable from the start: the
//! paper finds that such pages tend to be short-lived, so that the border soon finds their place
//! free again. When it is unpinned it goes back only where that helps the border; elsewhere a copy
//! would buy nothing, and it stays, counted as unmovable, until it is freed.

use alloc::vec::Vec;

use super::space::Pick;
use super::{Region, Regions};
use crate::layout::Frame;
use crate::placement::zonelist::Depth;
use crate::placement::{Request, gfp};
use crate::table::{FrameTable, Owner};
use crate::{MigrateType, Mobility, Order, ZoneKind};

/// A pin that could not be granted: the unmovable region has no room and could not grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl Regions {
    /// Makes `owner`'s block unmovable, where it belongs. A block that is so already stays. It may
    /// come in pieces afterwards: who owns it asks the table.
    ///
    /// # Errors
    /// If the unmovable region has no room for it. Then the block, or the rest of it, stays movable
    /// and must not be pinned.
    ///
    /// # Panics
    /// If the owner holds nothing.
    pub fn pin(&mut self, table: &mut FrameTable, owner: Owner) -> Result<(), NoRoom> {
        let from = table.block_of(owner).expect("an owner that holds a block");
        if Region::of(table.mobility(from)) == Region::Unmovable {
            return Ok(());
        }
        let order = table.order(from);
        let zone = self.zone_of(from).expect("a frame outside every zone");
        let node = self.zones[zone].node;
        if self.region(from) == Some(Region::Unmovable) {
            // A stray that lies where it belongs from now on.
            self.forget_outsider(table, from);
            table.release(from);
            table.allocate(from, order, Mobility::Unmovable, owner);
            self.counts.pinned_in_place += 1;
            return Ok(());
        }
        if !self.config.pin_migration {
            self.pin_as_stray(table, from);
            return Ok(());
        }
        let to = self.take_for_pin(table, node, order);
        // Growing the region for it may have moved the block, and broken it up.
        let from = table.block_of(owner).expect("it was not freed");
        let is_whole = table.order(from) == order;
        match to {
            Some(to) if is_whole => {
                self.relocate(table, from, to, Mobility::Unmovable);
                self.counts.pinned += 1;
                return Ok(());
            }
            Some(to) => self.give(table, to, order),
            None if order == Order::BASE => {
                self.counts.pins_refused += 1;
                return Err(NoRoom);
            }
            None if is_whole => {
                table.split_allocated(from);
                self.counts.moved_blocks_split += 1;
            }
            None => {}
        }
        let (mut at, end) = (owner, owner + order.frames() as u32);
        while at < end {
            self.pin(table, at)?;
            let piece = table.block_of(at).expect("a pinned piece");
            at += table.order(piece).frames() as u32;
        }
        Ok(())
    }

    /// Makes the block at `from` in the movable region unmovable where it lies: what a kernel that
    /// does not migrate pages before it pins them does to a region.
    fn pin_as_stray(&mut self, table: &mut FrameTable, from: Frame) {
        let (owner, order) = (table.owner(from), table.order(from));
        table.release(from);
        table.allocate(from, order, Mobility::Unmovable, owner);
        self.outsiders.stray(from, order);
        self.counts.pinned_in_place += 1;
    }

    /// Lets `owner`'s block be movable again, and takes it back to the movable region if it lies
    /// beside the border or the unmovable region is short. Returns whether it did.
    ///
    /// # Panics
    /// If the owner holds nothing.
    pub fn unpin(&mut self, table: &mut FrameTable, owner: Owner) -> bool {
        let from = table.block_of(owner).expect("an owner that holds a block");
        if table.mobility(from) != Mobility::Unmovable {
            return false;
        }
        if self.region(from) == Some(Region::Movable) {
            // Pinned as a stray.
            self.forget_outsider(table, from);
            let (order, mobility) = (table.order(from), Mobility::Movable);
            table.release(from);
            table.allocate(from, order, mobility, owner);
            return true;
        }
        let zone = self.zone_of(from).expect("a frame outside every zone");
        let node = self.zones[zone].node;
        let stock = self.stock(node, Region::Unmovable);
        let beside = from >= self.nodes[node].near[Region::Unmovable as usize];
        if !beside && stock.available >= stock.target {
            self.counts.unpinned_in_place += 1;
            return false;
        }
        let order = table.order(from);
        let far = Pick::Beyond(self.nodes[node].near[Region::Movable as usize]);
        let movable = self.stock(node, Region::Movable);
        let room = movable.available >= movable.low + order.frames();
        let zones: Vec<usize> = self.eligible(node, Region::Movable, ZoneKind::Device).collect();
        let to = room.then(|| {
            let mut zones = zones.into_iter();
            zones.find_map(|zone| self.zones[zone].space.take(table, Region::Movable, order, far))
        });
        let Some(to) = to.flatten() else {
            self.counts.unpinned_in_place += 1;
            return false;
        };
        self.relocate(table, from, to, Mobility::Movable);
        self.counts.unpinned += 1;
        true
    }

    /// Takes the block that is furthest from the border, whatever large block that breaks: for
    /// memory that is held as long as the machine runs.
    pub(super) fn take_furthest(
        &mut self,
        table: &mut FrameTable,
        zone: usize,
        region: Region,
        order: Order,
    ) -> Option<Frame> {
        // Every block counts as near the border, so that the furthest of any size is taken.
        let frame = self.zones[zone].space.take(table, region, order, Pick::Beyond(Frame(0)));
        self.counts.long_lived += u64::from(frame.is_some());
        frame
    }

    /// A block near the border, above the min mark; the region grows for it if need be.
    fn take_for_pin(&mut self, table: &mut FrameTable, node: usize, order: Order) -> Option<Frame> {
        let request = Request {
            order,
            migrate_type: MigrateType::Unmovable,
            mobility: Mobility::Unmovable,
            highest_zone: ZoneKind::Normal,
            node: self.nodes[node].number,
            cpu: 0,
            gfp_flags: gfp::KERNEL,
            page: None,
            permanent: false,
        };
        self.take_near_border(table, node, &request).or_else(|| {
            if !self.resize_on_failure(table, &request, true) {
                return None;
            }
            self.take_near_border(table, node, &request)
        })
    }

    fn take_near_border(
        &mut self,
        table: &mut FrameTable,
        node: usize,
        request: &Request,
    ) -> Option<Frame> {
        let border = self.nodes[node].border;
        let zones: Vec<usize> =
            self.eligible(node, Region::Unmovable, request.highest_zone).collect();
        zones.into_iter().rev().find_map(|zone| {
            let zone = &mut self.zones[zone];
            let allowed = zone.allows(request, Region::Unmovable, Depth::Min);
            allowed.then(|| zone.space.take_nearest(table, request.order, border)).flatten()
        })
    }
}
