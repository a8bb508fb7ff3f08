//! Pins of a replay: which allocations are pinned, and how often.
//!
//! A recorded pin names a frame as the kernel had it, so that it finds the allocation by its name, as a
//! free does. The kernel pins whole allocations, a huge page even where one frame of it is named. What is
//! pinned becomes unmovable in every system: where it lies in most, and in the unmovable region, after a
//! migration, in those that migrate before they pin ([`Placement::pin_block`]). Memory that was unmovable
//! from the start can be pinned without consequence.

use std::collections::BTreeMap;

use prairie_frames::placement::Placement;
use prairie_frames::table::Owner;
use prairie_frames::{Frame, Mobility, Order};

use super::Replay;

/// Pinned allocations by their first recorded frame.
#[derive(Clone, Debug, Default)]
pub(super) struct Pins {
    pinned: BTreeMap<Owner, Pinned>,
}

#[derive(Clone, Copy, Debug)]
struct Pinned {
    order: Order,
    /// Pins that have not come off.
    times: u64,
}

impl Pins {
    pub(super) fn is_empty(&self) -> bool {
        self.pinned.is_empty()
    }

    /// The pinned allocation that `owner`'s frame is of, by its first.
    pub(super) fn containing(&self, owner: Owner) -> Option<Owner> {
        let (&first, pinned) = self.pinned.range(..=owner).next_back()?;
        (u64::from(owner - first) < pinned.order.frames()).then_some(first)
    }
}

impl<P: Placement> Replay<P> {
    /// Pins the memory of `2^order` recorded frames.
    pub(super) fn pin(&mut self, first: Frame, order: Order) {
        self.counts.pins += 1;
        let end = self.end_of(first, order);
        let mut at = first.0;
        while at < end {
            if let Some(pinned) = self.pins.containing(at) {
                let entry = self.pins.pinned.get_mut(&pinned).expect("just found");
                entry.times += 1;
                at = pinned + entry.order.frames() as Owner;
                continue;
            }
            let Some((block, lies)) = self.table.block_containing(at) else {
                self.counts.pins_of_unknown += 1;
                at += 1;
                continue;
            };
            let order = self.table.order(lies);
            at = block + order.frames() as Owner;
            if self.table.mobility(lies) != Mobility::Movable {
                self.counts.pins_of_unmovable += 1;
            } else if self.placement.pin_block(&mut self.table, block, order) {
                self.pins.pinned.insert(block, Pinned { order, times: 1 });
            } else {
                self.counts.pins_refused += 1;
                // Parts that were already pinned are unpinned.
                self.let_go(block, order);
            }
        }
    }

    /// Removes a pin from the memory of `2^order` recorded frames.
    pub(super) fn unpin(&mut self, first: Frame, order: Order) {
        self.counts.unpins += 1;
        let end = self.end_of(first, order);
        let mut at = first.0;
        while at < end {
            let Some(pinned) = self.pins.containing(at) else {
                at += 1;
                continue;
            };
            let entry = self.pins.pinned.get_mut(&pinned).expect("just found");
            entry.times -= 1;
            let Pinned { order, times } = *entry;
            at = pinned + order.frames() as Owner;
            if times == 0 {
                self.pins.pinned.remove(&pinned);
                self.let_go(pinned, order);
            }
        }
    }

    /// Recorded frames are about to be freed: no pin outlives its allocation. The kernel frees nothing
    /// that is pinned; the end of the pin was not recorded.
    pub(super) fn end_pins(&mut self, first: Frame, order: Order) {
        let end = self.end_of(first, order);
        let mut at = first.0;
        while at < end && !self.pins.is_empty() {
            match self.pins.containing(at) {
                Some(pinned) => {
                    self.counts.pins_ended_by_free += 1;
                    let Pinned { order, .. } =
                        self.pins.pinned.remove(&pinned).expect("just found");
                    self.let_go(pinned, order);
                    at = pinned + order.frames() as Owner;
                }
                None => {
                    let next = self.pins.pinned.range(at..).next();
                    at = next.map_or(end, |(&next, _)| next);
                }
            }
        }
    }

    /// Lets the pieces of a block be movable again that are not.
    fn let_go(&mut self, block: Owner, order: Order) {
        let (mut at, end) = (block, block + order.frames() as Owner);
        while at < end {
            let lies = self.table.block_of(at).expect("what was pinned lies somewhere");
            let order = self.table.order(lies);
            if self.table.mobility(lies) == Mobility::Unmovable {
                self.placement.unpin_block(&mut self.table, at, order);
            }
            at += order.frames() as Owner;
        }
    }

    fn end_of(&self, first: Frame, order: Order) -> Owner {
        (u64::from(first.0) + order.frames()).min(self.table.owners()) as Owner
    }

    /// # Panics
    /// If what is pinned is not held, or could be moved.
    pub(super) fn validate_pins(&self) {
        for (&first, pinned) in &self.pins.pinned {
            assert!(pinned.times > 0, "recorded frame {first}");
            let (mut at, end) = (first, first + pinned.order.frames() as Owner);
            while at < end {
                let lies = self.table.block_of(at).expect("what is pinned lies somewhere");
                assert_eq!(self.table.mobility(lies), Mobility::Unmovable, "recorded frame {at}");
                at += self.table.order(lies).frames() as Owner;
            }
        }
    }
}
