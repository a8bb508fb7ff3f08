//! What each mechanism is worth.

use std::error::Error;

use prairie_fleet::row::Row;
use prairie_model::allocator::{ABLATION, ABLATION_FREEBSD, ABLATION_LINUX};

use crate::fleets::{GIB, counted, mean, of, percent, simulate, study, sum};
use crate::numbers::Numbers;
use experiments::document::{Document, spread};

const COLUMNS: [&str; 9] = [
    "",
    "potential 2 MiB, %",
    "32 MiB, %",
    "1 GiB, %",
    "polluted, times the fewest possible",
    "below the border, %",
    "failed, in 10 million",
    "waited, in 10 million",
    "pages moved, in 10 million",
];

/// One table: a row for each variant of an allocator.
pub fn measure(numbers: &mut Numbers) -> Result<Vec<Document>, Box<dyn Error>> {
    let which = numbers.0.next().unwrap_or_default();
    let systems: &[&str] = match which.as_str() {
        "linux" => &ABLATION_LINUX,
        "contiguitas" => &ABLATION,
        "freebsd" => &ABLATION_FREEBSD,
        other => return Err(format!("`{other}`: expected linux, contiguitas, or freebsd").into()),
    };
    let (seeds, servers) = (numbers.next(5.0)? as u64, numbers.next(4.0)? as u64);
    let study = study(systems, vec![8 * GIB], numbers.next(0.25)?)?;
    let fleets = simulate(&study, seeds, servers, None)?;
    let rounds = format!("{seeds} seeds of {servers} servers, mean ± standard deviation");
    let mut document = Document::new(&format!("fleet-ablation-{which}"), &COLUMNS, rounds);
    let in_10_million = |rows: &[&Row], count: fn(&Row) -> u64| {
        sum(rows, count) * 1e7 / sum(rows, |row| counted(row).allocations)
    };
    type Measure<'a> = &'a dyn Fn(&[&Row]) -> f64;
    let measures: [Measure; 8] = [
        &|rows| mean(rows, |row| row.potential()[0] * 100.0),
        &|rows| mean(rows, |row| row.potential()[1] * 100.0),
        &|rows| mean(rows, |row| row.potential()[2] * 100.0),
        &|rows| sum(rows, |row| row.polluted_max * 512) / sum(rows, |row| row.unmovable_frames),
        &|rows| mean(rows, |row| percent(row, counted(row).unmovable_region)),
        &|rows| in_10_million(rows, |row| counted(row).failed_kernel + counted(row).failed_pins),
        &|rows| in_10_million(rows, |row| counted(row).waited),
        &|rows| in_10_million(rows, |row| counted(row).pages_moved),
    ];
    for system in systems {
        let cell = |measure: &Measure| {
            spread(&fleets.iter().map(|fleet| measure(&of(fleet, system))).collect::<Vec<_>>())
        };
        document.row(format!("`{system}`"), measures.iter().map(cell));
    }
    Ok(vec![document])
}
