//! Tiers of offloaded memory: compressed memory first, the swap device for pages that compress
//! badly or were stored long ago.
//!
//! A read from the pool costs a tenth or less of one from a device, but a page in the pool still
//! takes a third of itself in RAM. Young pages therefore belong into the pool, because most
//! refaults are of young pages, and old pages on the device. A kernel does not report the age of a
//! pool's pages, but everything stored within a time is younger than that, so any excess over it is
//! older. The pool is limited to the younger part: kernels from 6.8 on then write its oldest page
//! to the device for each new one.

use std::collections::VecDeque;
use std::time::Duration;

use crate::observation::Observation;
use crate::returns::Returns;

/// Bytes of a page, in the kernel's counters.
const PAGE: u64 = 4096;

/// A container whose pages do not shrink below this share of themselves is sent past zswap.
pub const BADLY_COMPRESSED: f64 = 0.7;

/// Less in the pool than this says nothing about how a container's pages compress.
pub const MIN_SAMPLE_BYTES: u64 = 8 << 20;

/// Time in the pool after which a page is old (chosen): longer than the window in which refaults
/// count against reclaim, so that a bad choice shows while its pages are in the pool.
pub const AGE: Duration = Duration::from_secs(900);

/// Refaults from the device raise the required age up to this multiple.
const MAX_AGE_FACTOR: u32 = 8;

/// Steps in which the age is measured.
const STEPS: u32 = 8;

/// The share of pages moved to the device that may refault, equal to that of a container's profile.
const RETURN_LIMIT: f64 = 0.01;

/// Where the memory of a container goes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tier {
    /// Into the pool, as much as there is.
    #[default]
    Pool,
    /// Into the pool, which keeps this many compressed bytes; its oldest pages move to the device.
    Young(u64),
    /// Past the pool.
    Device,
}

/// What is known of a container's pool.
#[derive(Clone, Debug)]
pub struct Tiers {
    age: Duration,
    /// When, and how many pages had been stored by then: one for each step, the oldest first.
    stored: VecDeque<(Duration, u64)>,
    before: Option<Observation>,
    returns: Returns,
    tier: Tier,
}

impl Default for Tiers {
    fn default() -> Tiers {
        let (stored, returns) = (VecDeque::new(), Returns::default());
        Tiers { age: AGE, stored, before: None, returns, tier: Tier::Pool }
    }
}

/// Whether a container's pages compress too badly for a pool.
pub fn compress_badly(now: &Observation) -> bool {
    let stat = &now.stat;
    stat.zswapped >= MIN_SAMPLE_BYTES && stat.zswap as f64 > stat.zswapped as f64 * BADLY_COMPRESSED
}

impl Tiers {
    /// How long a page has to be in the pool to be old.
    pub fn age(&self) -> Duration {
        self.age
    }

    /// Decides after an observation. A container that once bypasses the pool continues to: an empty
    /// pool shows nothing about its compression.
    pub fn decide(&mut self, now: &Observation) -> Tier {
        if self.tier == Tier::Device || compress_badly(now) {
            self.tier = Tier::Device;
            return self.tier;
        }
        if let Some((at, stored)) = self.stored.back().copied() {
            if now.at < at || now.stat.zswpout < stored {
                // The clock or a counter went back: nothing is known.
                *self = Tiers { age: self.age, ..Tiers::default() };
            } else if now.at - at < self.age / STEPS {
                return self.tier;
            }
        }
        self.count_returns(now);
        self.stored.push_back((now.at, now.stat.zswpout));
        self.tier = match self.old_bytes(now) {
            // Where writes are scarce, the device is for those who have no other place.
            _ if now.room.write_scarcity > 0.0 => Tier::Pool,
            Some(old) if old >= MIN_SAMPLE_BYTES => {
                let young = now.stat.zswapped - old;
                let share = young as f64 / now.stat.zswapped as f64;
                let bytes = (now.stat.zswap as f64 * share) as u64;
                Tier::Young(bytes.max(MIN_SAMPLE_BYTES) / PAGE * PAGE)
            }
            _ => Tier::Pool,
        };
        self.tier
    }

    /// Uncompressed bytes in the pool that are old for sure; nothing while that is not known.
    fn old_bytes(&mut self, now: &Observation) -> Option<u64> {
        // The last sample that is old enough stays, those before it go.
        let is_old = |sample: &(Duration, u64)| now.at - sample.0 >= self.age;
        while self.stored.get(1).is_some_and(is_old) {
            self.stored.pop_front();
        }
        let (_, stored) = self.stored.front().filter(|sample| is_old(sample))?;
        let young = (now.stat.zswpout - stored).saturating_mul(PAGE);
        Some(now.stat.zswapped.saturating_sub(young))
    }

