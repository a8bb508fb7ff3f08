//! Figures 2 and 5 of Contiguitas, and what confinement costs.

use std::error::Error;

use prairie_fleet::row::Row;

use crate::fleets::{GIB, correlation, counted, mean, of, percent, simulate, study, sum};
use crate::numbers::Numbers;
use experiments::document::{Document, spread};

const SYSTEMS: [&str; 3] = ["linux", "linux+no-compaction", "contiguitas"];
const COLUMNS: [&str; 4] = ["", "linux", "linux+no-compaction", "contiguitas"];

/// Free blocks by size.
type Free = (&'static str, fn(&Row) -> u64);
const FREE: [Free; 4] = [
    ("2 MiB", |row| row.free_2_mib),
    ("4 MiB", |row| row.free_4_mib),
    ("32 MiB", |row| row.free_32_mib),
    ("1 GiB", |row| row.free_1_gib),
];

/// The three tables.
pub fn measure(numbers: &mut Numbers) -> Result<Vec<Document>, Box<dyn Error>> {
    let (seeds, servers) = (numbers.next(5.0)? as u64, numbers.next(8.0)? as u64);
    let days = numbers.next(0.5)?;
    let study = study(&SYSTEMS, vec![8 * GIB], days)?;
    let fleets = simulate(&study, seeds, servers, None)?;
    let rounds = format!("{seeds} seeds of {servers} servers, mean ± standard deviation");
    let cells = |what: &dyn Fn(&[&Row]) -> f64| {
        SYSTEMS.map(|system| {
            spread(&fleets.iter().map(|fleet| what(&of(fleet, system))).collect::<Vec<_>>())
        })
    };

    let mut figure_2 = Document::new("fleet-figure-2", &COLUMNS, rounds.clone());
    for (size, free) in FREE {
        let without = |rows: &[&Row]| mean(rows, |row| f64::from(free(row) == 0) * 100.0);
        figure_2.row(format!("servers without a free {size} block, %"), cells(&without));
    }
    for (at, (size, _)) in FREE.iter().enumerate() {
        let share = |rows: &[&Row]| mean(rows, |row| row.contiguity()[at] * 100.0);
        figure_2.row(format!("free memory in free {size} blocks, %"), cells(&share));
    }
    figure_2.row("correlation of uptime and free 2 MiB blocks", cells(&|rows| correlation(rows)));

    let mut figure_5 = Document::new("fleet-figure-5", &COLUMNS, rounds.clone());
    for (at, size) in ["2 MiB", "32 MiB", "1 GiB"].iter().enumerate() {
        let potential = |rows: &[&Row]| mean(rows, |row| row.potential()[at] * 100.0);
        figure_5.row(format!("{size}, all workloads, %"), cells(&potential));
        for workload in &study.workloads {
            let own = |rows: &[&Row]| {
                let own: Vec<&Row> =
                    rows.iter().filter(|row| row.workload == workload.name).copied().collect();
                potential(&own)
            };
            figure_5.row(format!("{size}, {}, %", workload.name), cells(&own));
        }
    }

    let mut price = Document::new("fleet-price", &COLUMNS, rounds);
    price.row(
        "unmovable memory, %",
        cells(&|rows| mean(rows, |row| percent(row, row.unmovable_frames))),
    );
    price.row(
        "network's share of unmovable memory, %",
        cells(&|rows| {
            sum(rows, |row| counted(row).network_frames) * 100.0
                / sum(rows, |row| row.unmovable_frames)
        }),
    );
    price.row(
        "pinned memory, %",
        cells(&|rows| mean(rows, |row| percent(row, counted(row).pinned_frames))),
    );
    price.row(
        "polluted 2 MiB blocks, %",
        cells(&|rows| mean(rows, |row| percent(row, row.polluted_max * 512))),
    );
    price.row(
        "polluted blocks, times the fewest possible",
        cells(&|rows| {
            sum(rows, |row| row.polluted_max * 512) / sum(rows, |row| row.unmovable_frames)
        }),
    );
    let in_10_million = |count: fn(&Row) -> u64| {
        move |rows: &[&Row]| sum(rows, count) * 1e7 / sum(rows, |row| counted(row).allocations)
    };
    price.row(
        "kernel requests and pins that failed, in 10 million",
        cells(&in_10_million(|row| counted(row).failed_kernel + counted(row).failed_pins)),
    );
    price.row(
        "allocations that waited for the border, in 10 million",
        cells(&in_10_million(|row| counted(row).waited)),
    );
    price.row(
        "huge page faults served with small pages, in 10 million",
        cells(&in_10_million(|row| counted(row).failed_huge)),
    );
    price.row("pages moved, in 10 million", cells(&in_10_million(|row| counted(row).pages_moved)));
    Ok(vec![figure_2, figure_5, price])
}
