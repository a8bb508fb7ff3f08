//! Bounds on what the daemon tries: back-off for each block, conversions in an hour, and pauses after
//! failures that concern all blocks.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::time::Duration;

/// An hour.
pub const HOUR: Duration = Duration::from_secs(3600);

/// The most that a back-off grows by (*chosen*): a block that refused for a day is asked thrice.
const MAX_FACTOR: u32 = 8;

/// Blocks that refused, and when each may be tried again.
#[derive(Clone, Debug, Default)]
pub struct Backoff {
    refused: BTreeMap<u64, Refusal>,
}

#[derive(Clone, Copy, Debug)]
struct Refusal {
    until: Duration,
    times: u32,
}

impl Backoff {
    /// The block could not be converted: leaves it alone for `first`, or twice as long as last
    /// time.
    pub fn refuse(&mut self, block: u64, now: Duration, first: Duration) {
        let times = self.refused.get(&block).map_or(0, |refusal| refusal.times);
        let factor = 1u32.checked_shl(times).unwrap_or(MAX_FACTOR).min(MAX_FACTOR);
        let until = now.saturating_add(first.saturating_mul(factor));
        self.refused.insert(block, Refusal { until, times: times.saturating_add(1) });
    }

    /// The block was interrupted for reasons that have nothing to do with it: leaves it alone until
    /// then, which does not count as a refusal.
    pub fn rest(&mut self, block: u64, until: Duration) {
        let refusal = self.refused.entry(block).or_insert(Refusal { until, times: 0 });
        refusal.until = refusal.until.max(until);
    }

    /// The block was converted: what it refused before no longer counts.
    pub fn forgive(&mut self, block: u64) {
        self.refused.remove(&block);
    }

    /// Whether the block may be tried at `now`.
    pub fn allows(&self, block: u64, now: Duration) -> bool {
        self.refused.get(&block).is_none_or(|refusal| refusal.until <= now)
    }

    /// Blocks that are left alone at `now`.
    pub fn len_at(&self, now: Duration) -> usize {
        self.refused.values().filter(|refusal| refusal.until > now).count()
    }
}

/// Conversions of the last hour.
#[derive(Clone, Debug)]
pub struct Budget {
    most: usize,
    done: VecDeque<Duration>,
}

impl Budget {
    /// A budget of `per_hour` conversions.
    pub fn new(per_hour: u32) -> Budget {
        Budget { most: per_hour as usize, done: VecDeque::with_capacity(per_hour as usize + 1) }
    }

    /// Another limit. What was done stays counted.
    pub fn limit(&mut self, per_hour: u32) {
        self.most = per_hour as usize;
    }

    /// Counts one. Those that a shortage forced count, too, and leave less for others.
    pub fn spend(&mut self, now: Duration) {
        while self.done.len() > self.most {
            self.done.pop_front();
        }
        self.done.push_back(now);
    }

    /// Whether one more fits into the hour that ends at `now`.
    pub fn allows(&self, now: Duration) -> bool {
        self.used(now) < self.most
    }

    /// How many there were in the hour that ends at `now`; no more than one beyond the limit is
    /// remembered.
    pub fn used(&self, now: Duration) -> usize {
        self.done.iter().filter(|at| at.saturating_add(HOUR) > now).count()
    }
}

/// Frames of 128 MiB, the smallest block: what may move within the configured time.
const SMALLEST_BLOCK: u64 = 1 << 15;

/// The longest time limit (*chosen*): all other hotplug waits as long.
const MAX_OPERATION_TIME: Duration = Duration::from_secs(60);

/// The time limit of a conversion that has `to_move` frames to move: the configured one for each 128
/// MiB. Blocks of large machines have 2 GiB.
pub fn operation_time(configured: Duration, to_move: u64) -> Duration {
    let parts = u32::try_from(to_move.div_ceil(SMALLEST_BLOCK)).unwrap_or(u32::MAX);
    configured.saturating_mul(parts.max(1)).min(MAX_OPERATION_TIME.max(configured))
}

/// The first pause (*chosen*): trying again costs one write.
const FIRST_PAUSE: Duration = Duration::from_secs(60);

