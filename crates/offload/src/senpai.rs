//! The paper's formula (TMO, §3.3, Figure 8).
//!
//! Every period a container gives up
//!
//! ```text
//! reclaim = memory.current × reclaim_ratio × max(0, 1 − pressure / threshold)
//! ```
//!
//! and never more than 1 % of itself. As pressure approaches the threshold the step shrinks to
//! nothing, so that a container comes to rest at a mild pressure. There is no limit that would
//! have to be lifted when it grows.

use serde::{Deserialize, Serialize};

/// The formula's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Senpai {
    /// Share of the container that is reclaimed each period where there is no pressure.
    pub reclaim_ratio: f64,
    /// Pressure, as a share of time, at which nothing is reclaimed.
    pub threshold: f64,
    /// Share of the container that is never exceeded in a period.
    pub max_step: f64,
}

/// What Meta runs in production: 0.0005, 0.1 %, at most 1 %, every six seconds.
impl Default for Senpai {
    fn default() -> Senpai {
        Senpai { reclaim_ratio: 0.0005, threshold: 0.001, max_step: 0.01 }
    }
}

impl Senpai {
    /// Bytes to reclaim from a container of `current_bytes` in a period of that `pressure`.
    pub fn reclaim_bytes(&self, current_bytes: u64, pressure: f64) -> u64 {
        let slack = (1.0 - pressure / self.threshold).max(0.0);
        let share = (self.reclaim_ratio * slack).min(self.max_step);
        (current_bytes as f64 * share) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_papers_constants() {
        let senpai = Senpai::default();
        const GIB: u64 = 1 << 30;
        // (current, pressure in percent, bytes)
        let table = [
            (GIB, 0.0, 536_870),
            (GIB, 0.025, 402_653),
            (GIB, 0.05, 268_435),
            (GIB, 0.099, 5_368),
            (GIB, 0.1, 0),
            (GIB, 5.0, 0),
            (64 * GIB, 0.0, 34_359_738),
            (0, 0.0, 0),
        ];
        for (current, per_cent, bytes) in table {
            let found = senpai.reclaim_bytes(current, per_cent / 100.0);
            assert!(found.abs_diff(bytes) <= 1, "{current} at {per_cent} %: {found}, not {bytes}");
        }
    }

    #[test]
    fn without_pressure_ten_minutes_take_five_per_cent() {
        // 1 - (1 - 0.0005)^100: what the constants amount to on a container of 449.5 MiB.
        let start = 449 * (1 << 20) + (1 << 19);
        let step = |current: u64| current - Senpai::default().reclaim_bytes(current, 0.0);
        let after = (0..100).fold(start, |current, _| step(current));
        let share = 1.0 - after as f64 / start as f64;
        assert!((share - 0.0488).abs() < 0.0001, "{share}");
    }

    proptest! {
        #[test]
        fn bounded_and_falling_with_pressure(
            current in 0u64..1 << 50,
            ratio in 0.0f64..1.0,
            (low, high) in (0.0f64..0.1, 0.0f64..0.1),
        ) {
            let senpai = Senpai { reclaim_ratio: ratio, ..Senpai::default() };
            let (low, high) = (low.min(high), low.max(high));
            let (more, less) = (senpai.reclaim_bytes(current, low), senpai.reclaim_bytes(current, high));
            prop_assert!(more >= less);
            prop_assert!(more as f64 <= current as f64 * senpai.max_step + 1.0);
            if high >= senpai.threshold { prop_assert_eq!(less, 0); }
        }
    }
}
