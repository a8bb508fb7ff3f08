//! Clean gigabytes by the share of pinned memory.

use std::error::Error;

use experiments::document::{Document, spread};
use prairie_fleet::study::Study;

use crate::day::{Day, days, memory_note, rounds};

/// Pinned memory, in percent.
const PINS: [f64; 5] = [0.0, 0.02, 0.1, 0.3, 1.0];
const ALLOCATORS: [&str; 4] =
    ["linux", "linux-defrag", "superpageblocks", "contiguitas+no-compaction"];

/// Clean gigabytes of all servers and seeds under each allocator.
pub fn measure(study: &Study, seeds: u64) -> Result<Document, Box<dyn Error>> {
    let columns: Vec<&str> = std::iter::once("pinned memory, %").chain(ALLOCATORS).collect();
    let mut document = Document::new("clean-pins", &columns, rounds(seeds));
    document.note(memory_note(study));
    for pins in PINS {
        let workloads = study.workloads.iter().cloned();
        let workloads = workloads.map(|workload| workload.with_pinned_share(pins / 100.0));
        let study = Study { workloads: workloads.collect::<Result<_, _>>()?, ..study.clone() };
        let mut cells = Vec::new();
        for name in ALLOCATORS {
            let mut all: Vec<Day> = Vec::new();
            for server in 0..study.workloads.len() as u64 {
                all.extend(days(&study, seeds, server, name)?);
            }
            let clean: Vec<f64> = all.iter().map(|day| day.clean_gigabytes() as f64).collect();
            cells.push(spread(&clean));
        }
        document.row(format!("{pins}"), cells);
    }
    Ok(document)
}
