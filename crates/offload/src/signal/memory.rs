//! Memory pressure: the share of time in which some task waited for memory (TMO, §3.2).

use prairie_host::psi;

use super::term::{Signal, Source};
use crate::counter::Counter;
use crate::guard::{Guard, History};
use crate::observation::Observation;
use crate::profile::Profile;

/// `memory.pressure`, `some`, `total=`, in microseconds.
pub const SOME: Counter = Counter::new(0);

/// `memory.pressure`, `full`, `total=`, in microseconds.
pub const FULL: Counter = Counter::new(1);

/// The signal.
pub const SIGNAL: Signal = Signal {
    name: "memory",
    help: "Share of the last period",
    source: Some(Source {
        file: "memory.pressure",
        is_required: true,
        counters: &[(SOME, "memory_some_us"), (FULL, "memory_full_us")],
        parse: |file, text, counters| {
            let pressure = psi::parse(file, text)?;
            counters[SOME] = pressure.some.total_us;
            counters[FULL] = pressure.full.map_or(0, |full| full.total_us);
            Ok(())
        },
    }),
    share: |period| period.share_of_time(SOME),
    guard: Some(full_stall),
};

/// Blocks reclaim while all tasks are stalled for more than the profile's share of the period.
fn full_stall(profile: &Profile, history: &History, now: &Observation) -> Option<Guard> {
    let before = &history.before;
    let passed = now.at.saturating_sub(before.at);
    let share = now.grown(before, FULL) as f64 / (passed.as_secs_f64() * 1e6);
    (share > profile.full_limit).then_some(Guard::FullStall { share })
}
