//! The pressure of a container: one share of time for each signal.

use std::fmt;
use std::time::Duration;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::observation::Observation;
use crate::signal::{Period, SIGNALS, Signal};

/// Signals that a controller can have.
const CAPACITY: usize = 8;

/// The pressure of one period: the share of each signal (1.0 is all of the wall time).
#[derive(Clone, Copy)]
pub struct Pressure {
    signals: &'static [Signal],
    shares: [f64; CAPACITY],
}

impl Pressure {
    /// No pressure by any of the signals.
    ///
    /// # Panics
    /// With more than 8 signals, or none.
    pub fn none(signals: &'static [Signal]) -> Pressure {
        assert!((1..=CAPACITY).contains(&signals.len()), "1 to 8 signals");
        Pressure { signals, shares: [0.0; CAPACITY] }
    }

    /// The pressure between two observations by the daemon's signals. `return_cost` is the time
    /// that it takes to fault in one offloaded page.
    pub fn between(before: &Observation, now: &Observation, return_cost: Duration) -> Pressure {
        Pressure::of(SIGNALS, &Period { before, now, return_cost })
    }

    /// The pressure of a period by each of the signals.
    ///
    /// Only differences of totals are used. The kernel's `avg10` is averaged from samples that
    /// are truncated to whole percents, so it reads zero at the paper's threshold of 0.1 %.
    pub fn of(signals: &'static [Signal], period: &Period<'_>) -> Pressure {
        let mut pressure = Pressure::none(signals);
        if period.wall_us() <= 0.0 {
            return pressure;
        }
        for (share, signal) in pressure.shares.iter_mut().zip(signals) {
            *share = (signal.share)(period);
        }
        pressure
    }

    /// The signals and their shares.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Signal, f64)> {
        self.signals.iter().zip(self.shares)
    }

    /// The share of the signal with this name; 0 without such a signal.
    pub fn share(&self, name: &str) -> f64 {
        self.iter().find(|(signal, _)| signal.name == name).map_or(0.0, |(_, share)| share)
    }

    /// Sets the share of the signal with this name, if there is one.
    pub(crate) fn set(&mut self, name: &str, share: f64) {
        if let Some(at) = self.signals.iter().position(|signal| signal.name == name) {
            self.shares[at] = share;
        }
    }

    /// The largest share, which governs, and the name of its signal. Of equal shares one that the
    /// kernel measures governs, and of several of these the last.
    pub fn governing(&self) -> (&'static str, f64) {
        let rank = |signal: &Signal| signal.source.is_some();
        let terms = self.iter().reduce(|most, term| {
            let wins = term.1 > most.1 || term.1 == most.1 && rank(term.0) >= rank(most.0);
            if wins { term } else { most }
        });
        terms.map_or(("", 0.0), |(signal, share)| (signal.name, share))
    }
}

impl Default for Pressure {
    fn default() -> Pressure {
        Pressure::none(SIGNALS)
    }
}

impl PartialEq for Pressure {
    fn eq(&self, other: &Pressure) -> bool {
        let named = |(signal, share): (&'static Signal, f64)| (signal.name, share);
        self.iter().map(named).eq(other.iter().map(named))
    }
}

impl fmt::Debug for Pressure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(signal, share)| (signal.name, share))).finish()
    }
}

/// As a map from the signal's name to its share.
impl Serialize for Pressure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.signals.len()))?;
        for (signal, share) in self.iter() {
            map.serialize_entry(signal.name, &share)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counter::Counters;
    use crate::signal::{io, memory};
    use prairie_host::cgroup::MemoryStat;

    fn at(seconds: u64) -> Observation {
        Observation { at: Duration::from_secs(seconds), ..Observation::default() }
    }

    #[test]
    fn the_largest_share_governs() {
        let cost = Duration::from_micros(27);
        let before = at(0);
        // 6 ms of 6 s: 0.1 %. 12 ms: 0.2 %. 1000 zswap-ins of 27 us: 0.45 %.
        let counters = Counters::of([(memory::SOME, 6_000), (io::SOME, 12_000)]);
        let mut now = Observation { counters, ..at(6) };
        let pressure = Pressure::between(&before, &now, cost);
        assert_eq!(pressure.governing(), ("io", 0.002));
        assert!((pressure.share("memory") - 0.001).abs() < 1e-12);
        now.stat.zswpin = 1_000;
        let (name, value) = Pressure::between(&before, &now, cost).governing();
        assert_eq!(name, "returned");
        assert!((value - 0.0045).abs() < 1e-12);
    }

    #[test]
    fn of_equal_shares_one_that_the_kernel_measures_governs() {
        let with = |shares: [f64; 3]| {
            let mut pressure = Pressure::default();
            pressure.shares[..3].copy_from_slice(&shares);
            pressure.governing().0
        };
        assert_eq!(with([0.0, 0.0, 0.0]), "io");
        assert_eq!(with([0.1, 0.0, 0.1]), "memory");
        assert_eq!(with([0.0, 0.1, 0.1]), "io");
        assert_eq!(with([0.1, 0.1, 0.0]), "io");
        assert_eq!(with([0.1, 0.1, 0.2]), "returned");
    }

    #[test]
    fn a_phase_change_that_psi_does_not_see() {
        // Linux 6.1, zswap: 48 000 swap-ins within a minute, both totals unchanged.
        let now = Observation {
            stat: MemoryStat {
                zswpin: 4_800,
                workingset_refault_anon: 4_800,
                ..Default::default()
            },
            ..at(6)
        };
        let pressure = Pressure::between(&at(0), &now, Duration::from_micros(27));
        assert_eq!((pressure.share("memory"), pressure.share("io")), (0.0, 0.0));
        assert!(pressure.governing().1 > 0.02, "twenty times the paper's threshold");
    }

    #[test]
    fn no_time_is_no_pressure() {
        let now = Observation { counters: Counters::of([(memory::SOME, 6_000)]), ..at(6) };
        assert_eq!(Pressure::between(&at(6), &now, Duration::ZERO), Pressure::default());
        assert_eq!(Pressure::between(&at(7), &now, Duration::ZERO), Pressure::default());
    }

    #[test]
    fn json_is_a_map_by_name() {
        let text = serde_json::to_string(&Pressure::default()).unwrap();
        assert_eq!(text, r#"{"memory":0.0,"io":0.0,"returned":0.0}"#);
    }
}
