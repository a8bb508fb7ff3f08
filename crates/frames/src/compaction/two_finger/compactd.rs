//! compactd: when a domain is compacted, for how long, and the rest afterwards.
//!
//! The talk and the code under review disagree, and the code disagrees with its own comment. So
//! there are three [`Reading`]s:
//!
//! | | starts | rests after success | after failure |
//! | --- | --- | --- | --- |
//! | as presented | when the index *drops below* the threshold | 2 s | 1/8 s |
//! | as written | at the threshold and above | 2 s | 1/8 s |
//! | as intended | at the threshold and above | 1/8 s | 2 s |
//!
//! The index grows with fragmentation, so that the daemon as presented works on memory that is
//! whole; and resting longer after success than after failure is the opposite of backing off.

use crate::Order;
use crate::indices::{FreeBlocks, fragmentation_index};

/// How to read the sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// As on the slides.
    AsPresented,
    /// As in the code under review.
    AsWritten,
    /// What its comments say that it should do.
    #[default]
    AsIntended,
}

/// Rounds without improvement after which compaction gives up.
pub(crate) const FUTILE_ROUNDS: u32 = 10;
/// Interval of the checks of the index while idle, in milliseconds.
pub(crate) const SLEEP_MS: u64 = 1000;
const SHORT_MS: u64 = 1000 / 8;
const LONG_MS: u64 = 2000;

/// The free memory fragmentation index at `order` in thousandths (FMFI, `vm.phys_frag_idx`): the
/// 2006 paper's F_i, rounded towards 0. Negative while blocks of the order abound.
pub(crate) fn fmfi(free: FreeBlocks<'_>, order: Order) -> i64 {
    (fragmentation_index(free, order) * 1000.0) as i64
}

/// The daemon of one NUMA domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compactd {
    /// The index at which to compact, in thousandths, from 200 to 1000 (`vm.phys_compact_thresh`).
    pub threshold: i64,
    /// Which of the sources to follow.
    pub reading: Reading,
    /// Whether pages stay where they are that lie in reservations. The code under review moves them:
    /// their frames come free for the reservation, not for the free lists.
    pub spare_reservations: bool,
}

impl Default for Compactd {
    fn default() -> Compactd {
        Compactd { threshold: 300, reading: Reading::AsIntended, spare_reservations: false }
    }
}

/// A run in progress: the index before it, and the number of consecutive rounds without gain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    lowest: i64,
    futile: u32,
}

impl Progress {
    /// A run that starts at this index.
    pub const fn new(index: i64) -> Progress {
        Progress { lowest: index, futile: 0 }
    }
}

impl Compactd {
    /// Whether to compact a domain with this index.
    pub fn wants(&self, index: i64) -> bool {
        match self.reading {
            Reading::AsPresented => index < self.threshold,
            Reading::AsWritten | Reading::AsIntended => index >= self.threshold,
        }
    }

    /// Whether to add a round, after one that left the domain with this index.
    pub fn goes_on(&self, progress: &mut Progress, index: i64) -> bool {
        progress.futile = if index < progress.lowest { 0 } else { progress.futile + 1 };
        progress.lowest = progress.lowest.min(index);
        self.wants(index) && progress.futile < FUTILE_ROUNDS
    }

    /// How long to rest, in milliseconds; `ran` shows whether there was a run, and whether it
    /// brought the index out of where the daemon wants to work.
    pub fn rest_ms(&self, ran: Option<bool>) -> u64 {
        match (ran, self.reading) {
            (None, _) => SLEEP_MS,
            (Some(true), Reading::AsIntended) => SHORT_MS,
            (Some(false), Reading::AsIntended) => LONG_MS,
            (Some(true), _) => LONG_MS,
            (Some(false), _) => SHORT_MS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_of_the_talks_first_table() {
        // Table 1, before and after a kernel build: orders 12 to 9 and 2 to 0.
        let before = FreeBlocks { counts: &[1, 1, 9, 0, 0, 0, 0, 0, 0, 1, 2, 1, 337] };
        let after = FreeBlocks { counts: &[2156, 1712, 1139, 0, 0, 0, 0, 0, 0, 68, 23, 3, 11] };
        // Before: 337 blocks of eight superpages each and hardly anything else.
        assert!(fmfi(before, Order::HUGE) < -6000);
        // After: 1 - ((10,136 + 68*512 + 23*1024 + 3*2048 + 11*4096)/512) / 5,112.
        let frames = 2156 + 2 * 1712 + 4 * 1139 + 512 * 68 + 1024 * 23 + 2048 * 3 + 4096 * 11;
        assert_eq!(after.frames(), frames);
        let expected = 1000.0 - frames as f64 / 512.0 / 5112.0 * 1000.0;
        assert_eq!(fmfi(after, Order::HUGE), expected as i64);
        assert!(Compactd::default().wants(fmfi(after, Order::HUGE)));
        assert!(!Compactd::default().wants(fmfi(before, Order::HUGE)));
    }

    #[test]
    fn the_sources_disagree() {
        let daemon = |reading| Compactd { reading, ..Compactd::default() };
        let starts = |reading| [299, 300].map(|index| daemon(reading).wants(index));
        assert_eq!(starts(Reading::AsPresented), [true, false]);
        assert_eq!(starts(Reading::AsWritten), [false, true]);
        assert_eq!(starts(Reading::AsIntended), [false, true]);
        let rests =
            |reading| [None, Some(true), Some(false)].map(|ran| daemon(reading).rest_ms(ran));
        assert_eq!(rests(Reading::AsWritten), [1000, 2000, 125]);
        assert_eq!(rests(Reading::AsIntended), [1000, 125, 2000]);
    }

    #[test]
    fn a_run_ends_below_the_threshold_or_after_ten_futile_rounds() {
        let daemon = Compactd::default();
        let mut progress = Progress::new(800);
        assert!(daemon.goes_on(&mut progress, 600));
        assert!(!daemon.goes_on(&mut progress, 299));
        let mut progress = Progress::new(800);
        let rounds = (0..100).take_while(|_| daemon.goes_on(&mut progress, 800)).count();
        assert_eq!(rounds, 9, "the tenth futile round is the last");
        // Any gain resets the count.
        let mut progress = Progress::new(800);
        assert!((0..9).all(|_| daemon.goes_on(&mut progress, 800)));
        assert!(daemon.goes_on(&mut progress, 799));
        assert!((0..9).all(|_| daemon.goes_on(&mut progress, 799)));
        assert!(!daemon.goes_on(&mut progress, 799));
    }
}
