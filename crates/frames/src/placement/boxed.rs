//! A boxed placement is a placement, so that one loop drives any of them.
//!
//! Every method is forwarded, those with a default as well: a policy's own way to allocate many
//! frames at once must not be lost behind a box.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use super::{Counter, Placement, Request, Surroundings};
use crate::layout::{Frame, Layout};
use crate::table::{FrameTable, Owner};
use crate::{MigrateType, Mobility, Order};

impl<P: Placement + ?Sized> Placement for Box<P> {
    fn mark_pageblock(&mut self, pageblock: usize, migrate_type: MigrateType) {
        (**self).mark_pageblock(pageblock, migrate_type);
    }

    fn seed(&mut self, table: &mut FrameTable, frame: Frame, order: Order) {
        (**self).seed(table, frame, order);
    }

    fn start(&mut self, table: &mut FrameTable) {
        (**self).start(table);
    }

    fn boot(&mut self, table: &mut FrameTable, layout: &Layout) {
        (**self).boot(table, layout);
    }

    #[inline]
    fn allocate(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        owner: Owner,
    ) -> Option<Frame> {
        (**self).allocate(table, request, owner)
    }

    #[inline]
    fn allocate_singles(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        owner: Owner,
        count: u32,
    ) -> u32 {
        (**self).allocate_singles(table, request, owner, count)
    }

    #[inline]
    fn allocate_listed(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        owners: Range<Owner>,
    ) -> u32 {
        (**self).allocate_listed(table, request, owners)
    }

    fn plans(&self) -> bool {
        (**self).plans()
    }

    fn plan(&mut self, table: &mut FrameTable, requests: &[Request]) {
        (**self).plan(table, requests);
    }

    #[inline]
    fn free(&mut self, table: &mut FrameTable, frame: Frame, cpu: u16) {
        (**self).free(table, frame, cpu);
    }

    #[inline]
    fn free_singles(&mut self, table: &mut FrameTable, owners: Range<Owner>, cpu: u16) {
        (**self).free_singles(table, owners, cpu);
    }

    fn maintain(&mut self, table: &mut FrameTable) {
        (**self).maintain(table);
    }

    fn observe(&mut self, around: Surroundings) {
        (**self).observe(around);
    }

    fn take_boost(&mut self) -> u64 {
        (**self).take_boost()
    }

    fn free_for(&self, mobility: Mobility) -> Option<u64> {
        (**self).free_for(mobility)
    }

    fn pin_block(&mut self, table: &mut FrameTable, owner: Owner, order: Order) -> bool {
        (**self).pin_block(table, owner, order)
    }

    fn unpin_block(&mut self, table: &mut FrameTable, owner: Owner, order: Order) {
        (**self).unpin_block(table, owner, order);
    }

    fn free_blocks(&self, zone: usize) -> Vec<(MigrateType, Vec<u64>)> {
        (**self).free_blocks(zone)
    }

    fn pageblocks(&self, zone: usize) -> Option<[u64; MigrateType::ALL.len()]> {
        (**self).pageblocks(zone)
    }

    fn free_frames(&self, zone: usize) -> u64 {
        (**self).free_frames(zone)
    }

    fn cached_frames(&self) -> u64 {
        (**self).cached_frames()
    }

    fn counters(&self) -> Vec<Counter> {
        (**self).counters()
    }

    fn validate(&self, table: &FrameTable) {
        (**self).validate(table);
    }
}
