//! A fleet's figures over several seeds: the mean and how far one seed strays from another.
//!
//! ```text
//! cargo run --release -p experiments --bin fleet_seeds -- [SEEDS] [SERVERS] [GIB] [DAYS] [SYSTEMS]
//! cargo run --release -p experiments --bin fleet_seeds -- [SEEDS] [SERVERS] [GIB] hour
//! ```
//!
//! The first prints what `docs/src/results/contiguitas.md` has of Figures 2 and 5 and of the
//! ablation (`SYSTEMS` is a list or `ablation`; `linux,contiguitas` if there is none). Each seed is a
//! fleet of its own, of servers whose lives are drawn up to so many days, workload after workload;
//! `GIB` may be a list, such as `2,4,8`, of which each workload has all.
//! The second prints the first hours after boot under `linux`. Everything is counted, and the same
//! on every machine.

use std::error::Error;

use prairie_fleet::row::Row;
use prairie_fleet::study::Study;
use prairie_model::allocator::{ABLATION, Allocator};
use prairie_sim::workload::{SHIPPED, Workload};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: f64| -> Result<f64, Box<dyn Error>> {
        Ok(arguments.get(at).map(|text| text.parse()).transpose()?.unwrap_or(default))
    };
    let (seeds, servers) = (number(0, 3.0)? as u64, number(1, 16.0)? as u64);
    let sizes = arguments.get(2).map_or("8", String::as_str).split(',');
    let memory = sizes.map(|gib| Ok((gib.parse::<f64>()? * 262_144.0) as u64));
    let memory = memory.collect::<Result<_, Box<dyn Error>>>()?;
    let workloads = SHIPPED.iter().filter_map(|(name, _)| Workload::shipped(name)).collect();
    let mut study = Study { workloads, systems: Vec::new(), memory, days: 0.0, seed: 0 };
    if arguments.get(3).is_some_and(|what| what == "hour") {
        return first_hours(&mut study, seeds, servers);
    }
    study.days = number(3, 0.5)?;
    study.systems = match arguments.get(4).map(String::as_str) {
        None => vec!["linux".parse()?, "contiguitas".parse()?],
        Some("ablation") => ABLATION.iter().map(|name| name.parse()).collect::<Result<_, _>>()?,
        Some(list) => list.split(',').map(str::parse).collect::<Result<_, _>>()?,
    };
    let mut fleets: Vec<Vec<Row>> = Vec::new();
    for seed in 1..=seeds {
        study.seed = seed;
        let mut rows = Vec::new();
        for server in 0..servers {
            rows.extend(study.server(server)?);
        }
        fleets.push(rows);
    }
    print(&study, &fleets);
    Ok(())
}

/// A row of the table for each measure, a column for each system.
fn print(study: &Study, fleets: &[Vec<Row>]) {
    let names: Vec<&str> = study.systems.iter().map(Allocator::name).collect();
    println!("| | {} |\n|{}", names.join(" | "), " --- |".repeat(names.len() + 1));
    let line = |title: &str, of: &dyn Fn(&[&Row]) -> f64| {
        let cells = names.iter().map(|name| {
            let one = |fleet: &Vec<Row>| {
                of(&fleet.iter().filter(|row| row.system == *name).collect::<Vec<_>>())
            };
            spread(&fleets.iter().map(one).collect::<Vec<f64>>())
        });
        println!("| {title} | {} |", cells.collect::<Vec<_>>().join(" | "));
    };
    for (size, of) in FREE {
        line(&format!("servers without a free {size} block, %"), &|rows| {
            mean(rows, |row| f64::from(of(row) == 0) * 100.0)
        });
    }
    line("correlation of uptime and free 2 MiB blocks", &correlation);
    for (at, size) in ["2 MiB", "32 MiB", "1 GiB"].iter().enumerate() {
        line(&format!("potential {size}, %"), &|rows| {
            mean(rows, |row| row.potential()[at] * 100.0)
        });
        for workload in &study.workloads {
            line(&format!("- {}", workload.name), &|rows| {
                let own: Vec<&Row> =
                    rows.iter().filter(|row| row.workload == workload.name).copied().collect();
                mean(&own, |row| row.potential()[at] * 100.0)
            });
        }
    }
    line("cannot be moved, %", &|rows| mean(rows, |row| share(row, row.unmovable_frames)));
    line("2 MiB blocks spoiled, %", &|rows| mean(rows, |row| share(row, row.spoiled_blocks * 512)));
    line("spoiled, times the fewest possible", &|rows| {
        sum(rows, |row| row.spoiled_blocks * 512) / sum(rows, |row| row.unmovable_frames)
    });
    line("below the border, %", &|rows| mean(rows, |row| share(row, row.unmovable_region)));
    let in_10_million =
        |rows: &[&Row], of: fn(&Row) -> u64| sum(rows, of) * 1e7 / sum(rows, |row| row.allocations);
    line("in 10 million: kernel's requests and pins that failed", &|rows| {
        in_10_million(rows, |row| row.failed_kernel + row.failed_pins)
    });
    line("in 10 million: waited for the border", &|rows| in_10_million(rows, |row| row.waited));
    line("in 10 million: huge pages not had at once", &|rows| {
        in_10_million(rows, |row| row.failed_huge)
    });
    line("pages moved for a GiB that the border passed", &|rows| {
        sum(rows, |row| row.pages_moved) * 512.0 / sum(rows, |row| row.border_moves).max(1.0)
    });
    line("allocations, millions", &|rows| sum(rows, |row| row.allocations) / 1e6);
}

