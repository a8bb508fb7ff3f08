//! What is compared of a run and its simulation.

/// Over which pressure and rates are taken: the last hour.
pub const LAST_S: f64 = 3_600.0;

/// A value that both worlds have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Memory saved at the end, as a share.
    pub saved: f64,
    /// The most that was saved at any time.
    pub most_saved: f64,
    /// Anonymous memory and page cache that is away at the end, as shares of the container.
    pub away: [f64; 2],
    /// Memory and IO pressure over the last hour.
    pub pressure: [f64; 2],
    /// Major faults a second over the last hour.
    pub returns_a_second: f64,
    /// Swap-ins a second over the last hour.
    pub swap_ins_a_second: f64,
    /// Bytes swapped out at the end.
    pub swapped_bytes: f64,
    /// The lowest rate of requests.
    pub least_rate: f64,
    /// The mean rate of requests over the last hour.
    pub rate: f64,
}
