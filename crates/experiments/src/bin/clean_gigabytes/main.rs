//! Superpageblocks beside what else there is to keep gigabytes clean of unmovable memory: the
//! tables of `docs/src/results/superpageblocks.md`.
//!
//! ```text
//! cargo run --release -p experiments --bin clean_gigabytes -- [GIB] [DAYS] [SEED] [PART...]
//! ```
//!
//! Parts: `day` (the four workloads of a fleet's servers under each system), `search` (what finding
//! a superpageblock costs), `reserve` (how much tainted memory is kept ready), `cases` (where a
//! border loses). All of them if none is named. Times are of CPU; everything else is counted, and the
//! same on every machine.
//!
//! It is an example and no command because it answers one question, with systems that have no name
//! elsewhere: with compaction around them, with other trees, with another reserve.

mod cases;
mod day;
mod measure;
mod search;
mod systems;

use std::error::Error;

use prairie_fleet::study::Study;
use prairie_sim::workload::{SHIPPED, Workload};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).peekable();
    let mut number = |default: f64| match arguments.peek().and_then(|text| text.parse().ok()) {
        Some(given) => {
            arguments.next();
            given
        }
        None => default,
    };
    let (gib, days, seed) = (number(16.0), number(1.0), number(1.0) as u64);
    let parts: Vec<String> = arguments.collect();
    if let Some(unknown) = parts.iter().find(|part| !PARTS.contains(&part.as_str())) {
        return Err(format!("`{unknown}`: the parts are {}", PARTS.join(", ")).into());
    }
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|given| given == part);
    let workloads = SHIPPED.iter().filter_map(|(name, _)| Workload::shipped(name)).collect();
    let frames = (gib * 262_144.0) as u64;
    let study = Study { workloads, systems: Vec::new(), memory: vec![frames], days, seed };
    if wanted("day") {
        day::print(&study)?;
    }
    if wanted("search") {
        search::print(&study)?;
    }
    if wanted("reserve") {
        day::print_reserves(&study)?;
    }
    if wanted("cases") {
        cases::print(&study)?;
    }
    Ok(())
}

const PARTS: [&str; 4] = ["day", "search", "reserve", "cases"];
