//! Growing the kernel region: which block, if any, and what stands against it.

use std::time::Duration;

use prairie_frames::placement::regions::resizer::Resize;

use super::node::{FREEZE, Node};
use super::{FRESH, Guard, Policy, Reason, SCANNED_AT_ONCE, Step};
use crate::choice::{self, Block, Place};

/// An early growth takes a block with no more than this share to move: 1 in N (*chosen*).
const NEARLY_EMPTY: u64 = 4;

impl Policy {
    /// The next growth of a node that wants one.
    pub(super) fn grow(&mut self, number: u32, blocks: &[Block], now: Duration) -> Step {
        let node = &self.nodes[&number];
        let view = node.view;
        let short = view.available[0] < view.low[0];
        let guard = if !self.may_grow(node) {
            Guard::Bound
        } else if !short && self.is_pressed() {
            Guard::Pressure
        } else if !short && !self.budget.allows(now) {
            Guard::Budget
        } else {
            Guard::None
        };
        // Without a stall it goes on to the target of a growth that a shortage began.
        let stalled = matches!(node.want, Resize::Grow { beyond: 1.. });
        let reason = if stalled && !short { Reason::Stalls } else { Reason::Reserve };
        // What is not needed yet must cost next to nothing.
        let early = !short && !stalled;
        let most = if early { self.block_frames / NEARLY_EMPTY } else { u64::MAX };
        let step = match guard {
            Guard::None => self.growth(number, blocks, now, reason, most),
            guard => Err(guard),
        };
        if let Ok(Step::Convert { block, .. }) = step {
            let chosen = blocks.iter().find(|own| own.number == block);
            self.moving = chosen.and_then(|b| b.occupancy).map_or(0, |found| found.to_move());
        }
        let node = self.nodes.get_mut(&number).expect("a sampled node");
        match step {
            Ok(step) => {
                node.guard = Guard::None;
                step
            }
            Err(Guard::NothingFits | Guard::AllRefused) if early => {
                node.no_early_growth(now);
                Step::Wait
            }
            Err(guard) => {
                node.guard = guard;
                if short {
                    node.frozen_until = now + FREEZE;
                }
                Step::Wait
            }
        }
    }

    /// The next block for the kernel region, with no more than `most` frames to move.
    fn growth(
        &self,
        number: u32,
        blocks: &[Block],
        now: Duration,
        reason: Reason,
        most: u64,
    ) -> Result<Step, Guard> {
        let node = &self.nodes[&number];
        let urgent = node.view.available[0] < node.view.low[0] / 2;
        let swap = if urgent { self.swap_free / 2 } else { 0 };
        let allowed = |block: &&Block| self.backoff.allows(block.number, now);
        let candidates: Vec<&Block> =
            choice::by_cost(blocks, number, self.block_frames).filter(allowed).collect();
        if candidates.is_empty() {
            return Err(Guard::AllRefused);
        }
        let fits = |block: &&&Block| match &block.occupancy {
            Some(found) => {
                found.to_move() <= most
                    && choice::fits_elsewhere(found, &node.sample, swap)
                    && choice::gains(found, &node.sample, swap)
            }
            // What cannot be read may hold hugetlb pages in use, which would be tried forever.
            None => {
                let full = self.block_frames;
                let found = prairie_host::Occupancy { movable: full, ..Default::default() };
                self.hugetlb == 0
                    && full <= most
                    && choice::fits_elsewhere(&found, &node.sample, swap)
                    && choice::gains(&found, &node.sample, swap)
            }
        };
        let readable = |block: &&Block| block.occupancy.is_some();
        let stale = |block: &&&Block| readable(block) && block.scanned + FRESH < now;
        let first: Vec<u64> =
            candidates.iter().take(SCANNED_AT_ONCE).filter(stale).map(|b| b.number).collect();
        if !first.is_empty() {
            return Ok(Step::Scan(first));
        }
        let chosen = candidates.iter().find(fits).ok_or(Guard::NothingFits)?;
        if stale(&chosen) {
            return Ok(Step::Scan(vec![chosen.number]));
        }
        Ok(Step::Convert { block: chosen.number, to: Place::Kernel, reason })
    }

    /// Whether one block more keeps the kernel region below its ceiling, and a block movable.
    fn may_grow(&self, node: &Node) -> bool {
        let sample = &node.sample;
        let after = sample.kernel.managed + self.block_frames;
        let ceiling = sample.managed() as f64 * self.kernel.ceiling_percent / 100.0;
        after as f64 <= ceiling && sample.movable.managed >= 2 * self.block_frames
    }
}
