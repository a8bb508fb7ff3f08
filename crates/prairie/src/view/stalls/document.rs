//! The document of `prairie stalls --json`.

use std::collections::BTreeMap;

use prairie_frames::Order;
use prairie_host::advice::Advice;
use prairie_trace::stalls::{
    BUCKETS_SECONDS, Cause, HugePages, Mismatches, ProcessStalls, Stalls, Tally,
};
use serde::Serialize;

use super::Observation;
use crate::output::Header;

/// What `--json` prints.
#[derive(Serialize)]
pub struct Document<'a> {
    #[serde(flatten)]
    header: Header,
    /// Nanoseconds observed.
    observed_ns: u64,
    lost_events: u64,
    /// Tracepoints that the kernel does not have.
    missing_tracepoints: Vec<&'static str>,
    mismatches: Mismatches,
    /// All stalls for which a task waited.
    waited: Distribution,
    /// Requests for huge pages.
    huge_pages: HugePages,
    by_cause_and_order: Vec<CauseDocument>,
    processes: Vec<ProcessDocument<'a>>,
    cgroups: Vec<CgroupDocument<'a>>,
    worst: Vec<WorstDocument<'a>>,
    advice: &'a [Advice],
}

/// Durations.
#[derive(Serialize)]
struct Distribution {
    stalls: u64,
    total_ns: u64,
    p50_ns: u64,
    p90_ns: u64,
    p99_ns: u64,
    max_ns: u64,
}

#[derive(Serialize)]
struct CauseDocument {
    cause: Cause,
    order: u8,
    /// Whether it is background work that no task waits for.
    background: bool,
    #[serde(flatten)]
    durations: Distribution,
    /// Cumulative: stalls of at most each bound.
    histogram: Vec<BucketDocument>,
}

#[derive(Serialize)]
struct BucketDocument {
    at_most_seconds: f64,
    stalls: u64,
}

#[derive(Serialize)]
struct ProcessDocument<'a> {
    name: &'a str,
    /// Processes of this name that stalled.
    processes: u64,
    #[serde(flatten)]
    durations: Distribution,
    waited_ns: u64,
    /// At least one thread waited.
    stalled_ns: u64,
    ran_ns: u64,
    /// `stalled_ns / ran_ns`.
    share: f64,
    ns_by_cause: BTreeMap<&'static str, u64>,
    huge_pages: HugePages,
    /// As of causes.
    histogram: Vec<BucketDocument>,
}

#[derive(Serialize)]
struct CgroupDocument<'a> {
    path: &'a str,
    #[serde(flatten)]
    durations: Distribution,
    /// As of causes.
    histogram: Vec<BucketDocument>,
}

#[derive(Serialize)]
struct WorstDocument<'a> {
    pid: i32,
    thread: i32,
    process: &'a str,
    cause: Cause,
    order: u8,
    gfp_flags: u32,
    /// Since the observation began.
    begin_ns: u64,
    duration_ns: u64,
    /// The call chain, outermost function first; empty without --stacks.
    stack: Vec<&'a str>,
}

impl Distribution {
    fn of(tally: &Tally) -> Distribution {
        Distribution {
            stalls: tally.count(),
            total_ns: tally.total_ns(),
            p50_ns: tally.quantile_ns(0.5),
            p90_ns: tally.quantile_ns(0.9),
            p99_ns: tally.quantile_ns(0.99),
            max_ns: tally.max_ns(),
        }
    }
}

/// The document of an observation.
pub fn document(observation: &Observation) -> Document<'_> {
    let stalls = &observation.stalls;
    let began_ns = stalls.began_ns();
    let worst = stalls.worst().map(|(stall, process, stack)| WorstDocument {
        pid: stall.pid,
        thread: stall.task,
        process,
        cause: stall.cause,
        order: stall.order.get(),
        gfp_flags: stall.gfp.0,
        begin_ns: stall.begin_ns.saturating_sub(began_ns),
        duration_ns: stall.own_ns(),
        stack: stack.split(';').filter(|function| !function.is_empty()).collect(),
    });
    let cgroups = stalls.by_cgroup().iter();
    Document {
        header: Header::new("prairie-stalls", 1),
        observed_ns: stalls.observed_ns(),
        lost_events: stalls.lost_events(),
        missing_tracepoints: observation.missing.iter().map(|point| point.path()).collect(),
        mismatches: stalls.mismatches(),
        waited: Distribution::of(&stalls.waited()),
        huge_pages: stalls.huge_pages(),
        by_cause_and_order: causes(stalls),
        processes: stalls
            .by_process()
            .iter()
            .map(|(name, process)| of_process(name, process))
            .collect(),
        cgroups: cgroups.map(|(path, tally)| of_cgroup(path, tally)).collect(),
        worst: worst.collect(),
        advice: &observation.advice,
    }
}

fn causes(stalls: &Stalls) -> Vec<CauseDocument> {
    let one = |(&(cause, order), tally): (&(Cause, Order), &Tally)| CauseDocument {
        cause,
        order: order.get(),
        background: cause.is_background(),
        durations: Distribution::of(tally),
        histogram: histogram(tally),
    };
    stalls.by_cause_and_order().iter().map(one).collect()
}

/// The stalls of at most each bound of [`BUCKETS_SECONDS`].
fn histogram(tally: &Tally) -> Vec<BucketDocument> {
    let bucket = |(at_most_seconds, stalls)| BucketDocument { at_most_seconds, stalls };
    BUCKETS_SECONDS.into_iter().zip(tally.buckets()).map(bucket).collect()
}

fn of_cgroup<'a>(path: &'a str, tally: &Tally) -> CgroupDocument<'a> {
    CgroupDocument { path, durations: Distribution::of(tally), histogram: histogram(tally) }
}

fn of_process<'a>(name: &'a str, process: &ProcessStalls) -> ProcessDocument<'a> {
    let by_cause = Cause::ALL.iter().map(|cause| cause.name()).zip(process.ns_by_cause);
    ProcessDocument {
        name,
        processes: process.processes,
        durations: Distribution::of(&process.all),
        waited_ns: process.waited_ns(),
        stalled_ns: process.stalled_ns,
        ran_ns: process.ran_ns,
        share: process.share(),
        ns_by_cause: by_cause.filter(|(_, ns)| *ns > 0).collect(),
        huge_pages: process.huge_pages,
        histogram: histogram(&process.all),
    }
}
