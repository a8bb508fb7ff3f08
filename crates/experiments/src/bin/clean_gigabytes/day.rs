//! A day of each workload under each system.

use std::error::Error;

use prairie_fleet::Failures;
use prairie_fleet::study::Study;
use prairie_frames::Layout;
use prairie_frames::placement::Placement;
use prairie_frames::placement::superpageblocks::{Config, Superpageblocks};

use experiments::document::{Document, spread};

use crate::measure::{GIB, Memory, PAGEBLOCK};
use crate::systems::{ALLOCATORS, build};

/// Seconds between two looks.
const EVERY: f64 = 600.0;

/// One day of a server.
#[derive(Clone, Debug, Default)]
pub struct Day {
    end: Memory,
    /// Clean gigabytes after an hour, or at the end of a shorter life.
    after_an_hour: u64,
    least_clean: u64,
    peak_unmovable: u64,
    peak_tainted: u64,
    failures: Failures,
    counters: Vec<(&'static str, u64)>,
}

impl Day {
    pub fn live<P: Placement>(study: &Study, server: u64, layout: &Layout, placement: P) -> Day {
        let mut day = Day { least_clean: u64::MAX, ..Day::default() };
        study.watch(server, layout, placement, study.days * 86_400.0, EVERY, |look| {
            let memory = Memory::of(look.table);
            day.end = memory;
            if look.seconds <= 3600.0 {
                day.after_an_hour = memory.clean_gigabytes;
            }
            day.least_clean = day.least_clean.min(memory.clean_gigabytes);
            day.peak_unmovable = day.peak_unmovable.max(memory.unmovable);
            day.peak_tainted = day.peak_tainted.max(memory.tainted_blocks);
            day.failures = look.failures;
            let counters = look.placement.counters();
            day.counters = counters.iter().map(|counter| (counter.name, counter.value)).collect();
        });
        day
    }

    /// Clean gigabytes at the end.
    pub fn clean_gigabytes(&self) -> u64 {
        self.end.clean_gigabytes
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

/// Server `server` of a study under an allocator, for each seed from 1 to `seeds`.
pub fn days(
    study: &Study,
    seeds: u64,
    server: u64,
    name: &str,
) -> Result<Vec<Day>, Box<dyn Error>> {
    let layout = study.layout(0)?;
    let one = |seed| {
        let study = &Study { seed, ..study.clone() };
        Day::live(study, server, &layout, build(name, &layout))
    };
    Ok((1..=seeds).map(one).collect())
}

/// Clean gigabytes at the end, one number for each seed.
pub fn clean_at_end(days: &[Day]) -> String {
    let clean: Vec<String> = days.iter().map(|day| day.clean_gigabytes().to_string()).collect();
    clean.join(", ")
}

/// Each workload under each allocator.
pub fn measure(study: &Study, seeds: u64) -> Result<Document, Box<dyn Error>> {
    let columns = [
        "workload",
        "allocator",
        "clean GiB after 1 h",
        "at the end",
        "share of the possible, %",
        "polluted 2 MiB blocks, times the fewest possible",
        "kernel requests failed",
        "huge page requests failed",
        "pages moved",
    ];
    let mut document = Document::new("clean-day", &columns, rounds(seeds));
    document.note(memory_note(study));
    for (server, workload) in (0..).zip(&study.workloads) {
        for name in ALLOCATORS {
            let days = days(study, seeds, server, name)?;
            let of = |value: fn(&Day) -> f64| spread(&days.iter().map(value).collect::<Vec<_>>());
            let after: Vec<String> = days.iter().map(|day| day.after_an_hour.to_string()).collect();
            document.row(
                workload.name.clone(),
                [
                    name.to_owned(),
                    after.join(", "),
                    clean_at_end(&days),
                    of(Day::share_outside),
                    of(Day::over_the_bound),
                    of(|day| day.failures.kernel as f64),
                    of(|day| day.failures.huge as f64),
                    of(|day| day.counter("pages_moved") as f64),
                ],
            );
        }
    }
    Ok(document)
}

/// How often a table was measured.
pub fn rounds(seeds: u64) -> String {
    match seeds {
        1 => "1".to_owned(),
        seeds => format!("{seeds} seeds; one number for each, or mean ± standard deviation"),
    }
}

/// The size and the life of the servers.
pub fn memory_note(study: &Study) -> String {
    let gib: u64 = study.memory.iter().sum::<u64>() / GIB;
    format!("Servers of {gib} GiB that live for {} hours.", study.days * 24.0)
}

/// Superpageblocks with more or less tainted memory kept ready for the kernel.
pub fn measure_reserves(study: &Study) -> Result<Document, Box<dyn Error>> {
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
    let columns = [
        "workload",
        "reserve in each tainted gigabyte",
        "clean GiB at the end",
        "taintings",
        "for lack of a large block",
        "requests that waited",
        "pages moved",
        "kernel requests failed",
    ];
    let mut document = Document::new("clean-reserve", &columns, rounds(1));
    document.note(memory_note(study));
    for (server, workload) in (0..).zip(&study.workloads) {
        for (name, config) in variants {
            let placement = Superpageblocks::new(&layout, config);
            let day = Day::live(study, server, &layout, placement);
            let counters = ["taintings", "taintings_for_order", "waited", "pages_moved"];
            let counted = counters.map(|counter| day.counter(counter).to_string());
            let [taintings, for_order, waited, moved] = counted;
            let clean = day.clean_gigabytes().to_string();
            let failed = day.failures.kernel.to_string();
            document.row(
                workload.name.clone(),
                [name.to_owned(), clean, taintings, for_order, waited, moved, failed],
            );
        }
    }
    Ok(document)
}
