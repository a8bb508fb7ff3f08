//! The endurance of swap devices: a limit on the rate of writes to them.
//!
//! Flash wears out by being written. A token bucket spreads the writes that a device can take over
//! its life: tokens are bytes, arrive evenly over the day, and at most [`BURST`]'s worth of them is
//! kept. Below half of that, requests are made smaller, the less is left the more
//! ([`WriteBudget::scarcity`]): the level settles where writes equal the rate, and memory goes on
//! being offloaded, slowly, rather than in bursts with pauses between them.
//!
//! How much a request writes is known only afterwards, so that requests may still overdraw the
//! bucket; nothing more is admitted before the debt is paid and [`PAUSE`]'s worth has arrived, so
//! that back ends do not change with every request.

use std::time::Duration;

use serde::Serialize;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The time whose writes may come at once (chosen): a container that becomes idle is offloaded
/// within minutes, and a bucket that was full adds no more than a twenty-fourth to a day's writes.
pub const BURST: Duration = Duration::from_secs(3600);

/// The time whose writes have to arrive in an empty bucket before more are admitted (chosen).
pub const PAUSE: Duration = Duration::from_secs(60);

/// The level, as a share of the full bucket, below which writes are shaped (chosen): half an hour's
/// worth is left to even out demand.
const SHAPED_BELOW: f64 = 0.5;

/// Writes to swap devices, admitted at a rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WriteBudget {
    per_day_bytes: u64,
    /// Bytes that may be written, at `at`; a debt where negative.
    tokens: f64,
    at: Duration,
    /// The bucket ran empty, and waits for [`PAUSE`]'s worth.
    pauses: bool,
}

impl WriteBudget {
    /// A full bucket.
    pub fn new(per_day_bytes: u64) -> WriteBudget {
        let empty = WriteBudget { per_day_bytes, tokens: 0.0, at: Duration::ZERO, pauses: false };
        WriteBudget { tokens: empty.capacity(), ..empty }
    }

    /// The same bucket at another rate; what it holds above its new size is lost.
    #[must_use]
    pub fn with_limit(self, per_day_bytes: u64) -> WriteBudget {
        let changed = WriteBudget { per_day_bytes, ..self };
        WriteBudget { tokens: self.tokens.min(changed.capacity()), ..changed }
    }

    /// Records bytes written before `now`. A clock that goes back stands still.
    pub fn count(&mut self, now: Duration, bytes: u64) {
        let arrived = self.tokens_at(now);
        self.tokens = arrived - bytes as f64;
        self.at = self.at.max(now);
        self.pauses = self.tokens <= 0.0 || (self.pauses && arrived < self.enough());
    }

    /// Bytes that may be written now.
    pub fn left_bytes(&self, now: Duration) -> u64 {
        let tokens = self.tokens_at(now);
        if self.pauses && tokens < self.enough() { 0 } else { tokens.max(0.0) as u64 }
    }

    /// The share of requests that is withheld now: 0 while the bucket is at least half full, then
    /// more, up to 1 where nothing may be written.
    pub fn scarcity(&self, now: Duration) -> f64 {
        let level = self.left_bytes(now) as f64 / self.capacity().max(1.0);
        (1.0 - level / SHAPED_BELOW).clamp(0.0, 1.0)
    }

    fn tokens_at(&self, now: Duration) -> f64 {
        let arrived = now.saturating_sub(self.at).as_secs_f64() * self.per_second();
        (self.tokens + arrived).min(self.capacity())
    }

    fn per_second(&self) -> f64 {
        self.per_day_bytes as f64 / DAY.as_secs_f64()
    }

    fn enough(&self) -> f64 {
        self.per_second() * PAUSE.as_secs_f64()
    }

    fn capacity(&self) -> f64 {
        self.per_second() * BURST.as_secs_f64()
    }
}

