//! Detects when a heap has shrunk so far that its caches should give up what they hold.
//!
//! A few objects in caches keep many spans, and thus huge pages, from becoming empty. That is
//! negligible in a heap that keeps its size, and much in one that has shrunk.

use crate::units::Pages;

/// Smaller declines are ignored: 4 MiB.
const LEAST: Pages = Pages((4 << 20) / Pages::SIZE);
/// A heap that has grown to its old size within this time will do so again: 2 seconds, as for the
/// HugeCache (section 4.3).
const WINDOW_NS: u64 = 2_000_000_000;

/// What to do when a heap has shrunk to less than three quarters. (At half, what the caches hold
/// back would keep a heap of some megabytes above it, though its program has freed all.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shrunk {
    /// It goes up and down: empty the caches.
    EmptyCaches,
    /// It goes down: empty the caches, and give memory back that is free.
    GiveBack,
}

/// Watches the live pages of a heap.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decline {
    peak: Pages,
    live_at_last: Pages,
    last_ns: u64,
}

impl Decline {
    /// A heap without pages.
    pub const fn new() -> Decline {
        Decline { peak: Pages::ZERO, live_at_last: Pages::ZERO, last_ns: 0 }
    }

    /// Records that the heap has grown to `live` pages.
    pub fn grown(&mut self, live: Pages) {
        self.peak = self.peak.max(live);
    }

    /// Records that the heap has shrunk to `live` pages. Returns what to do each time that they are
    /// less than three quarters of the most since the last such time. `now_ns` is called only then.
    pub fn shrunk(&mut self, live: Pages, now_ns: impl FnOnce() -> u64) -> Option<Shrunk> {
        if live.0 * 4 >= self.peak.0 * 3 || self.peak - live < LEAST {
            return None;
        }
        let now_ns = now_ns();
        let lately = now_ns.saturating_sub(self.last_ns) < WINDOW_NS;
        let grown_since = self.peak.0 * 3 > 4 * self.live_at_last.0;
        *self = Decline { peak: live, live_at_last: live, last_ns: now_ns };
        Some(if lately && grown_since { Shrunk::EmptyCaches } else { Shrunk::GiveBack })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = (1 << 20) / Pages::SIZE;
    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_decline_is_noticed_at_each_quarter() {
        let mut decline = Decline::new();
        decline.grown(Pages(200 * MIB));
        let mut said = Vec::new();
        for live in (0..200).rev() {
            let answer = decline.shrunk(Pages(live * MIB), || 100 * SECOND);
            said.extend(answer.map(|answer| (live, answer)));
        }
        // From 13 on, a quarter is less than 4 MiB, and these are waited for.
        let at = [149, 111, 83, 62, 46, 34, 25, 18, 13, 9, 5, 1];
        assert_eq!(said, at.map(|live| (live, Shrunk::GiveBack)));
    }

    #[test]
    fn what_goes_up_and_down_keeps_its_memory() {
        let mut decline = Decline::new();
        let mut answers = Vec::new();
        for round in 0..4 {
            decline.grown(Pages(200 * MIB));
            answers.push(decline.shrunk(Pages(50 * MIB), || 100 * SECOND + round * SECOND / 10));
        }
        assert_eq!(answers[0], Some(Shrunk::GiveBack));
        assert!(answers[1..].iter().all(|&answer| answer == Some(Shrunk::EmptyCaches)));
        decline.grown(Pages(200 * MIB));
        assert_eq!(decline.shrunk(Pages(50 * MIB), || 110 * SECOND), Some(Shrunk::GiveBack));
    }
}
