//! Demand for huge pages over the last two seconds (section 4.3).

use crate::units::HugePages;

/// The window over which demand is watched: 2 seconds, the paper's.
pub const WINDOW_NS: u64 = 2_000_000_000;
/// Parts of the window that leave it as a whole: 125 ms each.
const EPOCHS: usize = 16;
const EPOCH_NS: u64 = WINDOW_NS / EPOCHS as u64;

/// Lowest and highest demand of a stretch of time, and the highest rise within it.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    min: u64,
    max: u64,
    rise: u64,
}

impl Stretch {
    const fn flat(demand: u64) -> Stretch {
        Stretch { min: demand, max: demand, rise: 0 }
    }

    fn then(self, later: Stretch) -> Stretch {
        Stretch {
            min: self.min.min(later.min),
            max: self.max.max(later.max),
            rise: self.rise.max(later.rise).max(later.max.saturating_sub(self.min)),
        }
    }
}

/// Demand in a sliding window of two seconds.
#[derive(Clone, Debug)]
pub struct DemandWindow {
    /// A ring by time: the stretch of epoch `e` is at `e % EPOCHS`.
    epochs: [Stretch; EPOCHS],
    current_epoch: u64,
    demand: u64,
}

impl DemandWindow {
    /// A window in which demand was 0.
    pub const fn new() -> DemandWindow {
        DemandWindow { epochs: [Stretch::flat(0); EPOCHS], current_epoch: 0, demand: 0 }
    }

    /// Records the demand from `now_ns` on.
    pub fn record(&mut self, demand: HugePages, now_ns: u64) {
        self.advance(now_ns);
        self.demand = demand.0;
        let current = &mut self.epochs[self.current_epoch as usize % EPOCHS];
        *current = current.then(Stretch::flat(demand.0));
    }

    /// How much higher demand has risen above an earlier minimum within the window: the most that
    /// was seen to be needed again.
    ///
    /// The paper writes demandmax − demandmin. A minimum *after* the maximum must not count: when
    /// demand falls for the first time, the fall itself would raise the limit by just what falls,
    /// and nothing would be released, against the paper's Figure 10, where the first drop is
    /// tracked tightly and only later ones are kept.
    pub fn rise(&mut self, now_ns: u64) -> HugePages {
        self.advance(now_ns);
        let oldest = self.current_epoch + 1;
        let in_order = (0..EPOCHS as u64).map(|i| self.epochs[(oldest + i) as usize % EPOCHS]);
        HugePages(in_order.reduce(Stretch::then).map_or(0, |window| window.rise))
    }

    /// Lowest and highest demand within the window.
    pub fn extremes(&mut self, now_ns: u64) -> (HugePages, HugePages) {
        self.advance(now_ns);
        let min = self.epochs.iter().map(|epoch| epoch.min).min().unwrap_or(0);
        let max = self.epochs.iter().map(|epoch| epoch.max).max().unwrap_or(0);
        (HugePages(min), HugePages(max))
    }

    /// Advances to now with unchanged demand.
    fn advance(&mut self, now_ns: u64) {
        let epoch = now_ns / EPOCH_NS;
        let passed = epoch.saturating_sub(self.current_epoch);
        for i in 1..=passed.min(EPOCHS as u64) {
            let slot = (self.current_epoch + i) as usize % EPOCHS;
            self.epochs[slot] = Stretch::flat(self.demand);
        }
        if passed > EPOCHS as u64 {
            self.epochs = [Stretch::flat(self.demand); EPOCHS];
        }
        self.current_epoch = self.current_epoch.max(epoch);
    }
}

impl Default for DemandWindow {
    fn default() -> Self {
        DemandWindow::new()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    fn window(steps: &[(u64, u64)]) -> DemandWindow {
        let mut window = DemandWindow::new();
        for &(ms, demand) in steps {
            window.record(HugePages(demand), ms * MS);
        }
        window
    }

    #[test]
    fn a_fall_is_no_need_and_a_rise_after_it_is() {
        let mut window = window(&[(0, 100), (5_000, 90), (5_100, 20)]);
        assert_eq!(window.rise(5_100 * MS), HugePages(0));
        assert_eq!(window.extremes(5_100 * MS), (HugePages(20), HugePages(100)));
        window.record(HugePages(80), 5_200 * MS);
        window.record(HugePages(10), 5_300 * MS);
        assert_eq!(window.rise(5_300 * MS), HugePages(60));
    }

    #[test]
    fn what_lies_two_seconds_back_is_forgotten() {
        let mut window = window(&[(10_000, 0), (10_001, 50), (10_002, 0)]);
        assert_eq!(window.rise(11_874 * MS), HugePages(50));
        assert_eq!(window.rise(12_001 * MS), HugePages(0));
        assert_eq!(window.extremes(12_001 * MS), (HugePages(0), HugePages(0)));
    }

    #[test]
    fn time_may_stand_still_or_seem_to_go_back() {
        let mut window = window(&[(9_000, 5), (8_000, 9), (0, 3)]);
        assert_eq!(window.rise(0), HugePages(9));
    }

    proptest! {
        /// Against all pairs of samples, with times on the borders of epochs.
        #[test]
        fn the_rise_is_the_highest_of_all_pairs(
            steps in prop::collection::vec((0u64..24, 0u64..50), 1..40)
        ) {
            let mut window = DemandWindow::new();
            let mut epoch = 100;
            let mut samples = vec![(0, 0)];
            for (gap, demand) in steps {
                epoch += gap;
                window.record(HugePages(demand), epoch * EPOCH_NS);
                samples.push((epoch, demand));
                let first = epoch - (EPOCHS as u64 - 1);
                // Demand at the start of the window counts, as it lasted into it.
                let before = samples.iter().rev().find(|sample| sample.0 < first);
                let within = samples.iter().filter(|sample| sample.0 >= first);
                let seen: Vec<u64> = before.into_iter().chain(within).map(|s| s.1).collect();
                // The first sample's own epoch begins with what was before it.
                let highest = (0..seen.len())
                    .flat_map(|i| (i..seen.len()).map(move |j| (i, j)))
                    .map(|(i, j)| seen[j].saturating_sub(seen[i]))
                    .max()
                    .unwrap();
                prop_assert_eq!(window.rise(epoch * EPOCH_NS), HugePages(highest));
            }
        }
    }
}
