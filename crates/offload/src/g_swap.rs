//! g-swap's law, for comparison: hold the rate of promotions below a fixed target.
//!
//! Google's compressed-memory tier picks, per job, the smallest age beyond which pages may be
//! taken such that no more than a set share of the working set is promoted (read back) a minute
//! (Lagar-Cavilla et al., *Software-Defined Far Memory*, ASPLOS 2019; 0.2 % in production). It
//! knows neither how slow the device is nor how much the job minds, which is what TMO holds
//! against it (§4.3).

use serde::Serialize;

use crate::observation::Observation;
use crate::signal::returned::returned_pages;

/// The controller.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GSwap {
    /// Share of the container that may be promoted in a minute.
    pub target_per_minute: f64,
    /// Share of the container that is reclaimed each period while below the target.
    pub reclaim_ratio: f64,
}

impl Default for GSwap {
    fn default() -> GSwap {
        GSwap { target_per_minute: 0.002, reclaim_ratio: 0.0005 }
    }
}

/// Bytes of a page.
const PAGE: f64 = 4096.0;

impl GSwap {
    /// Bytes to reclaim after the period between two observations: in proportion to how far the
    /// promotion rate is below its target, nothing from the target on.
    pub fn reclaim_bytes(&self, before: &Observation, now: &Observation) -> u64 {
        let minutes = now.at.saturating_sub(before.at).as_secs_f64() / 60.0;
        if minutes <= 0.0 || now.current_bytes == 0 {
            return 0;
        }
        let promoted = returned_pages(before, now) as f64 * PAGE / now.current_bytes as f64;
        let slack = (1.0 - promoted / minutes / self.target_per_minute).max(0.0);
        (now.current_bytes as f64 * self.reclaim_ratio * slack) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prairie_host::cgroup::MemoryStat;
    use std::time::Duration;

    #[test]
    fn promotions_stop_it_whatever_they_cost() {
        const GIB: u64 = 1 << 30;
        let at = |seconds, zswpin| Observation {
            at: Duration::from_secs(seconds),
            current_bytes: GIB,
            stat: MemoryStat { zswpin, ..MemoryStat::default() },
            ..Observation::default()
        };
        // The target is 0.002 x 262144 pages = 524.3 pages a minute, 52.4 in six seconds.
        let law = GSwap::default();
        assert_eq!(law.reclaim_bytes(&at(0, 0), &at(6, 0)), 536_870);
        let half = law.reclaim_bytes(&at(0, 0), &at(6, 26));
        assert!(half.abs_diff(270_000) < 5_000, "{half}");
        assert_eq!(law.reclaim_bytes(&at(0, 0), &at(6, 53)), 0);
        assert_eq!(law.reclaim_bytes(&at(6, 0), &at(6, 0)), 0, "no time has passed");
    }
}
