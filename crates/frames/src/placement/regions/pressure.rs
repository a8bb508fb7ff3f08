//! Memory pressure, kept apart for the two regions of a node.
//!
//! The paper extends PSI to tell stalls for lack of unmovable from those for lack of movable
//! memory. A machine that has a clock measures those and reports them
//! ([`Regions::report_pressure`]). A replayed trace has no stalls, since its programs do not react.
//! There, the share of requests that found their region too low stands for the share of time: those
//! that no zone could serve above its low watermark, which would have gone on to reclaim, and for
//! each time that the border moved on the path of an allocation as many as a pageblock has frames.
//! It is averaged over some eight wake-ups, as PSI averages over ten seconds.

use super::{PER_REGION, Region, Regions};

/// The pressure of one region of a node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pressure {
    /// Requests since the last wake-up.
    pub(super) requests: u32,
    /// Of those, the ones that found the region below its low mark.
    pub(super) stalled: u32,
    /// The average, in thousandths of a thousandth, so that small shares are not rounded away.
    average: u32,
    /// What a machine measured, in thousandths.
    reported: Option<u32>,
}

impl Pressure {
    /// The share in thousandths.
    pub(super) fn share(&self) -> u32 {
        self.reported.unwrap_or(self.average / 1000)
    }

    /// A wake-up: what happened since the last one enters the average by an eighth.
    pub(super) fn wake_up(&mut self) {
        let share = match self.requests.max(self.stalled) {
            0 => 0,
            requests => (u64::from(self.stalled) * 1_000_000 / u64::from(requests)) as u32,
        };
        self.average = (self.average / 8 * 7 + share / 8).min(1_000_000);
        (self.requests, self.stalled) = (0, 0);
    }
}

impl Regions {
    /// Says how long something stalled lately for lack of unmovable and of movable memory of a
    /// node, as shares of time in thousandths. From the first report on, reports alone count.
    pub fn report_pressure(&mut self, node: u16, thousandths: [u32; PER_REGION]) {
        if let Some(found) = self.nodes.iter_mut().find(|n| n.number == node) {
            for (pressure, share) in found.pressure.iter_mut().zip(thousandths) {
                pressure.reported = Some(share.min(1000));
            }
        }
    }

    /// The pressure of a region in thousandths, by the kernel's number for the node.
    pub fn pressure(&self, node: u16, region: Region) -> u32 {
        let found = self.nodes.iter().find(|n| n.number == node);
        found.map_or(0, |n| n.pressure[region as usize].share())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_follows_within_some_eight_wake_ups_and_fades() {
        let mut pressure = Pressure::default();
        let mut at = |requests, stalled, times| {
            for _ in 0..times {
                (pressure.requests, pressure.stalled) = (requests, stalled);
                pressure.wake_up();
            }
            pressure.share()
        };
        assert_eq!(at(1000, 100, 1), 12, "an eighth of a tenth");
        assert!((60..70).contains(&at(1000, 100, 7)), "after eight, two thirds");
        assert!(at(0, 0, 8) < 25);
        assert_eq!(at(0, 0, 60), 0);
        assert!(at(1, 1, 100) >= 990);
    }
}
