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
const EVIDENCE_PAGES: u64 = 64;

/// 1 in 15 of the pages that are out is forgotten with each part of the window: half of them with ten.
const FORGOTTEN: u64 = 15;

/// Pages taken and returned within the last ten minutes, by the minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Returns {
    parts: [(u64, u64); PARTS],
    /// The part that is being filled, counted from the clock's zero.
    part: u64,
    /// Nothing counts before this time.
    from: Duration,
    /// Pages that were reclaimed before the window and have not refaulted, of which half are
    /// forgotten within a window.
    out_pages: u64,
}

impl Returns {
    /// Counts a period that ended at `now`.
    pub fn count(&mut self, now: Duration, taken_pages: u64, returned_pages: u64) {
        self.advance(now);
        if now < self.from {
            self.leave((taken_pages, returned_pages));
            return;
        }
        let (taken, returned) = &mut self.parts[self.part as usize % PARTS];
        *taken = taken.saturating_add(taken_pages);
        *returned = returned.saturating_add(returned_pages);
    }

    /// Moves the window to `now`.
    fn advance(&mut self, now: Duration) {
        let part = now.as_secs() / (WINDOW.as_secs() / PARTS as u64);
        // After twenty windows hardly anything is left to forget.
        for old in self.part + 1..=part.min(self.part + 20 * PARTS as u64) {
            self.out_pages -= self.out_pages / FORGOTTEN;
            let left = std::mem::take(&mut self.parts[old as usize % PARTS]);
            self.leave(left);
        }
        self.part = self.part.max(part);
    }

    /// Pages taken and pages returned that are not of the window.
    fn leave(&mut self, (taken, returned): (u64, u64)) {
        self.out_pages = self.out_pages.saturating_add(taken).saturating_sub(returned);
    }

    /// The pages that may have refaulted within the window.
    fn all_out(&self) -> u64 {
        self.totals().0.saturating_add(self.out_pages)
    }

    /// Pages taken and pages returned within the window.
    pub fn totals(&self) -> (u64, u64) {
        let add = |sum: (u64, u64), part: &(u64, u64)| {
            (sum.0.saturating_add(part.0), sum.1.saturating_add(part.1))
        };
        self.parts.iter().fold((0, 0), add)
    }

    /// Whether refaults exceed the share `limit` of the reclaimed pages. Pages that were reclaimed
    /// before the window are among them, because their refaults are, too: a container from which
    /// nothing has been taken lately would be judged by those alone.
    pub fn exceed(&self, limit: f64) -> bool {
        let (out, returned) = (self.all_out(), self.totals().1);
        out > 0 && returned >= EVIDENCE_PAGES && returned as f64 > out as f64 * limit
    }

    /// The share of the reclaimed pages that refaults, `expected` until there is evidence.
    pub fn share(&self, expected: f64) -> f64 {
        let (out, returned) = (self.all_out(), self.totals().1);
        let evidence = EVIDENCE_PAGES as f64;
        (returned as f64 + expected * evidence) / (out as f64 + evidence)
    }

    /// The share of the window's time that refaults take, at `cost` a page.
    pub fn share_of_time(&self, cost: Duration) -> f64 {
        self.totals().1 as f64 * cost.as_secs_f64() / WINDOW.as_secs_f64()
    }

    /// Begins a new window at a time to come: pages that were reclaimed before go on refaulting for a
    /// while, and show nothing about those reclaimed by a stricter rule.
    pub fn start_again(&mut self, from: Duration) {
        let window = self.totals();
        self.parts = Default::default();
        self.leave(window);
        self.from = from;
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
    fn refaults_of_earlier_pages_do_not_condemn_the_later_ones() {
        let mut returns = Returns::default();
        returns.count(Duration::from_secs(100), 40_000, 1_000);
        returns.start_again(Duration::from_secs(300));
        returns.count(Duration::from_secs(310), 1_400, 1_100);
        assert_eq!(returns.totals(), (1_400, 1_100));
        // 39,000 were out before; four times a fifteenth is forgotten.
        assert!(!returns.exceed(0.1) && returns.exceed(0.03));
        assert!((0.03..0.04).contains(&returns.share(0.01)));
    }

    #[test]
    fn half_of_the_pages_that_are_out_are_forgotten_in_a_window() {
        let mut returns = Returns::default();
        returns.count(Duration::ZERO, 10_000, 0);
        let mut out_after = |seconds| {
            returns.count(Duration::from_secs(seconds), 0, 0);
            returns.all_out()
        };
        assert_eq!(out_after(599), 10_000, "they are in the window");
        assert_eq!(out_after(600), 10_000);
        assert!((4_900..5_100).contains(&out_after(1_200)));
        assert!(out_after(10_000) < 20);
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
