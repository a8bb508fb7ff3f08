//! The worker that keeps pageblocks free in tainted superpageblocks.

use super::{MOVABLE, Superpageblocks};
use crate::layout::Frame;
use crate::table::{FrameTable, State};
use crate::{Mobility, Order};

impl Superpageblocks {
    /// Empties pageblocks of tainted superpageblocks that are short of free ones, those first that
    /// need the fewest moves. The pages go to clean superpageblocks.
    pub(super) fn defragment(&mut self, table: &mut FrameTable) {
        let mut left = self.config.defrag_pageblocks;
        for zone in 0..self.zones.len() {
            for block in 0..self.zones[zone].blocks.len() {
                let found = &self.zones[zone].blocks[block];
                if !found.is_tainted() || found.free_pageblocks() > self.config.defrag_below {
                    continue;
                }
                while left > 0
                    && self.zones[zone].blocks[block].free_pageblocks() < self.config.defrag_until
                    && self.empty_one(table, zone, block)
                {
                    left -= 1;
                }
            }
        }
    }

    /// Empties a pageblock of a tainted superpageblock of a zone for a request that would otherwise
    /// taint a clean one, if there is one to empty.
    pub(super) fn empty_for_request(&mut self, table: &mut FrameTable, zone: usize) {
        for block in 0..self.zones[zone].blocks.len() {
            if self.zones[zone].blocks[block].is_tainted() && self.empty_one(table, zone, block) {
                self.counts.waited += 1;
                return;
            }
        }
    }

    /// Empties one pageblock; false if there is none to empty or nowhere to put its pages.
    fn empty_one(&mut self, table: &mut FrameTable, zone: usize, block: usize) -> bool {
        let here = &self.zones[zone].blocks[block];
        let Some(start) = here.emptiest_pageblock(table) else { return false };
        let used = u64::from(table.block(start).movable);
        let clean = |(at, other): (usize, &super::Superpageblock)| {
            if at == block || other.is_tainted() { 0 } else { other.free_frames() }
        };
        let room: u64 = self.zones[zone].blocks.iter().enumerate().map(clean).sum();
        if room < used {
            return false;
        }
        for head in here.heads(table, start) {
            if table.state(head) == State::Allocated {
                self.evacuate(table, zone, head);
            }
        }
        self.counts.pageblocks_emptied += 1;
        true
    }

    /// Moves an allocated movable block to the fullest clean superpageblock that has room, as a
    /// whole or in halves. There is room for all of it.
    fn evacuate(&mut self, table: &mut FrameTable, zone: usize, from: Frame) {
        let order = table.order(from);
        let blocks = &mut self.zones[zone].blocks;
        let clean = blocks.iter().enumerate();
        let target = clean
            .filter(|(_, block)| !block.is_tainted() && block.has_own(order, MOVABLE))
            .min_by_key(|(_, block)| block.free_frames())
            .map(|(at, _)| at);
        let to = target.and_then(|at| blocks[at].take_own(table, order, MOVABLE));
        let Some(to) = to else {
            table.split_allocated(from);
            self.evacuate(table, zone, from);
            self.evacuate(table, zone, from.offset(order.frames() / 2));
            return;
        };
        self.zones[zone].free_frames -= order.frames();
        let owner = table.owner(from);
        table.release(from);
        table.allocate(to, order, Mobility::Movable, owner);
        self.give(table, from, order);
        self.counts.pages_moved += order.frames();
        debug_assert!(order <= Order::LARGEST_FREE);
    }
}
