//! The soft limit: how far a heap that has grown beyond it shrinks.
//!
//! No allocation fails because of the limit. A program whose live memory exceeds it keeps running,
//! on a heap that holds as little free memory as it can.

use serde::Serialize;

use crate::units::Pages;

/// Least time between two emptyings of the caches for the limit: 1 second (chosen). Emptying and
/// refilling them costs some microseconds per size class and CPU.
const EMPTY_CACHES_EVERY_NS: u64 = 1_000_000_000;

/// A soft limit on backed memory, and the actions that enforced it.
#[derive(Clone, Copy, Debug)]
pub struct SoftLimit {
    most: Option<Pages>,
    caches_emptied_ns: Option<u64>,
    released: Pages,
    exceeded: u64,
}

/// The soft limit as statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[repr(C)]
#[non_exhaustive]
pub struct LimitStatistics {
    /// The limit in bytes; 0 if there is none.
    pub bytes: u64,
    /// Bytes given back to keep to it.
    pub released_bytes: u64,
    /// How often the heap grew beyond it and had too little free memory to give back.
    pub exceeded: u64,
}

impl SoftLimit {
    /// No limit.
    pub const fn none() -> SoftLimit {
        SoftLimit { most: None, caches_emptied_ns: None, released: Pages::ZERO, exceeded: 0 }
    }

    /// A limit of `most` pages with physical memory behind them.
    pub const fn of(most: Pages) -> SoftLimit {
        SoftLimit { most: Some(most), ..SoftLimit::none() }
    }

    /// Whether there is a limit.
    pub const fn is_set(&self) -> bool {
        self.most.is_some()
    }

    /// By how much `backed` pages exceed the limit.
    pub fn excess(&self, backed: Pages) -> Pages {
        self.most.map_or(Pages::ZERO, |most| backed.saturating_sub(most))
    }

    /// Records that `released` of `excess` pages were given back. Whether the caches should give up
    /// what they hold, since that was too little; `now_ns` is called only to decide this.
    pub fn shrunk(&mut self, excess: Pages, released: Pages, now_ns: impl FnOnce() -> u64) -> bool {
        self.released += released;
        if released >= excess {
            return false;
        }
        self.exceeded += 1;
        let now_ns = now_ns();
        let last = self.caches_emptied_ns;
        let due = last.is_none_or(|last| now_ns.saturating_sub(last) >= EMPTY_CACHES_EVERY_NS);
        if due {
            self.caches_emptied_ns = Some(now_ns);
        }
        due
    }

    /// The limit and what was done for it.
    pub fn statistics(&self) -> LimitStatistics {
        LimitStatistics {
            bytes: self.most.map_or(0, Pages::bytes),
            released_bytes: self.released.bytes(),
            exceeded: self.exceeded,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn without_a_limit_nothing_is_excess() {
        let none = SoftLimit::none();
        assert!(!none.is_set());
        assert_eq!(none.excess(Pages(u64::MAX)), Pages::ZERO);
        assert_eq!(none.statistics(), LimitStatistics::default());
    }

    #[test]
    fn what_exceeds_the_limit_is_excess() {
        let limit = SoftLimit::of(Pages(100));
        assert!(limit.is_set());
        assert_eq!(limit.excess(Pages(100)), Pages::ZERO);
        assert_eq!(limit.excess(Pages(130)), Pages(30));
    }

    #[test]
    fn caches_are_emptied_at_most_once_a_second_and_only_if_release_falls_short() {
        let mut limit = SoftLimit::of(Pages(100));
        assert!(!limit.shrunk(Pages(30), Pages(30), || panic!("enough was released")));
        assert!(limit.shrunk(Pages(30), Pages(10), || 5 * SECOND));
        assert!(!limit.shrunk(Pages(30), Pages::ZERO, || 5 * SECOND + SECOND / 2));
        assert!(limit.shrunk(Pages(30), Pages::ZERO, || 6 * SECOND));
        let LimitStatistics { bytes, released_bytes, exceeded } = limit.statistics();
        assert_eq!((bytes, released_bytes), (Pages(100).bytes(), Pages(40).bytes()));
        assert_eq!(exceeded, 3);
    }
}
