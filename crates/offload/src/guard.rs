//! Guards: each a reason to leave a container alone for a period, with the numbers behind it.
//!
//! The formula alone would go on where it must not: into a full swap, into a container that is
//! just starting, against a burst that the totals will show six seconds late. A guard only ever
//! stops; none makes reclaim stronger. The first that is closed, in the order below, is told.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::observation::{Idle, Observation};
use crate::profile::Profile;

/// Why nothing is taken.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "guard", rename_all = "kebab-case")]
pub enum Guard {
    /// There is nothing yet to compare with: growth needs two observations.
    FirstLook,
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
    /// A trigger told of a burst of pressure a while ago.
    Burst {
        /// Until it may be touched again.
        remaining: Duration,
    },
    /// All tasks together stood still for memory.
    FullStall {
        /// Share of the period.
        share: f64,
    },
    /// More came back than the profile allows of what was taken.
    Returning {
        /// Pages that came back of late.
        returned_pages: u64,
        /// Pages that were taken of late.
        taken_pages: u64,
        /// Until it may be touched again.
        remaining: Duration,
    },
    /// Growing by its own doing: what it wants is not opposed.
    Expanding {
        /// Share of itself.
        share: f64,
    },
    /// Shrinking by its own doing: its working set is another now.
    Contracting {
        /// Share of itself.
        share: f64,
    },
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
    /// The kernel scanned much for little.
    Scanning {
        /// Pages scanned for each page taken.
        per_page: f64,
    },
    /// Ages are being measured: the first bite must not be blind.
    Ageing,
    /// Nothing has been idle for long enough.
    NothingIdle,
    /// Pressure is at or above the threshold: the formula itself says nothing.
    Pressure,
    /// More was taken before than was asked for; that is worked off.
    Debt {
        /// What is owed.
        owed_bytes: u64,
    },
    /// The allowance is less than a page.
    Tiny,
    /// The last request is still under way.
    Busy,
}

impl Guard {
    /// Its name in logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Guard::FirstLook => "first-look",
            Guard::Clock { .. } => "clock",
            Guard::Contradiction { .. } => "contradiction",
            Guard::WarmUp { .. } => "warm-up",
            Guard::Burst { .. } => "burst",
            Guard::FullStall { .. } => "full-stall",
            Guard::Returning { .. } => "returning",
            Guard::Expanding { .. } => "expanding",
            Guard::Contracting { .. } => "contracting",
            Guard::Small { .. } => "small",
            Guard::NoRoom { .. } => "no-room",
            Guard::WriteBudget => "write-budget",
            Guard::NoGain => "no-gain",
            Guard::Scanning { .. } => "scanning",
            Guard::Ageing => "ageing",
            Guard::NothingIdle => "nothing-idle",
            Guard::Pressure => "pressure",
            Guard::Debt { .. } => "debt",
            Guard::Tiny => "tiny",
            Guard::Busy => "busy",
        }
    }
}

/// The reason as a person would say it.
impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: &u64| *bytes as f64 / f64::from(1 << 20);
        let percent = |share: &f64| share * 100.0;
        match self {
            Guard::FirstLook => f.write_str("first look, nothing to compare with"),
            Guard::Clock { passed } => {
                write!(
                    f,
                    "{:.1} s between two looks, the period means nothing",
                    passed.as_secs_f64()
                )
            }
            Guard::Contradiction { what } => write!(f, "counters contradict each other: {what}"),
            Guard::WarmUp { remaining } => write!(f, "warming up for {} s", remaining.as_secs()),
            Guard::Burst { remaining } => {
                write!(f, "a burst of pressure, holding for {} s", remaining.as_secs())
            }
            Guard::FullStall { share } => {
                write!(f, "all tasks stalled on memory for {:.2} % of the period", percent(share))
            }
            Guard::Returning { returned_pages, taken_pages, remaining } => write!(
                f,
                "{returned_pages} pages came back of {taken_pages} taken, holding for {} s",
                remaining.as_secs()
            ),
            Guard::Expanding { share } => write!(f, "growing, {:.1} % in a period", percent(share)),
            Guard::Contracting { share } => {
                write!(f, "shrinking by itself, {:.1} % in a period", percent(share))
            }
            Guard::Small { floor_bytes } => {
                write!(f, "at its minimum size of {:.1} MiB", mib(floor_bytes))
            }
            Guard::NoRoom { free_bytes } => {
                write!(f, "no room in swap, {:.1} MiB free", mib(free_bytes))
            }
            Guard::WriteBudget => f.write_str("the day's writes to swap devices are used up"),
            Guard::NoGain => f.write_str("zswap's pool takes as much memory as it frees"),
            Guard::Scanning { per_page } => {
                write!(f, "the kernel scanned {per_page:.0} pages for each that it took")
            }
            Guard::Ageing => f.write_str("measuring ages"),
            Guard::NothingIdle => f.write_str("nothing has been idle for long enough"),
            Guard::Pressure => f.write_str("pressure at its threshold"),
            Guard::Debt { owed_bytes } => {
                write!(f, "more was taken than asked, {:.1} MiB to work off", mib(owed_bytes))
            }
            Guard::Tiny => f.write_str("less than a page to take"),
            Guard::Busy => f.write_str("the last request is still under way"),
        }
    }
}

