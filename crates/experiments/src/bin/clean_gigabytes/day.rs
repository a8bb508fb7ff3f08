//! A day of each workload under each system.

use std::error::Error;

use prairie_fleet::Failures;
use prairie_fleet::study::Study;
use prairie_frames::Layout;
use prairie_frames::placement::Placement;
use prairie_frames::placement::superpageblocks::{Config, Superpageblocks};

use crate::measure::{GIB, Memory, PAGEBLOCK, cpu_seconds, head};
use crate::systems::{SYSTEMS, Visit, visit};

/// Seconds between two looks.
const EVERY: f64 = 600.0;

/// What came of a day.
#[derive(Clone, Debug, Default)]
pub struct Day {
    end: Memory,
    /// Clean gigabytes after an hour, or at the end of a shorter life.
    after_an_hour: u64,
    least_clean: u64,
    peak_unmovable: u64,
    peak_tainted: u64,
    failures: Failures,
    allocations: u64,
    counters: Vec<(&'static str, u64)>,
    cpu_seconds: f64,
}

impl Day {
    pub fn live<P: Placement>(study: &Study, server: u64, layout: &Layout, placement: P) -> Day {
        let mut day = Day { least_clean: u64::MAX, ..Day::default() };
        let begun = cpu_seconds();
        study.watch(server, layout, placement, study.days * 86_400.0, EVERY, |look| {
            let memory = Memory::of(look.table);
            day.end = memory;
            if look.seconds <= 3600.0 {
                day.after_an_hour = memory.clean_gigabytes;
            }
            day.least_clean = day.least_clean.min(memory.clean_gigabytes);
            day.peak_unmovable = day.peak_unmovable.max(memory.unmovable);
            day.peak_tainted = day.peak_tainted.max(memory.tainted_blocks);
            (day.failures, day.allocations) = (look.failures, look.allocations);
            let counters = look.placement.counters();
            day.counters = counters.iter().map(|counter| (counter.name, counter.value)).collect();
        });
        day.cpu_seconds = cpu_seconds() - begun;
        day
    }

    pub fn counter(&self, name: &str) -> u64 {
        self.counters.iter().find(|(known, _)| *known == name).map_or(0, |&(_, value)| value)
    }

    /// Tainted 2 MiB blocks at the most, as a multiple of those that the most unmovable memory
    /// would fill if it were packed.
    fn over_the_bound(&self) -> f64 {
        self.peak_tainted as f64 / self.peak_unmovable.div_ceil(PAGEBLOCK).max(1) as f64
    }

    /// Clean gigabytes at the end as a share of those that the most unmovable memory would leave,
    /// were it packed.
    fn share_outside(&self) -> f64 {
        let outside =
            self.end.gigabytes - self.peak_unmovable.div_ceil(GIB).min(self.end.gigabytes);
        self.end.clean_gigabytes as f64 * 100.0 / outside.max(1) as f64
    }
}

struct Live<'a> {
    study: &'a Study,
    server: u64,
    layout: &'a Layout,
}

impl Visit for Live<'_> {
    type Output = Day;

    fn visit<P: Placement>(self, placement: P) -> Day {
        Day::live(self.study, self.server, self.layout, placement)
    }
}

/// The table of systems, for each workload.
pub fn print(study: &Study) -> Result<(), Box<dyn Error>> {
    let layout = study.layout(0)?;
    for (server, workload) in (0..).zip(&study.workloads) {
        println!("\n### {} ({} h)\n", workload.name, study.days * 24.0);
        head(&[
            "system",
            "clean GiB after 1 h",
            "at the end",
            "least",
            "of what packing leaves",
            "tainted 2 MiB blocks",
            "times the bound",
            "kernel requests failed",
            "more than Linux",
            "huge pages failed",
            "pages moved",
            "ns an allocation",
        ]);
        let mut linux_failed = None;
        for name in SYSTEMS {
            let day = visit(name, &layout, Live { study, server, layout: &layout });
            let failed = day.failures.kernel;
            let linux = *linux_failed.get_or_insert(failed);
            println!(
                "| {name} | {} of {} | {} | {} | {:.0} % | {} | {:.2} | {failed} | {} | {} | {} | {:.0} |",
                day.after_an_hour,
                day.end.gigabytes,
                day.end.clean_gigabytes,
                day.least_clean,
                day.share_outside(),
                day.peak_tainted,
                day.over_the_bound(),
                failed.saturating_sub(linux),
                day.failures.huge,
                day.counter("pages_moved"),
                day.cpu_seconds * 1e9 / day.allocations.max(1) as f64,
            );
            if name == "contiguitas" {
                let steps = day.counter("growths") + day.counter("shrinks");
                eprintln!(
                    "{}: contiguitas moved its border over {:.2} GiB in all, {:.0} pages moved a GiB",
                    workload.name,
                    steps as f64 / 512.0,
                    day.counter("pages_moved") as f64 * 512.0 / steps.max(1) as f64
                );
            }
        }
    }
    Ok(())
}

/// Superpageblocks with more or less tainted memory kept ready for the kernel.
pub fn print_reserves(study: &Study) -> Result<(), Box<dyn Error>> {
    let reserve = |defrag_until: u32| Config {
        defrag_below: defrag_until.saturating_sub(1),
        defrag_until,
        defrag_pageblocks: if defrag_until == 0 { 0 } else { 16 },
        evacuate_first: false,
    };
    let variants = [
        ("no worker", reserve(0)),
        ("2 pageblocks (the series)", reserve(2)),
        ("4", reserve(4)),
        ("16 (its later 3 %)", reserve(16)),
        ("no worker, requests wait", Config { evacuate_first: true, ..reserve(0) }),
        ("2, and requests wait", Config { evacuate_first: true, ..reserve(2) }),
    ];
    let layout = study.layout(0)?;
    for (server, workload) in (0..).zip(&study.workloads) {
        println!("\n### What is kept ready in tainted gigabytes: {}\n", workload.name);
        head(&[
            "reserve in each tainted gigabyte",
            "clean GiB at the end",
            "taintings",
            "for want of a large block",
            "requests that waited",
            "pages moved",
            "kernel requests failed",
        ]);
        for (name, config) in variants {
            let placement = Superpageblocks::new(&layout, config);
            let day = Day::live(study, server, &layout, placement);
            println!(
                "| {name} | {} | {} | {} | {} | {} | {} |",
                day.end.clean_gigabytes,
                day.counter("taintings"),
                day.counter("taintings_for_order"),
                day.counter("waited"),
                day.counter("pages_moved"),
                day.failures.kernel,
            );
        }
    }
    Ok(())
}
