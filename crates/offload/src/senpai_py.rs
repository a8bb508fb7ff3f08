//! The law of `senpai.py`, for comparison: one limit that is lowered while stalls are short and
//! raised when they are long.
//!
//! Meta's first public agent moves `memory.high` itself. It looks once a second: a stall above
//! its allowance raises the limit at once by up to the whole of it; otherwise every sixth second
//! lowers it by up to 1 %. Facts from its source; this implementation is our own.

use serde::Serialize;

/// Its parameters and state.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SenpaiPy {
    /// The limit is never lower, in bytes.
    pub min_bytes: u64,
    /// The limit is never higher, in bytes.
    pub max_bytes: u64,
    /// Ticks (seconds) between two steps down.
    pub interval_ticks: u32,
    /// Stall that is allowed within an interval, in microseconds.
    pub pressure_us: u64,
    /// Largest step down, as a share of the limit.
    pub max_probe: f64,
    /// Largest step up, as a share of the limit.
    pub max_backoff: f64,
    /// How much below the allowance the stall must be for the largest step down.
    pub coeff_probe: f64,
    /// How much above it for the largest step up.
    pub coeff_backoff: f64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct State {
    limit_bytes: u64,
    stall_us: u64,
    ticks: u32,
}

impl SenpaiPy {
    /// Starts with the container's present size as its limit.
    pub fn new(current_bytes: u64) -> SenpaiPy {
        let mut law = SenpaiPy {
            min_bytes: 100 << 20,
            max_bytes: 100 << 30,
            interval_ticks: 6,
            pressure_us: 10_000,
            max_probe: 0.01,
            max_backoff: 1.0,
            coeff_probe: 10.0,
            coeff_backoff: 20.0,
            state: State { limit_bytes: 0, stall_us: 0, ticks: 6 },
        };
        law.state.limit_bytes = law.clamped(current_bytes as f64);
        law
    }

    /// The current limit, in bytes.
    pub fn limit_bytes(&self) -> u64 {
        self.state.limit_bytes
    }

    /// One second passed in which the stall grew by `stall_us`; the new limit where it moves.
    pub fn tick(&mut self, stall_us: u64) -> Option<u64> {
        self.state.stall_us = self.state.stall_us.saturating_add(stall_us);
        let stall = self.state.stall_us as f64;
        let allowed = self.pressure_us as f64;
        if self.state.stall_us > self.pressure_us {
            let error = stall / allowed / self.coeff_backoff;
            return Some(self.step((error * error * self.max_backoff).min(self.max_backoff)));
        }
        self.state.ticks = self.state.ticks.saturating_sub(1);
        if self.state.ticks > 0 {
            return None;
        }
        let error = allowed / stall.max(1.0) / self.coeff_probe;
        Some(self.step(-(error * error * self.max_probe).min(self.max_probe)))
    }

    fn step(&mut self, share: f64) -> u64 {
        let limit_bytes = self.clamped(self.state.limit_bytes as f64 * (1.0 + share));
        self.state = State { limit_bytes, stall_us: 0, ticks: self.interval_ticks };
        limit_bytes
    }

    fn clamped(&self, bytes: f64) -> u64 {
        (bytes as u64).clamp(self.min_bytes, self.max_bytes) & !4095
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_quiet_container_loses_one_per_cent_every_six_seconds() {
        let mut law = SenpaiPy::new(400 * MIB);
        let moves: Vec<_> = (0..12).filter_map(|_| law.tick(0)).collect();
        assert_eq!(moves, [396 * MIB, (396 * MIB * 99 / 100) & !4095]);
    }

    #[test]
    fn a_long_stall_doubles_the_limit_and_blinds_it_for_minutes() {
        // As seen: 449 MiB, a stall of 253 ms in the first second after the limit bit.
        let mut law = SenpaiPy::new(449 * MIB);
        assert_eq!(law.tick(253_000), Some(898 * MIB));
        let periods = (1..).find(|_| (0..6).filter_map(|_| law.tick(0)).last() < Some(449 * MIB));
        assert!((69..=72).contains(&periods.unwrap()), "{periods:?} periods of 6 s");
    }

    #[test]
    fn steps_follow_the_square_of_the_error() {
        // 100 ms: ten times the allowance, half of the coefficient: a quarter up.
        assert_eq!(SenpaiPy::new(400 * MIB).tick(100_000), Some(500 * MIB));
        // 2 ms: a fifth of the allowance; (5 / 10)^2 of 1 % down.
        let mut law = SenpaiPy::new(400 * MIB);
        let step = (0..6).filter_map(|_| law.tick(333)).last().unwrap();
        assert!(step.abs_diff(399 * MIB) < MIB / 100, "{step}");
        assert_eq!(SenpaiPy::new(MIB).limit_bytes(), 100 * MIB, "never below its minimum");
    }
}
