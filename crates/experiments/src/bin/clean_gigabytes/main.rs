//! Measures superpageblocks and other allocators that keep gigabytes free of unmovable memory: the
//! tables of `docs/src/results/superpageblocks.md`.
//!
//! ```text
//! clean_gigabytes PART GIB DAYS SEEDS
//! ```
//!
//! Parts: `day` (the four workloads of a fleet's servers under each allocator), `pins` (the same by
//! the share of pinned memory), `search` (the cost of finding a superpageblock), `reserve` (memory
//! kept ready in tainted gigabytes), `cases` (where a border loses).
//!
//! Prints table documents as JSON (`results/README.md`). All values are counted, and the same on
//! every machine.

mod cases;
mod day;
mod measure;
mod pins;
mod search;
mod systems;

use std::error::Error;

use prairie_fleet::study::Study;
use prairie_sim::workload::{SHIPPED, Workload};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let part = arguments.next().unwrap_or_default();
    let mut number = |default: f64| match arguments.next() {
        Some(text) => text.parse().map_err(|_| format!("`{text}`: expected a number")),
        None => Ok(default),
    };
    let (gib, days, seeds) = (number(16.0)?, number(1.0)?, number(1.0)? as u64);
    let workloads = SHIPPED.iter().filter_map(|(name, _)| Workload::shipped(name)).collect();
    let frames = (gib * 262_144.0) as u64;
    let study = Study { workloads, systems: Vec::new(), memory: vec![frames], days, seed: 1 };
    let documents = match part.as_str() {
        "day" => vec![day::measure(&study, seeds)?],
        "pins" => vec![pins::measure(&study, seeds)?],
        "search" => vec![search::measure(&study)?],
        "reserve" => vec![day::measure_reserves(&study)?],
        "cases" => cases::measure(&study)?,
        other => {
            return Err(format!("`{other}`: expected day, pins, search, reserve, or cases").into());
        }
    };
    println!("{}", serde_json::to_string_pretty(&documents)?);
    Ok(())
}
