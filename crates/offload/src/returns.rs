//! Whether what is taken stays away: pages taken and pages that came back, over a sliding window.

use std::time::Duration;

use serde::Serialize;

/// How long a page may take to come back and still count against its reclaim.
pub const WINDOW: Duration = Duration::from_secs(600);

/// Parts of the window.
const PARTS: usize = 10;

/// Fewer refaults are not significant: a shell that is opened, a log that is rotated.
const EVIDENCE_PAGES: u64 = 64;

/// Pages taken and returned within the last ten minutes, by the minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Returns {
    parts: [(u64, u64); PARTS],
    /// The part that is being filled, counted from the clock's zero.
    part: u64,
}

impl Returns {
    /// Counts a period that ended at `now`.
    pub fn count(&mut self, now: Duration, taken_pages: u64, returned_pages: u64) {
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

    /// Whether more came back than the share `limit` of what was taken.
    pub fn exceed(&self, limit: f64) -> bool {
        let (taken, returned) = self.totals();
        taken > 0 && returned >= EVIDENCE_PAGES && returned as f64 > taken as f64 * limit
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.parts = Default::default();
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
