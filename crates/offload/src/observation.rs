//! The input of a controller.

use std::time::Duration;

use prairie_host::cgroup::MemoryStat;
use serde::Serialize;

use crate::counter::{Counter, Counters};
use crate::objective::Standing;

/// The state of a container at one instant. Counters only grow; controllers use their growth since
/// the last observation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Observation {
    /// When, by a clock that counts time asleep as no time (`CLOCK_MONOTONIC`).
    pub at: Duration,
    /// `memory.current`, in bytes.
    pub current_bytes: u64,
    /// What `memory.min` and `memory.low` protect, in bytes: the kernel would not, or not first,
    /// reclaim it.
    pub protected_bytes: u64,
    /// `memory.stat`.
    pub stat: MemoryStat,
    /// Counters of the signals: totals of stall time.
    pub counters: Counters,
    /// `memory.swap.current`, in bytes.
    pub swap_bytes: u64,
    /// Where offloaded memory could go.
    pub room: Room,
    /// Known idle memory.
    pub idle: Idle,
    /// A PSI trigger fired since the last observation.
    pub burst: bool,
    /// What the host and the service ask of it.
    pub orders: Orders,
}

/// What is asked of a container from outside of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Orders {
    /// The objective of its class.
    pub standing: Standing,
    /// It leaves scarce room to classes of lower priority.
    pub yields: bool,
    /// How long nothing is offloaded because of an emergency of the host.
    pub emergency: Option<Duration>,
}

impl Observation {
    /// Growth of a counter since an earlier observation; 0 where it went backwards.
    pub fn grown(&self, before: &Observation, counter: Counter) -> u64 {
        self.counters[counter].saturating_sub(before.counters[counter])
    }
}

/// Room for offloaded memory, of the container and all its ancestors, and of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Room {
    /// Swap that the container could have in all, in bytes: the least of the host's and of every
    /// `memory.swap.max` above it.
    pub swap_bytes: u64,
    /// The free part.
    pub swap_free_bytes: u64,
    /// Bytes that may be written to swap devices now; `None` without a limit.
    pub write_budget_bytes: Option<u64>,
    /// The share of requests that is withheld to spare swap devices, 0 to 1.
    pub write_scarcity: f64,
    /// The pool gains the host nothing: it takes (almost) as much as the pages in it did.
    pub pool_gains_nothing: bool,
}

/// Knowledge of the age of a container's pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Idle {
    /// The host cannot measure ages. The order of the kernel's lists is used.
    #[default]
    Unknown,
    /// Ages are being measured.
    Measuring,
    /// Bytes that have not been touched for the profile's `min_age`.
    Bytes(u64),
}
