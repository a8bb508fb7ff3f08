//! Stalls as Prometheus histograms: plain values, for an exporter to write in its own form.

use prairie_frames::Order;

use super::{Cause, Stalls, Tally};

/// The upper bounds of the buckets, in seconds; the last one, infinity, is implied.
///
/// Half decades from 10 microseconds, which no program notices, to 10 seconds, which every program
/// does: a quantile is off by a factor of 3 at most.
pub const BUCKETS_SECONDS: [f64; 13] =
    [1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0, 10.0];

/// One histogram of the family `prairie_stall_seconds`: its labels and samples.
#[derive(Clone, Debug, PartialEq)]
pub struct StallHistogram {
    /// The label `cause`.
    pub cause: Cause,
    /// The label `order`.
    pub order: Order,
    /// Stalls of at most each bound of [`BUCKETS_SECONDS`], cumulative; `count` is the bucket
    /// `+Inf`.
    pub buckets: [u64; BUCKETS_SECONDS.len()],
    /// The sum of all durations in seconds.
    pub sum_seconds: f64,
    /// Stalls.
    pub count: u64,
}

impl StallHistogram {
    /// The name of the family.
    pub const FAMILY: &'static str = "prairie_stall_seconds";
    /// Its help text.
    pub const HELP: &'static str = "Time that tasks waited for memory, by cause and order.";
}

impl Stalls {
    /// The histograms by cause and order, of everything so far: counters that never fall. There is
    /// one for each pair that has occurred, at most 77 on a machine with 11 orders.
    pub fn metrics(&self) -> Vec<StallHistogram> {
        let one = |(&(cause, order), tally): (&(Cause, Order), &Tally)| StallHistogram {
            cause,
            order,
            buckets: tally.buckets(),
            sum_seconds: tally.total_ns() as f64 / 1e9,
            count: tally.count(),
        };
        self.by_cause_and_order().iter().map(one).collect()
    }
}

impl Tally {
    /// Stalls of at most each bound of [`BUCKETS_SECONDS`], cumulative.
    pub fn buckets(&self) -> [u64; BUCKETS_SECONDS.len()] {
        BUCKETS_SECONDS.map(|bound| self.at_most((bound * 1e9).round() as u64))
    }
}
