//! Stalls of one kind: how many, how long, and their distribution.

use hdrhistogram::Histogram;

/// Significant decimal digits of a quantile: it is off by 1 % at most.
const DIGITS: u8 = 2;

/// Durations beyond a century count as one: no histogram has to reach further.
const LONGEST_NS: u64 = 1 << 62;

/// The distribution of the durations of stalls, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Tally {
    total_ns: u64,
    max_ns: u64,
    durations: Histogram<u64>,
}

impl Default for Tally {
    fn default() -> Self {
        let durations = Histogram::new(DIGITS).expect("two digits are allowed");
        Tally { total_ns: 0, max_ns: 0, durations }
    }
}

impl Tally {
    /// Adds a stall of `ns` nanoseconds.
    pub fn add(&mut self, ns: u64) {
        self.total_ns = self.total_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
        self.durations.record(ns.min(LONGEST_NS)).expect("the histogram grows as needed");
    }

    /// Adds all of another tally.
    pub(crate) fn add_all(&mut self, other: &Tally) {
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.durations.add(&other.durations).expect("both resize themselves");
    }

    /// Stalls.
    pub fn count(&self) -> u64 {
        self.durations.len()
    }

    /// The sum of all durations, exactly.
    pub fn total_ns(&self) -> u64 {
        self.total_ns
    }

    /// The longest, exactly.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The duration that a share of the stalls does not exceed, to 1 %: 0.5 gives the median. 0
    /// without stalls.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        self.durations.value_at_quantile(share).min(self.max_ns)
    }

    /// Stalls of at most `ns` nanoseconds, as far as two digits can tell.
    pub fn at_most(&self, ns: u64) -> u64 {
        if ns >= self.max_ns { self.count() } else { self.durations.count_between(0, ns) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_percent() {
        let mut tally = Tally::default();
        (1..=1000u64).for_each(|i| tally.add(i * 1_000_000));
        assert_eq!((tally.count(), tally.max_ns()), (1000, 1_000_000_000));
        assert_eq!(tally.total_ns(), 500_500 * 1_000_000);
        for (share, expected) in [(0.5, 500e6), (0.99, 990e6), (1.0, 1e9)] {
            let found = tally.quantile_ns(share) as f64;
            assert!((found / expected - 1.0).abs() < 0.01, "{share}: {found}");
        }
        let below = tally.at_most(250_000_000) as f64;
        assert!((below / 250.0 - 1.0).abs() < 0.02, "{below}");
        assert_eq!(tally.at_most(u64::MAX), 1000);
        let mut both = tally.clone();
        both.add_all(&tally);
        assert_eq!((both.count(), both.max_ns()), (2000, 1_000_000_000));
    }

    #[test]
    fn nothing_and_everything() {
        let mut tally = Tally::default();
        assert_eq!((tally.quantile_ns(0.99), tally.at_most(5)), (0, 0));
        tally.add(u64::MAX);
        tally.add(u64::MAX);
        tally.add(0);
        assert_eq!((tally.count(), tally.total_ns(), tally.max_ns()), (3, u64::MAX, u64::MAX));
    }
}