    /// Counts pages that moved to the device since the last step, and refaults from it. Too many
    /// refaults double the required age.
    fn count_returns(&mut self, now: &Observation) {
        let Some(before) = self.before.replace(*now) else { return };
        let (b, n) = (&before.stat, &now.stat);
        let grown = |of: fn(&prairie_host::cgroup::MemoryStat) -> u64| of(n).saturating_sub(of(b));
        let (stored, loaded) = (grown(|stat| stat.zswpout), grown(|stat| stat.zswpin));
        // Stored pages that neither remain nor returned have moved on, or were freed.
        let held = (n.zswapped as i128 - b.zswapped as i128) / i128::from(PAGE);
        let moved = (i128::from(stored) - i128::from(loaded) - held).max(0) as u64;
        let returned = grown(|stat| stat.workingset_refault_anon).saturating_sub(loaded);
        self.returns.count(now.at, moved, returned);
        if self.returns.exceed(RETURN_LIMIT) {
            self.age = (self.age * 2).min(AGE * MAX_AGE_FACTOR);
            self.returns.start_again(now.at + self.age);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Room;
    use prairie_host::cgroup::MemoryStat;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    /// A pool of `mib` MiB of pages that compress by two, after `stored_mib` were stored in all.
    fn pool(minutes: u64, mib: u64, stored_mib: u64) -> Observation {
        let stat = MemoryStat {
            zswap: mib * MIB / 2,
            zswapped: mib * MIB,
            zswpout: stored_mib << 8,
            ..MemoryStat::default()
        };
        Observation { at: Duration::from_secs(60 * minutes), stat, ..Observation::default() }
    }

    #[test]
    fn what_is_older_than_a_quarter_of_an_hour_moves_on() {
        let mut tiers = Tiers::default();
        // 100 MiB at once, then 4 MiB a minute.
        for minute in 0..15 {
            let mib = 100 + 4 * minute;
            assert_eq!(tiers.decide(&pool(minute, mib, mib)), Tier::Pool);
        }
        let at_16 = tiers.decide(&pool(16, 164, 164));
        // 64 MiB were stored since the first look, 16 minutes ago; half of that compressed.
        assert_eq!(at_16, Tier::Young(32 * MIB));
        assert_eq!(tiers.decide(&pool(17, 168, 168)), at_16, "a step is 112 s");
    }

    #[test]
    fn a_pool_that_is_young_or_small_stays() {
        let mut tiers = Tiers::default();
        for minute in 0..200 {
            // As much comes back as is stored: nothing is older than ten minutes.
            let now = pool(minute, 10.min(minute), minute);
            assert_eq!(tiers.decide(&now), Tier::Pool, "{minute}");
        }
        let scarce = Room { write_scarcity: 0.1, ..Room::default() };
        let mut tiers = Tiers::default();
        for minute in 0..200 {
            let now = Observation { room: scarce, ..pool(minute, 500, 500) };
            assert_eq!(tiers.decide(&now), Tier::Pool, "writes are scarce");
        }
    }

    #[test]
    fn pages_that_compress_badly_never_enter() {
        let mut tiers = Tiers::default();
        let mut now = pool(0, 100, 100);
        now.stat.zswap = 80 * MIB;
        assert_eq!(tiers.decide(&now), Tier::Device);
        assert_eq!(tiers.decide(&pool(1, 0, 100)), Tier::Device, "for good");
    }

    #[test]
    fn pages_that_come_back_from_the_device_have_to_be_older() {
        let mut tiers = Tiers::default();
        for minute in 0..40 {
            tiers.decide(&pool(minute, 200, 200));
        }
        assert_eq!(tiers.age(), AGE);
        // 100 MiB moved, and a tenth of it refaulted.
        let mut now = pool(44, 100, 200);
        now.stat.workingset_refault_anon = 10 << 8;
        tiers.decide(&now);
        assert_eq!(tiers.age(), AGE * 2);
        let mut back = pool(60, 100, 100);
        back.stat.workingset_refault_anon = 10 << 8;
        assert_eq!(tiers.decide(&back), Tier::Pool, "a counter that went back");
        assert_eq!(tiers.age(), AGE * 2);
    }

    proptest! {
        /// Whatever flows: the pool keeps all that was stored within the age, and nothing is known to
        /// be old before the age has passed.
        #[test]
        fn what_was_stored_of_late_stays(
            flows in prop::collection::vec((0u64..64, 0u64..64, 4u64..20), 1..200),
        ) {
            let mut tiers = Tiers::default();
            let (mut at, mut held, mut stored) = (0, 0u64, 0u64);
            let mut history: Vec<(u64, u64)> = Vec::new();
            for (arrive, leave, minutes) in flows {
                at += minutes;
                stored += arrive;
                held = (held + arrive).saturating_sub(leave);
                history.push((at, stored));
                let before = history.iter().rfind(|(then, _)| at - then >= AGE.as_secs() / 60);
                match (tiers.decide(&pool(at, held, stored)), before) {
                    (Tier::Young(limit), Some((_, before))) => {
                        let young = (stored - before).min(held);
                        prop_assert!(limit >= MIN_SAMPLE_BYTES);
                        prop_assert!(limit + PAGE >= young * MIB / 2, "{limit} for {young} MiB");
                    }
                    (Tier::Pool, _) => {}
                    (tier, _) => prop_assert!(false, "{tier:?} after {at} minutes"),
                }
            }
        }
    }
}
