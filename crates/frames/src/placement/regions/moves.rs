//! Moving a block from one place to another, and what that costs.

use alloc::vec::Vec;

use super::space::Pick;
use super::{Region, Regions};
use crate::layout::Frame;
use crate::table::{FrameTable, Owner};
use crate::{Mobility, Order};

/// One block that was migrated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The first of its owners.
    pub owner: Owner,
    /// Where it was.
    pub from: Frame,
    /// Where it is.
    pub to: Frame,
    /// Its size.
    pub order: Order,
}

/// Hardware that migrates pages in use (Contiguitas, "Hardware Migration of Unmovables").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// Nanoseconds for which one page of 4 KiB occupies the hardware, from the command until its
    /// source is free. The default is the timing simulator's: `whole_ns` of the base page by
    /// cacheable hardware, which `prairie migrate paper` prints under "What a migration costs" for
    /// 16 cores with 500 requests each (`docs/src/results/contiguitas-hw.md`). The copy takes 7 of
    /// these 10.6 µs.
    pub ns_per_page: u64,
}

impl Default for Hardware {
    fn default() -> Hardware {
        Hardware { ns_per_page: 10_600 }
    }
}

impl Regions {
    /// Lets every move be noted from now on, for [`take_moves`](Regions::take_moves).
    pub fn note_moves(&mut self) {
        self.moves.get_or_insert_default();
    }

    /// What was moved since the last call, in order.
    pub fn take_moves(&mut self) -> Vec<Move> {
        self.moves.as_mut().map(core::mem::take).unwrap_or_default()
    }

    /// Moves an allocated block to `to`, which is on no list and as large, makes it `mobility`, and
    /// frees its old place. Its owners keep it.
    pub(super) fn relocate(
        &mut self,
        table: &mut FrameTable,
        from: Frame,
        to: Frame,
        mobility: Mobility,
    ) {
        let (owner, order) = (table.owner(from), table.order(from));
        let by_hardware = table.mobility(from) == Mobility::Unmovable;
        table.release(from);
        table.allocate(to, order, mobility, owner);
        self.give(table, from, order);
        let counts = &mut self.counts;
        counts.pages_moved += order.frames();
        if by_hardware && self.config.hardware.is_some() {
            counts.pages_moved_by_hardware += order.frames();
        } else {
            // Every CPU that may have used the page has to forget where it was.
            counts.shootdowns += 1;
        }
        if let Some(moves) = &mut self.moves {
            moves.push(Move { owner, from, to, order });
        }
    }

    /// Whether a page in use in the unmovable region can be moved all the same.
    pub(super) fn moves_unmovable(&self) -> bool {
        self.config.hardware.is_some()
    }

    /// Moves an unmovable block to the far end of its region, as a whole or in halves.
    pub(super) fn migrate_by_hardware(&mut self, table: &mut FrameTable, node: usize, from: Frame) {
        let order = table.order(from);
        let far = Pick::Beyond(self.nodes[node].near[Region::Unmovable as usize]);
        let zones: Vec<usize> = self.nodes[node].zones.clone();
        let to = zones
            .into_iter()
            .find_map(|zone| self.zones[zone].space.take(table, Region::Unmovable, order, far));
        match to {
            Some(to) => self.relocate(table, from, to, Mobility::Unmovable),
            None => {
                table.split_allocated(from);
                self.counts.moved_blocks_split += 1;
                self.migrate_by_hardware(table, node, from);
                self.migrate_by_hardware(table, node, from.offset(order.frames() / 2));
            }
        }
    }
}
