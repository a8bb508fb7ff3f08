//! The parts of a signal.

use std::time::Duration;

use prairie_host::ParseError;

use crate::counter::{Counter, Counters};
use crate::guard::{Guard, History};
use crate::observation::Observation;
use crate::profile::Profile;

/// Decides whether a guard blocks reclaim, from the present and past observations.
pub type Check = fn(&Profile, &History, &Observation) -> Option<Guard>;

/// One term of pressure.
#[derive(Clone, Copy, Debug)]
pub struct Signal {
    /// Its name in logs. Metrics and time series append `_pressure`.
    pub name: &'static str,
    /// Its help text in metrics.
    pub help: &'static str,
    /// The file that holds its counters; none where `memory.stat`, which is always read, suffices.
    pub source: Option<Source>,
    /// The pressure of a period, as a share of its wall time (1.0 is all of it).
    pub share: fn(&Period<'_>) -> f64,
    /// Blocks reclaim because of this signal alone, whatever its share of pressure.
    pub guard: Option<Check>,
}

/// A file of a cgroup with the counters of a signal.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// The file in the cgroup's directory.
    pub file: &'static str,
    /// A cgroup without the file is an error. Otherwise its counters stay 0.
    pub is_required: bool,
    /// The counters and their columns in time series.
    pub counters: &'static [(Counter, &'static str)],
    /// Reads the counters from the text of the file.
    pub parse: fn(&'static str, &str, &mut Counters) -> Result<(), ParseError>,
}

impl Signal {
    /// The counters that the signal reads, with their columns in time series.
    pub fn counters(&self) -> &'static [(Counter, &'static str)] {
        self.source.map_or(&[], |source| source.counters)
    }
}

/// Two observations and what a share of pressure is computed from.
#[derive(Clone, Copy, Debug)]
pub struct Period<'a> {
    /// The first observation.
    pub before: &'a Observation,
    /// The second.
    pub now: &'a Observation,
    /// The time that it takes to fault in one offloaded page.
    pub return_cost: Duration,
}

impl Period<'_> {
    /// Wall time between the observations, in microseconds; 0 where the clock went backwards.
    pub fn wall_us(&self) -> f64 {
        self.now.at.saturating_sub(self.before.at).as_secs_f64() * 1e6
    }

    /// Growth of a counter of microseconds, as a share of the wall time.
    ///
    /// A counter that went backwards (another cgroup of the same name) counts as no growth.
    pub fn share_of_time(&self, counter: Counter) -> f64 {
        self.now.grown(self.before, counter) as f64 / self.wall_us()
    }
}
