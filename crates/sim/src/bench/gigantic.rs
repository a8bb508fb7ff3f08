//! Pages of order 18, 1 GiB, on a machine of today: as many as there can be at one time, each a
//! range that is emptied and taken whole, for no free list holds such blocks.

use std::time::Duration;

use prairie_frames::Order;
use serde::Serialize;

use super::Bench;

/// The 1 GiB pages available in each of a benchmark's three situations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Gigantic {
    /// That would fill memory; 0 on machines that have no such pages.
    pub of: u64,
    /// The first time.
    pub first: u64,
    /// The second time.
    pub second: u64,
    /// The third time.
    pub third: u64,
}

/// Asks for as many as would fill memory, one after the other while everything else continues, and
/// gives them back: how many there were.
pub(super) fn ask(bench: &mut Bench<'_>) -> u64 {
    let mut found = 0;
    for _ in 0..wanted(bench) {
        if bench.is_cancelled() {
            break;
        }
        let attempt = bench.machine.attempt_gigantic();
        found += u64::from(attempt.is_some());
        // An unavailable range is recognized from counts at no cost, so it is not retried at once.
        bench.wait(attempt.unwrap_or_default().max(Duration::from_millis(100)));
    }
    bench.machine.free_gigantic(0);
    found
}

/// 1 GiB pages that would fill memory.
pub(super) fn wanted(bench: &Bench<'_>) -> u64 {
    let all = bench.scenario.machine.memory.frames() / Order::GIGANTIC.frames();
    if bench.preset.has_gigantic() { all } else { 0 }
}
