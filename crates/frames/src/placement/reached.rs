//! The depth that requests reach, for placements that try one depth after another.

use super::stepwise::Stepwise;
use super::zonelist::Depth;
use super::{Counter, Request};
use crate::layout::Frame;
use crate::table::{FrameTable, Owner};

/// Counts of requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reached {
    below_low: u64,
    below_min: u64,
    failed: u64,
}

impl Reached {
    /// The counts for reports.
    pub(super) fn counters(self) -> [Counter; 3] {
        let counter = |name, meaning, value| Counter { name, meaning, value };
        [
            counter(
                "below_low",
                "allocations that no zone could serve above its low watermark",
                self.below_low,
            ),
            counter(
                "below_min",
                "allocations that no zone could serve above its min watermark",
                self.below_min,
            ),
            counter("failed", "allocations that nothing fitted", self.failed),
        ]
    }
}

/// Has a placement reach deeper and deeper until something fits a request, and counts how deep that
/// was: where nothing reclaims, memory is to be used to the last frame.
#[inline]
pub(super) fn reach<P: Stepwise>(
    placement: &mut P,
    table: &mut FrameTable,
    request: &Request,
    owner: Owner,
    reached: impl Fn(&mut P) -> &mut Reached,
) -> Option<Frame> {
    for depth in Depth::EACH {
        if let Some(frame) = placement.attempt(table, request, owner, depth) {
            match depth {
                Depth::Low => {}
                Depth::Min => reached(placement).below_low += 1,
                Depth::All => reached(placement).below_min += 1,
            }
            return Some(frame);
        }
    }
    reached(placement).failed += 1;
    None
}
