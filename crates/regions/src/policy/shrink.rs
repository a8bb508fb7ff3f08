//! Shrinking the kernel region: when it is set up, when it has idle memory, and when user memory is
//! short.

use std::time::Duration;

use super::node::Node;
use super::{FRESH, Guard, Policy, Reason, SCANNED_AT_ONCE, Step};
use crate::choice::{self, Block, Obstacle, Place};

/// User memory has to be short for this long before a block is yielded (*chosen*).
const YIELD_AFTER: Duration = Duration::from_secs(10);

/// Without a block that could shrink, the next search comes after this, and each further one after
/// twice the time, up to 32 times (*chosen*): what a load used is often freed in the seconds after
/// it.
const SEARCH_AGAIN: Duration = Duration::from_secs(10);

/// Up to 1 in N frames of a block may be empty slabs (*measured*: 3 to 62 of 32,768 after pipes).
const FEW: u64 = 128;

/// A search reads what fills all blocks of the kernel region: this for each frame (*measured*).
const READ_FRAME: Duration = Duration::from_nanos(60);

/// Searches may take this share of time: 1 in N (*chosen*).
const SEARCH_SHARE: u32 = 2000;

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
        match choice::by_age(blocks, number, &[], sample.kernel.per_cpu).find(allowed) {
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
        let guard = self.against_shrinking(&self.nodes[&number], now, reason);
        let node = self.nodes.get_mut(&number).expect("a sampled node");
        node.guard = guard;
        if guard != Guard::None {
            (node.searching, node.drained) = (None, false);
            return Step::Wait;
        }
        let began = *node.searching.get_or_insert(now);
        let step = self.search(number, blocks, (began, now), reason);
        let node = self.nodes.get_mut(&number).expect("a sampled node");
        match step {
            Step::Scan(_) => {}
            // From the next poll on, everything is read again.
            Step::Drain => {
                (node.searching, node.drained) = (Some(now + Duration::from_nanos(1)), true);
            }
            _ => (node.searching, node.drained) = (None, false),
        }
        if step == Step::Wait {
            node.guard = Guard::AllRefused;
            let frames = u32::try_from(node.sample.kernel.managed).unwrap_or(u32::MAX);
            let wait = SEARCH_AGAIN * 2u32.saturating_pow(node.fruitless).min(32);
            let wait = wait.max(READ_FRAME * SEARCH_SHARE * frames);
            (node.search_after, node.fruitless) = (now + wait, node.fruitless.saturating_add(1));
        }
        step
    }

    /// What stands against shrinking a node's kernel region, whatever its blocks hold.
    pub(super) fn against_shrinking(&self, node: &Node, now: Duration, reason: Reason) -> Guard {
        let wait = match reason {
            Reason::UserShort => YIELD_AFTER,
            _ => self.limits.shrink_after,
        };
        let lasted = node.wanted_since.is_some_and(|(_, since)| since + wait <= now);
        let after = node.sample.kernel.managed.saturating_sub(self.block_frames);
        if now < node.frozen_until {
            Guard::Frozen
        } else if after < self.floor(node) {
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
        }
    }

    /// The block that leaves next. What a block held while the kernel was short says nothing: all are
    /// read again, a few at a time, before a search that `began` ends without one.
    fn search(
        &self,
        number: u32,
        blocks: &[Block],
        (began, now): (Duration, Duration),
        reason: Reason,
    ) -> Step {
        let node = &self.nodes[&number];
        let sample = node.sample;
        let keep = node.view.low[0] + self.block_frames / 2;
        let allowed = |block: &&Block| {
            let fits = |found| choice::fits_without(found, &sample, keep);
            self.backoff.allows(block.number, now) && block.occupancy.as_ref().is_some_and(fits)
        };
        let mut candidates = choice::by_age(blocks, number, &self.youngest, sample.kernel.per_cpu);
        if let Some(block) = candidates.find(allowed) {
            return self.leave(block, now, reason);
        }
        let stale = blocks.iter().filter(|block| {
            block.node == number && block.place == Place::Kernel && block.scanned < began
        });
        let stale: Vec<u64> = stale.map(|block| block.number).take(SCANNED_AT_ONCE).collect();
        // A few kernel pages may be empty slabs.
        let few = self.block_frames / FEW;
        let nearly = |block: &Block| {
            block.node == number
                && block.place == Place::Kernel
                && matches!(choice::obstacle(block), Some(Obstacle::Unmovable(kept)) if kept <= few)
        };
        match stale.is_empty() {
            false => Step::Scan(stale),
            true if !node.drained && blocks.iter().any(nearly) => Step::Drain,
            true => Step::Wait,
        }
    }
}
