//! Guards: each a reason to leave a container alone for a period, with the numbers behind it.
//!
//! The formula alone would continue where it must not: into a full swap, into a container that is
//! just starting, against a burst that the totals will show six seconds late. A guard only ever
//! stops reclaim; none makes it stronger. The first guard that blocks, in the order below, is
//! reported.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::observation::Observation;

/// Why nothing is reclaimed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "guard", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Guard {
    /// There is nothing yet to compare with: growth needs two observations.
    FirstLook,
    /// All tasks of the host stall on memory.
    Emergency {
        /// Until it may be touched again, if the emergency ends now.
        remaining: Duration,
    },
    /// The clock jumped, or the machine slept: the period's shares would mean nothing.
    Clock {
        /// Time that passed between the observations.
        passed: Duration,
    },
    /// Counters that cannot be true together.
    Contradiction {
        /// Which.
        what: &'static str,
    },
    /// The container has only just appeared.
    WarmUp {
        /// Until it may be touched.
        remaining: Duration,
    },
    /// A trigger reported a burst of pressure a while ago.
    Burst {
        /// Until it may be touched again.
        remaining: Duration,
    },
    /// All tasks together stood still for memory.
    FullStall {
        /// Share of the period.
        share: f64,
    },
    /// More reclaimed pages refaulted than the profile allows.
    Returning {
        /// Recently refaulted pages.
        returned_pages: u64,
        /// Recently reclaimed pages.
        taken_pages: u64,
        /// Until it may be touched again.
        remaining: Duration,
    },
    /// Growing on its own: reclaim does not oppose its demand.
    Expanding {
        /// Share of itself.
        share: f64,
    },
    /// Shrinking on its own: its working set has changed.
    Contracting {
        /// Share of itself.
        share: f64,
    },
    /// The objective of its class is missed, or was a while ago.
    Objective {
        /// As last read.
        value: f64,
        /// The most that it may be.
        at_most: f64,
        /// Until it may be touched again, if it is met from now on.
        remaining: Duration,
    },
    /// The objective of its class cannot be read.
    ObjectiveUnknown,
    /// At or below its minimum size or what the kernel protects.
    Small {
        /// The floor.
        floor_bytes: u64,
    },
    /// No room for anonymous memory, and no way to take page cache alone.
    NoRoom {
        /// Free swap.
        free_bytes: u64,
    },
    /// The day's writes to swap devices are used up.
    WriteBudget,
    /// The pool takes as much memory as it frees.
    NoGain,
    /// Room is scarce, and classes of lower priority want it.
    Yielding,
    /// The kernel scanned much for little.
    Scanning {
        /// Pages scanned for each page taken.
        per_page: f64,
    },
    /// Ages are being measured: the first request must not be blind.
    Ageing,
    /// Nothing has been idle for long enough.
    NothingIdle,
    /// A small amount was reclaimed as a trial, and whether it refaults is not known yet.
    Trial {
        /// Until more may be reclaimed.
        remaining: Duration,
    },
    /// Pressure is at or above the threshold: the formula itself says nothing.
    Pressure,
    /// Over-reclaim is being compensated.
    OverReclaim {
        /// Bytes to compensate.
        owed_bytes: u64,
    },
    /// The allowance is less than a page.
    Tiny,
    /// The last request is in flight.
    Busy,
}

impl Guard {
    /// Whether it is an emergency of the host.
    pub fn is_emergency(&self) -> bool {
        matches!(self, Guard::Emergency { .. })
    }

    /// Its name in logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Guard::FirstLook => "first-look",
            Guard::Emergency { .. } => "emergency",
            Guard::Clock { .. } => "clock",
            Guard::Contradiction { .. } => "contradiction",
            Guard::WarmUp { .. } => "warm-up",
            Guard::Burst { .. } => "burst",
            Guard::FullStall { .. } => "full-stall",
            Guard::Returning { .. } => "returning",
            Guard::Expanding { .. } => "expanding",
            Guard::Contracting { .. } => "contracting",
            Guard::Objective { .. } => "objective",
            Guard::ObjectiveUnknown => "objective-unknown",
            Guard::Small { .. } => "small",
            Guard::NoRoom { .. } => "no-room",
            Guard::WriteBudget => "write-budget",
            Guard::NoGain => "no-gain",
            Guard::Yielding => "yielding",
            Guard::Scanning { .. } => "scanning",
            Guard::Ageing => "ageing",
            Guard::NothingIdle => "nothing-idle",
            Guard::Trial { .. } => "trial",
            Guard::Pressure => "pressure",
            Guard::OverReclaim { .. } => "over-reclaim",
            Guard::Tiny => "tiny",
            Guard::Busy => "busy",
        }
    }
}