/// The longest pause is this many times the first (*chosen*): about an hour.
const MAX_PAUSES: u32 = 64;

/// A pause after a failure that has nothing to do with one block. Each failure in a row doubles it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pause {
    until: Duration,
    failures: u32,
}

impl Pause {
    /// There was a failure.
    pub fn extend(&mut self, now: Duration) {
        let factor = 1u32.checked_shl(self.failures).unwrap_or(MAX_PAUSES).min(MAX_PAUSES);
        self.until = now.saturating_add(FIRST_PAUSE * factor);
        self.failures = self.failures.saturating_add(1);
    }

    /// Whether it may be tried again at `now`.
    pub fn is_over(&self, now: Duration) -> bool {
        now >= self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_block_that_refuses_is_left_alone_for_longer_and_longer() {
        let mut backoff = Backoff::default();
        assert!(backoff.allows(7, SECOND));
        let mut now = Duration::ZERO;
        for hours in [1, 2, 4, 8, 8, 8] {
            backoff.refuse(7, now, HOUR);
            assert!(!backoff.allows(7, now + HOUR * hours - SECOND), "{hours}");
            assert!(backoff.allows(8, now) && backoff.len_at(now) == 1);
            now += HOUR * hours;
            assert!(backoff.allows(7, now), "{hours}");
        }
        backoff.refuse(7, now, HOUR);
        backoff.forgive(7);
        assert!(backoff.allows(7, now));
        backoff.refuse(7, now, HOUR);
        assert!(backoff.allows(7, now + HOUR), "from the start");
        backoff.refuse(7, Duration::MAX, Duration::MAX);
    }

    #[test]
    fn an_interruption_is_no_refusal() {
        let mut backoff = Backoff::default();
        backoff.rest(7, SECOND * 10);
        assert!(!backoff.allows(7, SECOND * 9) && backoff.allows(7, SECOND * 10));
        backoff.refuse(7, SECOND * 10, HOUR);
        assert!(backoff.allows(7, SECOND * 10 + HOUR), "the first refusal");
        backoff.refuse(7, HOUR, HOUR);
        backoff.rest(7, HOUR + SECOND);
        assert!(!backoff.allows(7, HOUR * 2), "what it refused still counts");
    }

    #[test]
    fn a_larger_block_has_more_time() {
        let of = |to_move| operation_time(SECOND * 4, to_move);
        let block = SMALLEST_BLOCK;
        assert_eq!([of(0), of(block), of(block + 1)], [SECOND * 4, SECOND * 4, SECOND * 8]);
        assert_eq!([of(block * 15), of(block * 16), of(u64::MAX)], [SECOND * 60; 3]);
        assert_eq!(operation_time(SECOND * 90, block * 2), SECOND * 90);
    }

    #[test]
    fn pauses_become_longer() {
        let (mut pause, mut now) = (Pause::default(), Duration::ZERO);
        assert!(pause.is_over(now));
        for minutes in [1, 2, 4, 8, 16, 32, 64, 64] {
            pause.extend(now);
            now += SECOND * 60 * minutes;
            assert!(!pause.is_over(now - SECOND) && pause.is_over(now), "{minutes}");
        }
        pause.extend(Duration::MAX);
    }

    #[test]
    fn an_hour_has_its_limit() {
        let mut budget = Budget::new(3);
        for second in 0..3 {
            assert!(budget.allows(SECOND * second));
            budget.spend(SECOND * second);
        }
        assert!(!budget.allows(SECOND * 3));
        assert!(budget.allows(HOUR), "the first is an hour ago");
        // Forced ones beyond the limit take up no memory.
        for _ in 0..100 {
            budget.spend(HOUR);
        }
        assert_eq!(budget.used(HOUR), 4);
        assert!(!budget.allows(HOUR * 2 - SECOND) && budget.allows(HOUR * 2));
        budget.limit(9);
        assert_eq!(budget.used(HOUR), 4, "another limit forgets nothing");
        budget.limit(1);
        budget.spend(HOUR);
        assert_eq!(budget.used(HOUR), 2);
    }
}
