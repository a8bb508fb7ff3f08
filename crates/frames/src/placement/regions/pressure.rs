//! Memory pressure, kept apart for the two regions of a node.
//!
//! The paper extends PSI to tell stalls for lack of unmovable from those for lack of movable
//! memory. A machine that has a clock measures those and reports them
//! ([`Regions::report_pressure`]). A replayed trace has no stalls, since its programs do not react.
//! There, the share of requests that found their region too low stands for the share of time: those
//! that no zone could serve above its low watermark, which would have gone on to reclaim. A request
//! for which the border moved at once waited as long as one in the kernel does; where time is not
//! known either, as many requests count as stalled as a pageblock has frames. The sum is averaged
//! over some eight wake-ups, as PSI averages over ten seconds.

use super::border::PAGEBLOCK;
use super::{PER_REGION, Region, Regions};

/// How long a request waits for the border, in nanoseconds: two waits of 17.9 ms in total (measured
/// in Contiguitas's kernel under the mixed load, `kernel/model`, third boot).
const WAIT_NS: u64 = 9_000_000;

/// The pressure of one region of a node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pressure {
    /// Requests since the last wake-up.
    pub(super) requests: u32,
    /// Of those, the ones that found the region below its low mark.
    pub(super) stalled: u32,
    /// Requests for which the border moved at once.
    pub(super) waited: u32,
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

    /// A wake-up: what happened since the last one, `elapsed_ns` ago, enters the average by an eighth.
    /// Nothing has elapsed where time is not known.
    pub(super) fn wake_up(&mut self, elapsed_ns: u64) {
        let [requests, stalled, waited] = [self.requests, self.stalled, self.waited].map(u64::from);
        let share = match elapsed_ns {
            0 => {
                let stalled = stalled + waited * PAGEBLOCK;
                millionths(stalled, requests.max(stalled))
            }
            _ => {
                millionths(stalled, requests.max(stalled))
                    + millionths(waited * WAIT_NS, elapsed_ns)
            }
        };
        self.average = (self.average / 8 * 7 + share.min(1_000_000) as u32 / 8).min(1_000_000);
        (self.requests, self.stalled, self.waited) = (0, 0, 0);
    }
}

/// The share of a part.
fn millionths(part: u64, whole: u64) -> u64 {
    part.saturating_mul(1_000_000).checked_div(whole).unwrap_or(0)
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
                pressure.wake_up(0);
            }
            pressure.share()
        };
        assert_eq!(at(1000, 100, 1), 12, "an eighth of a tenth");
        assert!((60..70).contains(&at(1000, 100, 7)), "after eight, two thirds");
        assert!(at(0, 0, 8) < 25);
        assert_eq!(at(0, 0, 60), 0);
        assert!(at(1, 1, 100) >= 990);
    }

    /// Of a tenth of a second, 9 ms: nine hundredths, of which an eighth counts at once. By requests
    /// alone it would be all of the time if there are fewer than 512.
    #[test]
    fn a_wait_counts_as_long_as_it_takes() {
        let after = |elapsed_ns| {
            let mut pressure = Pressure { requests: 100, waited: 1, ..Pressure::default() };
            pressure.wake_up(elapsed_ns);
            pressure.share()
        };
        assert_eq!([100_000_000, 1_000_000, 0].map(after), [11, 125, 125]);
    }
}
