//! How many pageblocks a walk may read.

use std::time::Duration;

/// CPU time for page flags: a share of one core, spent once in an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// The share of one core, 0 to 1 and more; 0 reads no page flags at all.
    pub share: f64,
    /// The time from one walk to the next.
    pub interval: Duration,
}

/// What a walk reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Every frame.
    Full,
    /// This number of pageblocks, drawn at random.
    Sample(u64),
}

impl Budget {
    /// The smallest sample: less says nothing. With 64 blocks the interval of a share is at most
    /// 24 points wide.
    pub const MIN_SAMPLE: u64 = 64;

    /// CPU seconds that one walk may take.
    pub fn seconds(&self) -> f64 {
        self.share * self.interval.as_secs_f64()
    }

    /// What to read of `pageblocks`, where reading one takes `block_seconds` of CPU time.
    pub fn plan(&self, pageblocks: u64, block_seconds: f64) -> Plan {
        let affordable = self.seconds() / block_seconds.max(f64::MIN_POSITIVE);
        if pageblocks as f64 <= affordable || pageblocks <= Budget::MIN_SAMPLE {
            return Plan::Full;
        }
        Plan::Sample((affordable as u64).max(Budget::MIN_SAMPLE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_costs_what_it_may() {
        // 0.05 % of a core for five minutes is 0.15 s: 4500 pageblocks of 33 µs.
        let budget = Budget { share: 0.0005, interval: Duration::from_secs(300) };
        assert_eq!(budget.plan(4000, 33.3e-6), Plan::Full);
        assert_eq!(budget.plan(524_288, 33.3e-6), Plan::Sample(4504));
        assert_eq!(budget.plan(524_288, 1.0), Plan::Sample(Budget::MIN_SAMPLE));
        assert_eq!(budget.plan(50, 1.0), Plan::Full);
        assert_eq!(budget.plan(524_288, 0.0), Plan::Full);
    }
}
