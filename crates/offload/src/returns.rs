//! Reclaimed and refaulted pages over a sliding window.
//!
//! Neither the share of refaults nor their cost is enough to judge reclaim. Any choice has a few
//! refaults, and memory is worth more than the little time that they take. Where much is reclaimed,
//! a small share may cost much, but less than it gains. Reclaim that exceeds both limits chose
//! badly. So did reclaim with a large share of refaults, whatever they cost: where every page is used
//! now and then, as with popularities by Zipf's law, any choice has them, and each delays a request.

use std::time::Duration;

use serde::Serialize;

/// Time within which a refault counts against the page's reclaim.
pub const WINDOW: Duration = Duration::from_secs(600);

/// Parts of the window.
const PARTS: usize = 10;

/// Fewer refaults are not significant: a shell that is opened, a log that is rotated.
pub const EVIDENCE_PAGES: u64 = 64;

/// Pages taken and returned within the last ten minutes, by the minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Returns {
    parts: [(u64, u64); PARTS],
    /// The part that is being filled, counted from the clock's zero.
    part: u64,
    /// Nothing counts before this time.
    from: Duration,
}

impl Returns {
    /// Counts a period that ended at `now`.
    pub fn count(&mut self, now: Duration, taken_pages: u64, returned_pages: u64) {
        if now < self.from {
            return;
        }
        let part = now.as_secs() / (WINDOW.as_secs() / PARTS as u64);
        for old in self.part + 1..=part.min(self.part + PARTS as u64) {
            self.parts[old as usize % PARTS] = (0, 0);
        }
        self.part = self.part.max(part);
        let (taken, returned) = &mut self.parts[self.part as usize % PARTS];
        *taken = taken.saturating_add(taken_pages);
        *returned = returned.saturating_add(returned_pages);
    }

    /// Pages taken and pages returned within the window.
    pub fn totals(&self) -> (u64, u64) {
        let add = |sum: (u64, u64), part: &(u64, u64)| {
            (sum.0.saturating_add(part.0), sum.1.saturating_add(part.1))
        };
        self.parts.iter().fold((0, 0), add)
    }

    /// Whether refaults exceed the share `limit` of the reclaimed pages.
    pub fn exceed(&self, limit: f64) -> bool {
        let (taken, returned) = self.totals();
        taken > 0 && returned >= EVIDENCE_PAGES && returned as f64 > taken as f64 * limit
    }

    /// The share of the reclaimed pages that refaults, `expected` until there is evidence.
    pub fn share(&self, expected: f64) -> f64 {
        let (taken, returned) = self.totals();
        let evidence = EVIDENCE_PAGES as f64;
        (returned as f64 + expected * evidence) / (taken as f64 + evidence)
    }

    /// The share of the window's time that refaults take, at `cost` a page.
    pub fn share_of_time(&self, cost: Duration) -> f64 {
        self.totals().1 as f64 * cost.as_secs_f64() / WINDOW.as_secs_f64()
    }

    /// Forgets everything, and counts again from a time on: pages that were reclaimed before go on
    /// refaulting for a while, and show nothing about those reclaimed by a stricter rule.
    pub fn start_again(&mut self, from: Duration) {
        *self = Returns { part: self.part, from, ..Returns::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_pages_are_forgotten() {
        let mut returns = Returns::default();
        returns.count(Duration::from_secs(30), 1_000, 0);
        returns.count(Duration::from_secs(330), 0, 100);
        assert_eq!(returns.totals(), (1_000, 100));
        assert!(returns.exceed(0.05) && !returns.exceed(0.1));
        returns.count(Duration::from_secs(629), 0, 0);
        assert_eq!(returns.totals(), (0, 100), "the first minute has left the window");
        returns.count(Duration::from_secs(1_000_000), 5, 6);
        assert_eq!(returns.totals(), (5, 6));
    }

    #[test]
    fn the_cost_is_a_share_of_the_window() {
        let mut returns = Returns::default();
        returns.count(Duration::from_secs(1), 10_000, 6_000);
        assert_eq!(returns.share_of_time(Duration::from_micros(100)), 0.001);
    }

    #[test]
    fn a_share_is_the_expected_one_until_there_is_evidence() {
        let mut returns = Returns::default();
        assert_eq!(returns.share(0.01), 0.01);
        returns.count(Duration::ZERO, 64, 0);
        assert_eq!(returns.share(0.01), 0.005);
        returns.count(Duration::ZERO, 1 << 20, 1 << 19);
        assert!((returns.share(0.01) - 0.5).abs() < 1e-3);
    }

    #[test]
    fn pages_taken_before_a_new_start_do_not_count() {
        let mut returns = Returns::default();
        returns.count(Duration::from_secs(100), 1_000, 400);
        returns.start_again(Duration::from_secs(300));
        returns.count(Duration::from_secs(299), 0, 300);
        assert_eq!(returns.totals(), (0, 0));
        returns.count(Duration::from_secs(300), 50, 2);
        assert_eq!(returns.totals(), (50, 2));
    }

    #[test]
    fn a_few_pages_are_no_evidence() {
        let mut returns = Returns::default();
        returns.count(Duration::ZERO, 100, 63);
        assert!(!returns.exceed(0.01));
        returns.count(Duration::ZERO, 0, 1);
        assert!(returns.exceed(0.01));
        let mut untouched = Returns::default();
        untouched.count(Duration::ZERO, 0, 10_000);
        assert!(!untouched.exceed(0.01), "nothing was taken, so nothing of it came back");
    }
}
