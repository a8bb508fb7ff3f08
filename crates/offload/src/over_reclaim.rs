//! Compensation for over-reclaim: control by reclaimed bytes, not by requested bytes.
//!
//! Kernels reclaim more than requested: 6.1 up to 1.6 times as much, and 6.12 with MGLRU 35 MiB for
//! a request of 128 KiB. The excess over the allowance is compensated: the allowances of the next
//! periods are subtracted from it before the next request. Reclaiming *less* earns no credit,
//! because a kernel that found little will not find more in a larger request.

use serde::Serialize;

/// Bytes that were reclaimed beyond the allowances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OverReclaim {
    owed_bytes: u64,
}

impl OverReclaim {
    /// The over-reclaimed bytes.
    pub fn owed_bytes(self) -> u64 {
        self.owed_bytes
    }

    /// Adds a period in which `taken_bytes` were reclaimed, by this daemon or by others, after
    /// `asked_bytes` had been requested.
    #[must_use]
    pub fn after(self, asked_bytes: u64, taken_bytes: u64) -> OverReclaim {
        let surplus = taken_bytes.saturating_sub(asked_bytes);
        OverReclaim { owed_bytes: self.owed_bytes.saturating_add(surplus) }
    }

    /// Forgets what exceeds `most_bytes`. Others reclaim, too: page cache of a backup that is read
    /// once goes through a container in multiples of its size, and says little about the memory
    /// that is in it later.
    #[must_use]
    pub fn at_most(self, most_bytes: u64) -> OverReclaim {
        OverReclaim { owed_bytes: self.owed_bytes.min(most_bytes) }
    }

    /// Compensates with a period's allowance; returns the remaining over-reclaim and the bytes that
    /// may be requested.
    #[must_use]
    pub fn pay(self, allowance_bytes: u64) -> (OverReclaim, u64) {
        let rest = self.owed_bytes.saturating_sub(allowance_bytes);
        (OverReclaim { owed_bytes: rest }, allowance_bytes.saturating_sub(self.owed_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn an_overshoot_is_worked_off_in_silence() {
        // Three requests of 2.2 MiB took 77 MiB on 6.12: the next 32 periods ask for nothing.
        let mut over_reclaim = OverReclaim::default().after(3 * 22 * MIB / 10, 77 * MIB);
        let mut silent = 0;
        loop {
            let (rest, ask) = over_reclaim.pay(22 * MIB / 10);
            over_reclaim = rest;
            if ask > 0 {
                break;
            }
            silent += 1;
        }
        assert_eq!((silent, over_reclaim.owed_bytes()), (32, 0));
    }

    #[test]
    fn taking_less_earns_nothing() {
        assert_eq!(OverReclaim::default().after(10 * MIB, MIB), OverReclaim::default());
        assert_eq!(OverReclaim::default().pay(MIB), (OverReclaim::default(), MIB));
    }

    #[test]
    fn reclaim_by_others_is_forgotten_beyond_a_limit() {
        let backup = OverReclaim::default().after(0, 100 << 30);
        assert_eq!(backup.at_most(30 * MIB).owed_bytes(), 30 * MIB);
        assert_eq!(OverReclaim::default().after(0, MIB).at_most(30 * MIB).owed_bytes(), MIB);
    }

    proptest! {
        /// However a kernel overshoots, in the long run no more is taken than was allowed, but
        /// for what the last overshoot still owes.
        #[test]
        fn reclaimed_memory_equals_the_allowance(
            periods in prop::collection::vec((0u64..10 * MIB, 0u64..40), 1..200),
        ) {
            let (mut over_reclaim, mut allowed, mut taken) = (OverReclaim::default(), 0, 0);
            for (allowance, factor) in periods {
                allowed += allowance;
                let (rest, ask) = over_reclaim.pay(allowance);
                let took = ask * factor / 10;
                taken += took;
                over_reclaim = rest.after(ask, took);
            }
            prop_assert!(taken <= allowed + over_reclaim.owed_bytes());
        }
    }
}
