//! How hard a container is pressed: stalls that the kernel counted, and stalls that it did not.
//!
//! The paper's pressure is the share of time in which some task was stalled (TMO, §3.2). Two of
//! the three terms are just that, for memory and for IO. The third makes up for a blind spot: a
//! page that comes back from zswap counts as a stall only if it had been on the active list
//! before it left, so on many kernels a container can read back all its memory while both
//! pressures stay at zero. What came back is known from counters; what one return costs is
//! measured on the host.

use std::time::Duration;

use serde::Serialize;

use crate::observation::Observation;

/// One of the three terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Term {
    /// Growth of `total=` in `memory.pressure`, `some`.
    Memory,
    /// Growth of `total=` in `io.pressure`, `some`.
    Io,
    /// Pages that came back, times the cost of one.
    Returned,
}

impl Term {
    /// Its name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Term::Memory => "memory",
            Term::Io => "io",
            Term::Returned => "returned",
        }
    }
}

/// The pressure of one period, as shares of its wall time (1.0 is all of it).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Pressure {
    /// Some task waited for memory.
    pub memory: f64,
    /// Some task waited for IO.
    pub io: f64,
    /// Pages that came back times the cost of one. Several tasks may wait at once, so it can
    /// exceed 1.
    pub returned: f64,
}

impl Pressure {
    /// The pressure between two observations. `cost` is the time that one page's return takes.
    ///
    /// Only differences of totals are used. The kernel's `avg10` is averaged from samples that
    /// were cut to whole per cents, so it reads zero at the paper's threshold of 0.1 %. A total
    /// that went backwards (another cgroup of that name) counts as no growth.
    pub fn between(before: &Observation, now: &Observation, cost: Duration) -> Pressure {
        let wall_us = now.at.saturating_sub(before.at).as_secs_f64() * 1e6;
        if wall_us <= 0.0 {
            return Pressure::default();
        }
        let share = |before: u64, now: u64| now.saturating_sub(before) as f64 / wall_us;
        Pressure {
            memory: share(before.memory_some_us, now.memory_some_us),
            io: share(before.io_some_us, now.io_some_us),
            returned: returned_pages(before, now) as f64 * cost.as_secs_f64() * 1e6 / wall_us,
        }
    }

    /// The largest term, which governs, and its value.
    pub fn governing(&self) -> (Term, f64) {
        let terms = [(Term::Memory, self.memory), (Term::Io, self.io)];
        let returned = (Term::Returned, self.returned);
        terms.into_iter().fold(returned, |most, term| if term.1 >= most.1 { term } else { most })
    }
}

/// Pages that came back between two observations.
///
/// The counters overlap: a page read from zswap counts as `zswpin`, as a major fault, and as a
/// refault if its shadow was still there. Anonymous returns are the larger of the first and the
/// last; with refaults of files they are held against major faults, and the larger is taken. So
/// no return is missed that any of them saw, and none counts twice.
pub fn returned_pages(before: &Observation, now: &Observation) -> u64 {
    let (b, n) = (&before.stat, &now.stat);
    let swapped_in = (n.zswpin.saturating_sub(b.zswpin))
        .saturating_add(n.pswpin.saturating_sub(b.pswpin))
        .max(n.workingset_refault_anon.saturating_sub(b.workingset_refault_anon));
    let file = n.workingset_refault_file.saturating_sub(b.workingset_refault_file);
    swapped_in.saturating_add(file).max(n.pgmajfault.saturating_sub(b.pgmajfault))
}

#[cfg(test)]
mod tests {
    use super::*;
    use prairie_host::cgroup::MemoryStat;

    fn at(seconds: u64) -> Observation {
        Observation { at: Duration::from_secs(seconds), ..Observation::default() }
    }

    #[test]
    fn the_largest_of_three_governs() {
        let cost = Duration::from_micros(27);
        let before = at(0);
        // 6 ms of 6 s: 0.1 %. 12 ms: 0.2 %. 1000 zswap-ins of 27 us: 0.45 %.
        let mut now = Observation { memory_some_us: 6_000, io_some_us: 12_000, ..at(6) };
        let pressure = Pressure::between(&before, &now, cost);
        assert_eq!(pressure.governing(), (Term::Io, 0.002));
        assert!((pressure.memory - 0.001).abs() < 1e-12);
        now.stat.zswpin = 1_000;
        let (term, value) = Pressure::between(&before, &now, cost).governing();
        assert_eq!(term, Term::Returned);
        assert!((value - 0.0045).abs() < 1e-12);
    }

    #[test]
    fn a_phase_change_that_psi_does_not_see() {
        // Linux 6.1, zswap: 48 000 swap-ins within a minute, both totals unmoved.
        let now = Observation {
            stat: MemoryStat {
                zswpin: 4_800,
                workingset_refault_anon: 4_800,
                ..Default::default()
            },
            ..at(6)
        };
        let pressure = Pressure::between(&at(0), &now, Duration::from_micros(27));
        assert_eq!((pressure.memory, pressure.io), (0.0, 0.0));
        assert!(pressure.governing().1 > 0.02, "twenty times the paper's threshold");
    }

    #[test]
    fn returns_are_counted_once() {
        let stat = MemoryStat {
            zswpin: 100,
            workingset_refault_anon: 90,
            workingset_refault_file: 7,
            pgmajfault: 105,
            ..MemoryStat::default()
        };
        let now = Observation { stat, ..at(6) };
        assert_eq!(returned_pages(&at(0), &now), 107);
        let stat = MemoryStat { pgmajfault: 300, ..stat };
        assert_eq!(returned_pages(&at(0), &Observation { stat, ..at(6) }), 300);
        assert_eq!(returned_pages(&now, &at(0)), 0, "backwards is no growth");
    }

    #[test]
    fn no_time_is_no_pressure() {
        let now = Observation { memory_some_us: 6_000, ..at(6) };
        assert_eq!(Pressure::between(&at(6), &now, Duration::ZERO), Pressure::default());
        assert_eq!(Pressure::between(&at(7), &now, Duration::ZERO), Pressure::default());
    }
}
