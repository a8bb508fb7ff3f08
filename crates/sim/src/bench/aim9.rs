//! AIM9's page_test and brk_test: how fast pages are had and given back.
//!
//! In simulated time, where all systems pay the same for a fault: a difference comes from reclaim
//! alone. What a placement costs in real time is measured by `bench/placement.sh`.

use serde::Serialize;

use super::{Bench, DAEMONS};

/// What came of it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Aim9 {
    /// Pages allocated and given back in a second.
    pub page_test: f64,
    /// Calls of brk in a second, 64 KiB each.
    pub brk_test: f64,
}

/// Pages of one round of page_test, as `common.toml` has it.
const PAGES: f64 = 256.0;

/// Runs both for ten seconds each, one at a time.
pub(super) fn run(bench: &mut Bench<'_>) -> Aim9 {
    let seconds = bench.preset.seconds(10);
    let mut rate = |kind: &str| {
        let before = bench.machine.ended(kind);
        bench.run(kind, &[("daemon", DAEMONS), (kind, 1)], &[], seconds);
        (bench.machine.ended(kind) - before) as f64 / seconds as f64
    };
    Aim9 { page_test: rate("page_test") * PAGES, brk_test: rate("brk_test") }
}