/// Free blocks by size.
type Free = (&'static str, fn(&Row) -> u64);
const FREE: [Free; 4] = [
    ("2 MiB", |row| row.free_2_mib),
    ("4 MiB", |row| row.free_4_mib),
    ("32 MiB", |row| row.free_32_mib),
    ("1 GiB", |row| row.free_1_gib),
];

/// What is left of servers some minutes after boot.
fn first_hours(study: &mut Study, seeds: u64, servers: u64) -> Result<(), Box<dyn Error>> {
    const MINUTES: [f64; 6] = [1.0, 10.0, 30.0, 60.0, 120.0, 240.0];
    study.systems = vec!["linux".parse()?];
    println!(
        "| minutes | free, % | of that in free 2 MiB blocks, % | servers with less than 1 % of memory in such | 2 MiB blocks spoiled, % | gigabytes spoiled, % |\n|{}",
        " --- |".repeat(6)
    );
    for minutes in MINUTES {
        let mut by_seed: [Vec<f64>; 5] = Default::default();
        for seed in 1..=seeds {
            study.seed = seed;
            let mut rows = Vec::new();
            for server in 0..servers {
                rows.extend(study.server_after(server, minutes * 60.0)?);
            }
            let rows: Vec<&Row> = rows.iter().collect();
            for (values, value) in by_seed.iter_mut().zip([
                mean(&rows, |row| share(row, row.free_frames)),
                mean(&rows, |row| row.contiguity()[0] * 100.0),
                mean(&rows, |row| f64::from(share(row, row.free_2_mib * 512) < 1.0) * 100.0),
                mean(&rows, |row| share(row, row.spoiled_blocks * 512)),
                mean(&rows, |row| 100.0 - row.potential()[2] * 100.0),
            ]) {
                values.push(value);
            }
        }
        let cells: Vec<String> = by_seed.iter().map(|values| spread(values)).collect();
        println!("| {minutes} | {} |", cells.join(" | "));
    }
    Ok(())
}

fn share(row: &Row, frames: u64) -> f64 {
    frames as f64 * 100.0 / row.frames as f64
}

fn sum(rows: &[&Row], of: impl Fn(&Row) -> u64) -> f64 {
    rows.iter().map(|row| of(row)).sum::<u64>() as f64
}

fn mean(rows: &[&Row], of: impl Fn(&Row) -> f64) -> f64 {
    rows.iter().map(|row| of(row)).sum::<f64>() / rows.len().max(1) as f64
}

/// Pearson's correlation of uptime and free 2 MiB blocks; 0 where either is the same everywhere.
fn correlation(rows: &[&Row]) -> f64 {
    let (x, y) = (mean(rows, |row| row.uptime_s), mean(rows, |row| row.free_2_mib as f64));
    let product = |row: &Row| (row.uptime_s - x) * (row.free_2_mib as f64 - y);
    let squares = mean(rows, |row| (row.uptime_s - x).powi(2))
        * mean(rows, |row| (row.free_2_mib as f64 - y).powi(2));
    if squares > 0.0 { mean(rows, product) / squares.sqrt() } else { 0.0 }
}

/// Mean and standard deviation over the seeds.
fn spread(values: &[f64]) -> String {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = (squares / (count - 1.0).max(1.0)).sqrt();
    let digits = match mean.abs() {
        0.0..10.0 => 2,
        10.0..1000.0 => 1,
        _ => 0,
    };
    format!("{mean:.digits$} ± {deviation:.digits$}")
}
