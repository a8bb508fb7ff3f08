//! Kernel memory, and memory of programs that is pinned.

use std::collections::HashMap;

use prairie_frames::Order;
use prairie_frames::kstack::{Places, Stacks};
use prairie_frames::placement::{ObjectPage, Placement, Request, gfp};
use prairie_frames::table::Owner;
use prairie_sim::workload::Workload;

use super::Server;
use crate::demand::Population;

/// The size of a kernel stack.
pub(super) const STACK: Order = Order::new(2).unwrap();
const _: () = assert!(STACK.frames() == Stacks::AMD64.pages);

/// The place of each stack in the kernel's address space.
#[derive(Debug, Default)]
pub(super) struct PlacesByOwner {
    by_owner: HashMap<Owner, u64>,
    places: Places,
}

impl PlacesByOwner {
    fn take(&mut self, owner: Owner) -> u64 {
        let place = self.places.take();
        self.by_owner.insert(owner, place);
        place
    }

    /// Frees the place of a stack; does nothing for other memory.
    pub(super) fn give(&mut self, owner: Owner) {
        if let Some(place) = self.by_owner.remove(&owner) {
            self.places.give(place);
        }
    }
}

impl<P: Placement> Server<'_, P> {
    /// Asks for one block of a kind; returns the frames that came.
    pub(super) fn feed(&mut self, kind: usize, now: f64) -> u64 {
        let Population { migrate_type, pinned, stacks, permanent, .. } = self.kernel[kind];
        let order = if stacks { STACK } else { self.kernel[kind].next_order(&mut self.random) };
        let request = self.request(order, migrate_type, gfp::KERNEL);
        let request = Request { permanent, ..request };
        let owner = if stacks { self.allocate_stack(request) } else { self.allocate_as(request) };
        let Some(owner) = owner else {
            let failed =
                if pinned { &mut self.failures.movable } else { &mut self.failures.kernel };
            *failed += 1;
            return 0;
        };
        if pinned && !self.placement.pin_block(&mut self.table, owner, order) {
            self.failures.pin += 1;
            self.release(owner, order);
            return 0;
        }
        self.kernel[kind].hold(owner, order, now, &mut self.random);
        order.frames()
    }

    /// A kernel stack: single pages, mapped in a row above a guard page.
    fn allocate_stack(&mut self, request: Request) -> Option<Owner> {
        let owner = self.owners.take(STACK)?;
        let place = self.stacks.take(owner);
        let first = place * Stacks::AMD64.stride() + Stacks::AMD64.guards;
        for at in 0..Stacks::AMD64.pages {
            let page = ObjectPage {
                object: ObjectPage::KERNEL_STACKS,
                index: first + at,
                pages: u64::MAX,
            };
            let request = Request { order: Order::BASE, page: Some(page), ..request };
            if !self.place(&request, owner + at as Owner) {
                (0..at).for_each(|page| self.release_parts(owner + page as Owner, Order::BASE));
                self.stacks.give(owner);
                self.owners.give(owner, STACK);
                return None;
            }
        }
        Some(owner)
    }

    /// Frames held by the kernel kinds that are called `network`.
    pub(crate) fn network_frames(&self) -> u64 {
        // Populations of pinned memory come after those of the kernel.
        let kinds = self.workload.kernel.iter().zip(&self.kernel);
        kinds.filter(|(kind, _)| kind.name == "network").map(|(_, held)| held.frames).sum()
    }

    /// Frames of programs that are pinned.
    pub(crate) fn pinned_frames(&self) -> u64 {
        self.kernel.iter().filter(|kind| kind.pinned).map(|kind| kind.frames).sum()
    }
}

/// Kernel memory of every kind, then what is pinned.
pub(super) fn populations(workload: &Workload, frames: u64) -> Vec<Population> {
    let kernel = workload.kernel.iter().map(|kind| Population::new(kind, frames, false));
    let pinned = workload.pinned.iter().map(|kind| Population::new(kind, frames, true));
    kernel.chain(pinned).collect()
}
