//! HugeTLB-Capability: how far the pool of huge pages grows, during compiles, after them, and after
//! a file of the size of memory was written and deleted.

use serde::Serialize;

use super::gigantic::{self, Gigantic};
use super::{Bench, DAEMONS};
use crate::machine::Effort;

/// The results, in huge pages.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct HugeTlb {
    /// Huge pages that would fill memory.
    pub of: u64,
    /// While kernels are compiled.
    pub during_compile: u64,
    /// After the compiles were stopped.
    pub at_rest_before_dd: u64,
    /// After a file of the size of memory was written and deleted.
    pub at_rest_after_dd: u64,
    /// The pool of 1 GiB pages at the same times, each time right after that of huge pages.
    pub gigantic: Gigantic,
}

/// Grows the pool until an attempt fails, as writing a large number to `nr_hugepages` does, and
/// shrinks it to nothing again.
fn resize(bench: &mut Bench<'_>) -> u64 {
    let order = bench.order();
    for _ in 0..bench.huge_pages() {
        if bench.machine.allocate_huge(order, Effort::KswapdOnly).zone.is_none() {
            break;
        }
    }
    bench.machine.free_huge()
}

/// Runs it.
pub(super) fn run(bench: &mut Bench<'_>) -> HugeTlb {
    let jobs = bench.jobs;
    let compile = [("daemon", DAEMONS), ("cc1", jobs), ("make", jobs)];
    bench.run("compiles", &compile, &[], bench.preset.seconds(120));
    let mut giant = Gigantic { of: gigantic::wanted(bench), ..Gigantic::default() };
    let during_compile = resize(bench);
    giant.first = gigantic::ask(bench);
    bench.run("rest", &[("daemon", DAEMONS)], &[], bench.preset.seconds(30));
    let at_rest_before_dd = resize(bench);
    giant.second = gigantic::ask(bench);
    bench.run("dd", &[("daemon", DAEMONS), ("dd", 1)], &[], bench.preset.seconds(60));
    bench.run("rest after dd", &[("daemon", DAEMONS)], &[], bench.preset.seconds(10));
    let at_rest_after_dd = resize(bench);
    giant.third = gigantic::ask(bench);
    HugeTlb {
        of: bench.huge_pages(),
        during_compile,
        at_rest_before_dd,
        at_rest_after_dd,
        gigantic: giant,
    }
}