/// What guards know of the past, beside the last observation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Past {
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
    /// Pages scanned for each page taken, over the last periods in which any was asked for.
    pub scanned_per_page: f64,
    /// The last return that went over its limit: pages returned, pages taken, and until when.
    pub returning: Option<(u64, u64, Duration)>,
}

/// The first closed guard that concerns the observation as such, before anything is computed.
pub fn closed(profile: &Profile, past: &Past, now: &Observation) -> Option<Guard> {
    let before = &past.before;
    let passed = now.at.saturating_sub(before.at);
    // A late tick is honest, and so is one that a change calls for; a suspended machine is not.
    if passed < profile.period / 2 || passed > profile.period * (past.periods + 2) {
        return Some(Guard::Clock { passed });
    }
    if let Some(what) = contradiction(before, now) {
        return Some(Guard::Contradiction { what });
    }
    let remaining = |until: Duration| Some(until.saturating_sub(now.at)).filter(|d| !d.is_zero());
    if let Some(remaining) = remaining(past.first_seen + profile.warm_up) {
        return Some(Guard::WarmUp { remaining });
    }
    if let Some(remaining) = remaining(past.hold_until) {
        return Some(Guard::Burst { remaining });
    }
    let full = now.memory_full_us.saturating_sub(before.memory_full_us) as f64;
    let share = full / (passed.as_secs_f64() * 1e6);
    if share > profile.full_limit {
        return Some(Guard::FullStall { share });
    }
    if let Some((returned_pages, taken_pages, until)) = past.returning
        && let Some(remaining) = remaining(until)
    {
        return Some(Guard::Returning { returned_pages, taken_pages, remaining });
    }
    in_motion(profile, past, now)
}

/// Whether the container moves by its own doing, that is apart from what was taken from it.
fn in_motion(profile: &Profile, past: &Past, now: &Observation) -> Option<Guard> {
    let before = past.before.current_bytes;
    if before == 0 {
        return None;
    }
    let grown = now.current_bytes as f64 - before as f64;
    let shrunk = -grown - past.taken_pages as f64 * 4096.0;
    let (growth, shrinkage) = (grown / before as f64, shrunk / before as f64);
    if growth > profile.motion_limit {
        return Some(Guard::Expanding { share: growth });
    }
    (shrinkage > profile.motion_limit).then_some(Guard::Contracting { share: shrinkage })
}

/// Counters that cannot be true together.
fn contradiction(before: &Observation, now: &Observation) -> Option<&'static str> {
    let wall_us = now.at.saturating_sub(before.at).as_micros() as u64;
    let (b, n) = (&before.stat, &now.stat);
    // The kernel books a stall when it ends, so a period can show a little more than itself.
    if now.memory_some_us.saturating_sub(before.memory_some_us) > wall_us.saturating_mul(2) {
        return Some("memory.pressure grew by more than the time that passed");
    }
    if now.memory_some_us < before.memory_some_us || n.pgsteal < b.pgsteal || n.pgscan < b.pgscan {
        return Some("a counter went backwards");
    }
    if now.swap_bytes == 0 && n.zswapped > 1 << 20 {
        return Some("memory.swap.current is 0 while zswap holds pages");
    }
    (n.zswap > n.zswapped.saturating_mul(2).saturating_add(1 << 20))
        .then_some("zswap charges more than twice what it holds")
}

/// No container is made smaller than this: its profile's least size, or what the kernel protects.
pub fn floor_bytes(profile: &Profile, now: &Observation) -> u64 {
    profile.min_size_bytes.max(now.protected_bytes)
}

/// The first closed guard that concerns where memory could go and what of it could be taken.
/// `file_only` says that page cache can be taken alone.
pub fn no_target(
    profile: &Profile,
    now: &Observation,
    file_only: bool,
    scanned: f64,
) -> Option<Guard> {
    let floor_bytes = floor_bytes(profile, now);
    if now.current_bytes <= floor_bytes {
        return Some(Guard::Small { floor_bytes });
    }
    if let (Some(guard), false) = (anon_blocked(profile, now), file_only) {
        return Some(guard);
    }
    if scanned > profile.scan_limit {
        return Some(Guard::Scanning { per_page: scanned });
    }
    match now.idle {
        Idle::Measuring => Some(Guard::Ageing),
        Idle::Bytes(bytes) if bytes < 4096 => Some(Guard::NothingIdle),
        Idle::Bytes(_) | Idle::Unknown => None,
    }
}

/// Why anonymous memory must stay, whatever may happen to the page cache.
pub fn anon_blocked(profile: &Profile, now: &Observation) -> Option<Guard> {
    let room = &now.room;
    let free_bytes = room.swap_free_bytes;
    if room.swap_bytes == 0 || (free_bytes as f64) < profile.swap_reserve * room.swap_bytes as f64 {
        return Some(Guard::NoRoom { free_bytes });
    }
    if room.write_budget_bytes == Some(0) {
        return Some(Guard::WriteBudget);
    }
    room.pool_gains_nothing.then_some(Guard::NoGain)
}
