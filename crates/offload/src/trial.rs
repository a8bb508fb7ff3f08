//! A trial before the first large amount: how much of what is reclaimed refaults is known only some
//! time after it was reclaimed.
//!
//! An age alone does not tell whether a page will be used again. Where all memory is used now and
//! then, nearly all of it looks idle, and the share of refaults lags behind while more and more is
//! reclaimed. So at first no more than a small amount is reclaimed, and as much time as its pages had
//! been idle for must pass. If too many refault meanwhile, little was lost.

use std::time::Duration;

/// The reclaim of a container under its present age.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trial {
    /// When the first request was made.
    since: Option<Duration>,
    taken_pages: u64,
}

impl Trial {
    /// Begins with the first request.
    pub fn begin(&mut self, now: Duration) {
        self.since.get_or_insert(now);
    }

    /// Whether it has begun, and is not over at `now`.
    pub fn is_running(&self, now: Duration, length: Duration) -> bool {
        self.since.is_some_and(|since| now < since + length)
    }

    /// Counts reclaimed pages.
    pub fn count(&mut self, taken_pages: u64) {
        if self.since.is_some() {
            self.taken_pages = self.taken_pages.saturating_add(taken_pages);
        }
    }

    /// How many pages may be reclaimed at `now`, and how long the trial lasts: one of `most_pages`
    /// for `length`. Any number once it is over.
    pub fn permits(&self, now: Duration, length: Duration, most_pages: u64) -> (u64, Duration) {
        let until = self.since.unwrap_or(now) + length;
        let remaining = until.saturating_sub(now);
        let pages = match remaining.is_zero() {
            true => u64::MAX,
            false => most_pages.saturating_sub(self.taken_pages),
        };
        (pages, remaining)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_amount_is_taken_and_then_nothing_until_time_has_passed() {
        let seconds = Duration::from_secs;
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
        assert!(trial.is_running(seconds(1_119), seconds(120)));
        assert_eq!(permits(&trial, 1_120), (u64::MAX, seconds(0)));
        assert!(!trial.is_running(seconds(1_120), seconds(120)));
        assert!(!Trial::default().is_running(seconds(0), seconds(120)));
    }
}
