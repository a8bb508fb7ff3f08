//! A trial before the first large amount: how much of what is reclaimed refaults is known only some
//! time after it was reclaimed.
//!
//! An age alone does not tell whether a page will be used again. Where all memory is used now and
//! then, most of what has been idle for two minutes is used within the next ones, and a share of
//! refaults that is taken while more and more is reclaimed lags behind. So at first no more than a
//! small amount is reclaimed, and as much time as its pages had been idle for must pass. If too many
//! refault meanwhile, little was lost.

use std::time::Duration;

/// The reclaim of a container under the present age.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trial {
    /// When the first request was made.
    since: Option<Duration>,
    taken_bytes: u64,
}

impl Trial {
    /// Begins with the first request.
    pub fn begin(&mut self, now: Duration) {
        self.since.get_or_insert(now);
    }

    /// Counts reclaimed bytes.
    pub fn count(&mut self, taken_bytes: u64) {
        if self.since.is_some() {
            self.taken_bytes = self.taken_bytes.saturating_add(taken_bytes);
        }
    }

    /// How many bytes may be reclaimed at `now`, and how long the trial lasts: one of `most_bytes` that
    /// lasts for `length`. Any number once it is over.
    pub fn permits(&self, now: Duration, length: Duration, most_bytes: u64) -> (u64, Duration) {
        let until = self.since.unwrap_or(now) + length;
        let remaining = until.saturating_sub(now);
        let bytes = match remaining.is_zero() {
            true => u64::MAX,
            false => most_bytes.saturating_sub(self.taken_bytes),
        };
        (bytes, remaining)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_small_amount_is_taken_and_then_nothing_until_time_has_passed() {
        let mut trial = Trial::default();
        let permits = |trial: &Trial, at| trial.permits(seconds(at), seconds(120), 1_000);
        trial.count(500);
        assert_eq!(
            permits(&trial, 1_000),
            (1_000, seconds(120)),
            "others reclaim before it begins"
        );
        trial.begin(seconds(1_000));
        trial.count(700);
        trial.begin(seconds(1_050));
        assert_eq!(permits(&trial, 1_050), (300, seconds(70)), "begun once");
        trial.count(700);
        assert_eq!(permits(&trial, 1_119), (0, seconds(1)));
        assert_eq!(permits(&trial, 1_120), (u64::MAX, seconds(0)));
    }
}
