//! The load of AIM9's page_test and brk_test, which precedes the measurements in the paper.
//!
//! It ages the machine and is not reported: in simulated time a fault costs the same under every
//! allocator, so that its rates say nothing about placement.

use super::{Bench, DAEMONS};

/// Runs both for ten seconds each, one at a time.
pub(super) fn run(bench: &mut Bench<'_>) {
    let seconds = bench.preset.seconds(10);
    for kind in ["page_test", "brk_test"] {
        bench.run(kind, &[("daemon", DAEMONS), (kind, 1)], &[], seconds);
    }
}