/// Bytes a day that wear a device out at the end of its life: `terabytes_written` is the rating of
/// its data sheet (TBW, of 10^12 bytes).
pub fn rated_per_day_bytes(terabytes_written: f64, lifetime: Duration) -> u64 {
    (terabytes_written * 1e12 * DAY.as_secs_f64() / lifetime.as_secs_f64()) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PER_DAY: u64 = 24 * 3600;

    #[test]
    fn tokens_arrive_evenly_and_an_hours_worth_is_kept() {
        let at = Duration::from_secs;
        let mut budget = WriteBudget::new(PER_DAY);
        assert_eq!(budget.left_bytes(at(0)), 3600);
        budget.count(at(10), 3000);
        assert_eq!(budget.left_bytes(at(10)), 600);
        assert_eq!(budget.left_bytes(at(110)), 700);
        assert_eq!(budget.left_bytes(at(100_000)), 3600);
        budget.count(at(110), 1000);
        assert_eq!(budget.left_bytes(at(110)), 0, "a debt of 300 bytes");
        assert_eq!(budget.left_bytes(at(469)), 0, "less than a minute's worth");
        assert_eq!(budget.left_bytes(at(470)), 60);
        budget.count(at(100), 0);
        assert_eq!(budget.left_bytes(at(470)), 60, "a clock that goes back stands still");
        assert_eq!(budget.with_limit(2 * PER_DAY).left_bytes(at(470)), 420);
        budget.count(at(470), 10);
        assert_eq!(budget.left_bytes(at(470)), 50, "the pause is over");
        assert_eq!(WriteBudget::new(PER_DAY).with_limit(PER_DAY / 2).left_bytes(at(0)), 1800);
    }

    #[test]
    fn a_rating_is_spread_over_the_lifetime() {
        let years = |years: u64| 365 * DAY * years as u32;
        assert_eq!(rated_per_day_bytes(600.0, years(5)), 328_767_123_287);
    }

    /// Bytes written in each minute of ten hours by a writer that wants `wanted` bytes every six
    /// seconds, and writes what the budget does not withhold.
    fn minutes(wanted: f64) -> Vec<u64> {
        let mut budget = WriteBudget::new(PER_DAY * 1000);
        let mut minutes = vec![0; 600];
        for period in 0..6_000 {
            let now = Duration::from_secs(6 * period);
            let bytes = (wanted * (1.0 - budget.scarcity(now))) as u64;
            let bytes = bytes.min(budget.left_bytes(now));
            budget.count(now, bytes);
            minutes[period as usize / 10] += bytes;
        }
        minutes
    }

    #[test]
    fn writes_settle_at_the_rate_without_pauses() {
        // 1000 bytes a second, six thousand a period.
        assert!(minutes(5_000.0).iter().all(|bytes| *bytes == 50_000), "less than the rate");
        for factor in [2.0, 5.0, 50.0] {
            let minutes = minutes(6_000.0 * factor);
            let burst: u64 = minutes.iter().sum::<u64>() - 600 * 60_000;
            assert!(burst <= 3_600_000, "{burst} bytes above the rate");
            let (least, most) =
                (minutes.iter().min().unwrap(), minutes[300..].iter().max().unwrap());
            assert!(*least >= 59_000, "{factor}: {least} bytes in some minute");
            assert!(*most <= 61_000, "{factor}: {most} bytes in a minute after five hours");
        }
    }

    #[test]
    fn scarcity_begins_at_half_of_the_bucket() {
        let at = Duration::from_secs;
        let left = |bytes: u64| {
            let mut budget = WriteBudget::new(PER_DAY);
            budget.count(at(0), 3600 - bytes);
            budget.scarcity(at(0))
        };
        assert_eq!([3600, 1800, 900].map(left), [0.0, 0.0, 0.5]);
        let mut budget = WriteBudget::new(PER_DAY);
        budget.count(at(0), 4000);
        assert_eq!(budget.scarcity(at(459)), 1.0, "less than a minute's worth");
        assert_eq!(WriteBudget::new(0).scarcity(at(9)), 1.0);
    }

    proptest! {
        /// A writer that writes only while tokens are left writes no more than the burst, the rate,
        /// and one overdraft within any time.
        #[test]
        fn no_interval_exceeds_burst_and_rate(
            steps in prop::collection::vec((0u64..2000, 1u64..5000), 1..200)
        ) {
            let mut budget = WriteBudget::new(PER_DAY);
            let (mut now, mut writes) = (0, Vec::new());
            for (wait, bytes) in steps {
                now += wait;
                if budget.left_bytes(Duration::from_secs(now)) > 0 {
                    budget.count(Duration::from_secs(now), bytes);
                    writes.push((now, bytes));
                }
            }
            for (first, &(begin, _)) in writes.iter().enumerate() {
                let mut sum = 0;
                for &(end, bytes) in &writes[first..] {
                    sum += bytes;
                    prop_assert!(sum <= 3600 + (end - begin) + 5000, "{sum} in {} s", end - begin);
                }
            }
        }
    }
}
