//! Shrinking the kernel region: when it is set up, when it has idle memory, and when user memory is
//! short.

use std::time::Duration;

use super::node::Node;
use super::{FRESH, Guard, Policy, Reason, SCANNED_AT_ONCE, Step};
use crate::choice::{self, Block, Place};

/// User memory has to be short for this long before a block is yielded (*chosen*).
const YIELD_AFTER: Duration = Duration::from_secs(10);

/// Without a block that could shrink, the next search comes after this (*chosen*).
const SEARCH_AGAIN: Duration = Duration::from_secs(300);

impl Policy {
    /// Frames that the kernel region of a node keeps when it shrinks.
    fn floor(&self, node: &Node) -> u64 {
        (node.sample.managed() as f64 * self.kernel.floor_percent / 100.0) as u64
    }

    /// Confines the kernel to its initial share: its highest blocks become movable.
    pub(super) fn set_up(&mut self, number: u32, blocks: &[Block], now: Duration) -> Step {
        let node = &self.nodes[&number];
        let (sample, low) = (node.sample, node.view.low[0]);
        let initial = (sample.managed() as f64 * self.kernel.initial_percent / 100.0) as u64;
        let after = sample.kernel.managed.saturating_sub(self.block_frames);
        if after < initial {
            return self.end_setup(number, Guard::None);
        }
        if self.is_pressed() {
            self.nodes.get_mut(&number).expect("a sampled node").guard = Guard::Pressure;
            return Step::Wait;
        }
        // After the conversion there must be no reason to take it back at once.
        let keep = low + self.block_frames / 2;
        let allowed = |block: &&Block| {
            let fits = |found| choice::fits_without(found, &sample, keep);
            self.backoff.allows(block.number, now) && block.occupancy.as_ref().is_some_and(fits)
        };
        match choice::by_age(blocks, number, &[]).find(allowed) {
            Some(block) => self.leave(block, now, Reason::Setup),
            None => self.end_setup(number, Guard::AllRefused),
        }
    }

    fn end_setup(&mut self, number: u32, guard: Guard) -> Step {
        let node = self.nodes.get_mut(&number).expect("a sampled node");
        (node.set_up, node.guard) = (true, guard);
        Step::Wait
    }

    fn leave(&self, block: &Block, now: Duration, reason: Reason) -> Step {
        match block.scanned + FRESH < now {
            true => Step::Scan(vec![block.number]),
            false => Step::Convert { block: block.number, to: Place::Movable, reason },
        }
    }

    /// Returns a block of the kernel region to user memory, if nothing stands against it.
    pub(super) fn shrink(
        &mut self,
        number: u32,
        blocks: &[Block],
        now: Duration,
        reason: Reason,
    ) -> Step {
        let node = &self.nodes[&number];
        let wait = match reason {
            Reason::UserShort => YIELD_AFTER,
            _ => self.limits.shrink_after,
        };
        let lasted = node.wanted_since.is_some_and(|(_, since)| since + wait <= now);
        let low = node.view.low[0];
        let guard = if now < node.frozen_until {
            Guard::Frozen
        } else if node.sample.kernel.managed.saturating_sub(self.block_frames) < self.floor(node) {
            Guard::Bound
        } else if !lasted {
            Guard::Waiting
        } else if reason == Reason::Excess && self.is_pressed() {
            Guard::Pressure
        } else if !self.budget.allows(now) {
            Guard::Budget
        } else if now < node.search_after {
            Guard::AllRefused
        } else {
            Guard::None
        };
        let keep = low + self.block_frames / 2;
        let sample = node.sample;
        let allowed = |block: &&Block| {
            let fits = |found| choice::fits_without(found, &sample, keep);
            self.backoff.allows(block.number, now) && block.occupancy.as_ref().is_some_and(fits)
        };
        let found = match guard {
            Guard::None => choice::by_age(blocks, number, &self.youngest).find(allowed),
            _ => None,
        };
        // What a block held while the kernel was short says nothing: read again before giving up.
        let stale = blocks.iter().filter(|block| {
            block.node == number && block.place == Place::Kernel && block.scanned + FRESH < now
        });
        let stale: Vec<u64> = match (guard, found) {
            (Guard::None, None) => stale.map(|b| b.number).take(SCANNED_AT_ONCE).collect(),
            _ => Vec::new(),
        };
        let step = match (found, stale.is_empty()) {
            (Some(block), _) => self.leave(block, now, reason),
            (None, true) => Step::Wait,
            (None, false) => Step::Scan(stale),
        };
        let node = self.nodes.get_mut(&number).expect("a sampled node");
        node.guard = guard;
        if guard == Guard::None && step == Step::Wait {
            (node.guard, node.search_after) = (Guard::AllRefused, now + SEARCH_AGAIN);
        }
        step
    }
}
