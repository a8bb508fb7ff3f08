//! A trial before the first large amount: how much of what is reclaimed refaults is known only some
//! time after it was reclaimed.
//!
//! An age alone does not tell whether a page will be used again. Where all memory is used now and
//! then, nearly all of it looks idle, and the share of refaults lags behind while more and more is
//! reclaimed. So at first no more than a small amount is reclaimed, and as much time as its pages had
//! been idle for must pass. If too many refault meanwhile, little was lost.

use std::time::Duration;

use crate::returns::{EVIDENCE_PAGES, WINDOW};

/// The reclaim of a container under its present age.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trial {
    /// When the first request was made.
    since: Option<Duration>,
    taken_pages: u64,
    returned_pages: u64,
    /// Pages that were reclaimed before and have not refaulted: they may do so during the trial.
    out_pages: u64,
}

impl Trial {
    /// Begins with the first request.
    pub fn begin(&mut self, now: Duration) {
        self.since.get_or_insert(now);
    }

    /// Counts a period.
    pub fn count(&mut self, taken_pages: u64, returned_pages: u64) {
        self.taken_pages = self.taken_pages.saturating_add(taken_pages);
        self.returned_pages = self.returned_pages.saturating_add(returned_pages);
        if self.since.is_none() {
            self.start_again();
        }
    }

    /// Ends, so that the next request begins another.
    pub fn start_again(&mut self) {
        let out_pages = self.all_out().saturating_sub(self.returned_pages);
        *self = Trial { out_pages, ..Trial::default() };
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

    /// Whether so many pages refaulted within `length` that, at this rate, more than the share
    /// `maximum` would within the window of refaults.
    pub fn fails(&self, length: Duration, maximum: f64) -> bool {
        let part = (length.as_secs_f64() / WINDOW.as_secs_f64()).min(1.0);
        let most = self.all_out() as f64 * maximum * part;
        let is_evidence = self.all_out() > 0 && self.returned_pages >= EVIDENCE_PAGES;
        is_evidence && self.returned_pages as f64 > most
    }

    fn all_out(&self) -> u64 {
        self.out_pages.saturating_add(self.taken_pages)
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
        trial.count(500, 0);
        assert_eq!(
            permits(&trial, 1_000),
            (1_000, seconds(120)),
            "others reclaim before it begins"
        );
        trial.begin(seconds(1_000));
        trial.count(700, 0);
        trial.begin(seconds(1_050));
        assert_eq!(permits(&trial, 1_050), (300, seconds(70)), "begun once");
        trial.count(700, 0);
        assert_eq!(permits(&trial, 1_119), (0, seconds(1)));
        assert_eq!(permits(&trial, 1_120), (u64::MAX, seconds(0)));
    }

    #[test]
    fn a_share_counts_by_the_time_in_which_it_refaulted() {
        let mut trial = Trial::default();
        trial.begin(seconds(0));
        trial.count(4_000, 80);
        // A fifth of the window: 2 % of 10.
        assert!(!trial.fails(seconds(120), 0.1));
        trial.count(0, 1);
        assert!(trial.fails(seconds(120), 0.1));
        assert!(!trial.fails(seconds(240), 0.1));
        trial.count(0, 319);
        assert!(!trial.fails(seconds(900), 0.1), "no share above the maximum is asked for");
        trial.count(0, 1);
        assert!(trial.fails(seconds(900), 0.1));
    }

    #[test]
    fn refaults_of_earlier_pages_do_not_condemn_the_later_ones() {
        let mut trial = Trial::default();
        trial.begin(seconds(0));
        trial.count(4_000, 100);
        assert!(trial.fails(seconds(120), 0.1));
        trial.start_again();
        trial.begin(seconds(300));
        trial.count(4_000, 150);
        assert!(!trial.fails(seconds(120), 0.1), "of 7,900 pages");
        trial.count(0, 9);
        assert!(trial.fails(seconds(120), 0.1));
        trial.start_again();
        trial.count(10, u64::MAX);
        assert_eq!(trial, Trial::default(), "counters that make no sense");
    }

    #[test]
    fn a_few_refaults_are_no_evidence() {
        let mut trial = Trial::default();
        trial.begin(seconds(0));
        trial.count(0, 100);
        assert!(!trial.fails(seconds(120), 0.1), "nothing was taken, so nothing of it came back");
        trial = Trial::default();
        trial.begin(seconds(0));
        trial.count(100, 63);
        assert!(!trial.fails(seconds(120), 0.1));
        trial.count(0, 1);
        assert!(trial.fails(seconds(120), 0.1));
    }
}
