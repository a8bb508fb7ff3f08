//! The first hours after boot under Linux.

use std::error::Error;

use prairie_fleet::row::Row;

use crate::fleets::{GIB, mean, percent, simulate, study};
use crate::numbers::Numbers;
use experiments::document::{Document, spread};

const MINUTES: [f64; 5] = [10.0, 30.0, 60.0, 120.0, 240.0];

/// The table: a row for each time.
pub fn measure(numbers: &mut Numbers) -> Result<Vec<Document>, Box<dyn Error>> {
    let (seeds, servers) = (numbers.next(3.0)? as u64, numbers.next(8.0)? as u64);
    let columns = [
        "minutes after boot",
        "free memory, %",
        "servers with less than 1 % of memory in free 2 MiB blocks, %",
        "polluted 2 MiB blocks, %",
        "polluted 1 GiB blocks, %",
    ];
    let rounds = format!("{seeds} seeds of {servers} servers, mean ± standard deviation");
    let mut document = Document::new("fleet-hours", &columns, rounds);
    let study = study(&["linux"], vec![8 * GIB], 1.0)?;
    type Measure = fn(&[&Row]) -> f64;
    let measures: [Measure; 4] = [
        |rows| mean(rows, |row| percent(row, row.free_frames)),
        |rows| mean(rows, |row| f64::from(percent(row, row.free_2_mib * 512) < 1.0) * 100.0),
        |rows| mean(rows, |row| percent(row, row.polluted_max * 512)),
        |rows| mean(rows, |row| 100.0 - row.potential()[2] * 100.0),
    ];
    for minutes in MINUTES {
        let fleets = simulate(&study, seeds, servers, Some(minutes * 60.0))?;
        let cell = |measure: &Measure| {
            let one = |fleet: &Vec<Row>| measure(&fleet.iter().collect::<Vec<_>>());
            spread(&fleets.iter().map(one).collect::<Vec<_>>())
        };
        document.row(format!("{minutes}"), measures.iter().map(cell));
    }
    Ok(vec![document])
}