/// The reason as a phrase, with the numbers behind it.
impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: &u64| *bytes as f64 / f64::from(1 << 20);
        let percent = |share: &f64| share * 100.0;
        match self {
            Guard::FirstLook => f.write_str("first sample, nothing to compare with"),
            Guard::Emergency { remaining } => {
                write!(f, "memory emergency of the host, blocked for {} s", remaining.as_secs())
            }
            Guard::Clock { passed } => {
                write!(
                    f,
                    "{:.1} s between two samples, shares of time are not valid",
                    passed.as_secs_f64()
                )
            }
            Guard::Contradiction { what } => write!(f, "counters contradict each other: {what}"),
            Guard::WarmUp { remaining } => write!(f, "warming up for {} s", remaining.as_secs()),
            Guard::Burst { remaining } => {
                write!(f, "burst of pressure, blocked for {} s", remaining.as_secs())
            }
            Guard::FullStall { share } => {
                write!(f, "all tasks stalled on memory for {:.2} % of the period", percent(share))
            }
            Guard::Returning { returned_pages, taken_pages, remaining } => write!(
                f,
                "{returned_pages} of {taken_pages} reclaimed pages refaulted, blocked for {} s",
                remaining.as_secs()
            ),
            Guard::Expanding { share } => write!(f, "growing, {:.1} % in a period", percent(share)),
            Guard::Contracting { share } => {
                write!(f, "shrinking on its own, {:.1} % in a period", percent(share))
            }
            Guard::Objective { value, at_most, .. } if value > at_most => {
                write!(f, "the objective is missed, {value} instead of at most {at_most}")
            }
            Guard::Objective { remaining, .. } => {
                write!(f, "the objective was missed, blocked for {} s", remaining.as_secs())
            }
            Guard::ObjectiveUnknown => f.write_str("the objective cannot be read"),
            Guard::Small { floor_bytes } => {
                write!(f, "at its minimum size of {:.1} MiB", mib(floor_bytes))
            }
            Guard::NoRoom { free_bytes } => {
                write!(f, "not enough free swap, {:.1} MiB free", mib(free_bytes))
            }
            Guard::WriteBudget => {
                f.write_str("swap devices wrote as much as their endurance admits for now")
            }
            Guard::NoGain => f.write_str("zswap's pool takes as much memory as it frees"),
            Guard::Yielding => f.write_str("room is scarce, classes of lower priority go first"),
            Guard::Scanning { per_page } => {
                write!(f, "the kernel scanned {per_page:.0} pages per reclaimed page")
            }
            Guard::Ageing => f.write_str("measuring ages"),
            Guard::NothingIdle => f.write_str("no memory has been idle for long enough"),
            Guard::Trial { remaining } => {
                write!(
                    f,
                    "on trial for {} s: does what was reclaimed refault?",
                    remaining.as_secs()
                )
            }
            Guard::Pressure => f.write_str("pressure at its threshold"),
            Guard::OverReclaim { owed_bytes } => {
                write!(f, "over-reclaim, {:.1} MiB to compensate", mib(owed_bytes))
            }
            Guard::Tiny => f.write_str("allowance below one page"),
            Guard::Busy => f.write_str("the last request is in flight"),
        }
    }
}

/// The history that guards use, besides the last observation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct History {
    /// The observation before.
    pub before: Observation,
    /// Periods that were to pass since then.
    pub periods: u32,
    /// When the container was first seen.
    pub first_seen: Duration,
    /// Until when a burst holds everything.
    pub hold_until: Duration,
    /// Pages taken since the observation before.
    pub taken_pages: u64,
    /// Pages scanned for each page taken, over the last periods in which any was requested.
    pub scanned_per_page: f64,
    /// The last return that went over its limit: pages returned, pages taken, and until when.
    pub returning: Option<(u64, u64, Duration)>,
}
