//! Highalloc-Stress: as many huge pages as there are, forced by a module's `alloc_pages`, twice
//! under load and once at rest.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::gigantic::{self, Gigantic};
use super::{Bench, DAEMONS};
use crate::machine::{Attempt, Effort, Obstacles};

/// The results.
#[derive(Clone, Debug, Serialize)]
pub struct Highalloc {
    /// The order of the huge page.
    pub order: u8,
    /// Under load, the first time.
    pub load_1: Pass,
    /// Under load, the second time.
    pub load_2: Pass,
    /// At rest.
    pub rest: Pass,
    /// 1 GiB pages, after each of the passes.
    pub gigantic: Gigantic,
}

/// One pass: every attempt.
#[derive(Clone, Debug, Serialize)]
pub struct Pass {
    /// Attempts that got a page.
    pub success: u64,
    /// Attempts that did not.
    pub failed: u64,
    /// Successes by zone.
    pub by_zone: BTreeMap<&'static str, u64>,
    /// At the end, all blocks of the size by their contents, by zone.
    pub obstacles: BTreeMap<&'static str, Obstacles>,
    /// The mean F_i at failures: towards 1 for fragmentation, towards 0 for lack of memory.
    pub mean_fragmentation: Option<f64>,
    /// All attempts, in order.
    pub attempts: Vec<Attempt>,
}

impl Pass {
    /// Successes in percent of attempts, rounded down as the paper prints them.
    pub fn percent(&self) -> u64 {
        self.success * 100 / (self.success + self.failed).max(1)
    }

    /// F_u at the first attempt and at the last.
    pub fn unusable(&self) -> Option<(f64, f64)> {
        Some((self.attempts.first()?.unusable, self.attempts.last()?.unusable))
    }
}

/// The mean F_i at failures.
fn mean_fragmentation(attempts: &[Attempt]) -> Option<f64> {
    let at_failures: Vec<f64> = attempts.iter().filter_map(|a| a.fragmentation).collect();
    let mean = at_failures.iter().sum::<f64>() / at_failures.len() as f64;
    mean.is_finite().then_some(mean)
}

/// The module asks for 16 MiB a second.
const BYTES_PER_SECOND: u64 = 16 << 20;

/// Asks for each huge page of memory once, and gives all back.
fn pass(bench: &mut Bench<'_>) -> Pass {
    let order = bench.order();
    let pause = Duration::from_nanos(order.bytes() * 1_000_000_000 / BYTES_PER_SECOND);
    let mut pass = Pass {
        success: 0,
        failed: 0,
        by_zone: BTreeMap::new(),
        obstacles: BTreeMap::new(),
        mean_fragmentation: None,
        attempts: Vec::new(),
    };
    for _ in 0..bench.huge_pages() {
        if bench.is_cancelled() {
            break;
        }
        let attempt = bench.machine.allocate_huge(order, Effort::Direct);
        match attempt.zone {
            Some(zone) => {
                pass.success += 1;
                *pass.by_zone.entry(zone.name()).or_default() += 1;
            }
            None => pass.failed += 1,
        }
        pass.attempts.push(attempt);
        bench.wait(pause.max(Duration::from_nanos(attempt.took_ns)));
    }
    pass.mean_fragmentation = mean_fragmentation(&pass.attempts);
    pass.obstacles = bench.machine.obstacles(order).into_iter().collect();
    bench.machine.free_huge();
    pass
}

/// Runs it.
pub(super) fn run(bench: &mut Bench<'_>) -> Highalloc {
    let jobs = bench.jobs;
    let load = [("daemon", DAEMONS), ("cc1", jobs), ("make", jobs), ("updatedb", 1)];
    bench.run("warm-up", &load, &[], bench.preset.seconds(300));
    let mut giant = Gigantic { of: gigantic::wanted(bench), ..Gigantic::default() };
    let load_1 = pass(bench);
    giant.first = gigantic::ask(bench);
    bench.wait(Duration::from_secs(bench.preset.seconds(30)));
    let load_2 = pass(bench);
    giant.second = gigantic::ask(bench);
    bench.run("rest", &[("daemon", DAEMONS)], &[], bench.preset.seconds(60));
    let rest = pass(bench);
    giant.third = gigantic::ask(bench);
    Highalloc { order: bench.order().get(), load_1, load_2, rest, gigantic: giant }
}
