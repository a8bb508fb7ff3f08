//! The endurance of swap devices: a limit on the bytes written to them in a day.
//!
//! Flash wears out by being written. A device rated for a number of drive writes a day is kept
//! well below it by a budget for swap, counted over the last 24 hours, by the hour.

use std::time::Duration;

use serde::Serialize;

/// Parts of the day.
const HOURS: usize = 24;

/// Bytes written to swap devices within the last 24 hours, and the budget for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WriteBudget {
    per_day_bytes: u64,
    written: [u64; HOURS],
    hour: u64,
}

impl WriteBudget {
    /// A budget without any use.
    pub fn new(per_day_bytes: u64) -> WriteBudget {
        WriteBudget { per_day_bytes, written: [0; HOURS], hour: 0 }
    }

    /// The same writes under another budget.
    #[must_use]
    pub fn with_limit(self, per_day_bytes: u64) -> WriteBudget {
        WriteBudget { per_day_bytes, ..self }
    }

    /// Records bytes written before `now`.
    pub fn count(&mut self, now: Duration, bytes: u64) {
        let hour = now.as_secs() / 3600;
        for old in self.hour + 1..=hour.min(self.hour + HOURS as u64) {
            self.written[old as usize % HOURS] = 0;
        }
        self.hour = self.hour.max(hour);
        let slot = &mut self.written[self.hour as usize % HOURS];
        *slot = slot.saturating_add(bytes);
    }

    /// Bytes that may still be written now.
    pub fn left_bytes(&self) -> u64 {
        let written = self.written.iter().fold(0u64, |sum, hour| sum.saturating_add(*hour));
        self.per_day_bytes.saturating_sub(written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_days_writes_are_counted_by_the_hour() {
        let at = |hours: u64| Duration::from_secs(3600 * hours);
        let mut budget = WriteBudget::new(100);
        budget.count(at(5), 60);
        budget.count(at(10), 30);
        assert_eq!(budget.left_bytes(), 10);
        budget.count(at(20), u64::MAX);
        assert_eq!(budget.left_bytes(), 0);
        budget.count(at(33), 0);
        assert_eq!(budget.left_bytes(), 0);
        budget.count(at(44), 0);
        assert_eq!(budget.left_bytes(), 100);
        budget.count(at(3), 50);
        assert_eq!(budget.left_bytes(), 50, "a clock that went back is now");
    }
}
