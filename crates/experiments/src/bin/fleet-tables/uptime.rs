//! Uptime and free blocks.

use std::error::Error;

use crate::fleets::{GIB, correlation, mean, of, simulate, study};
use crate::numbers::Numbers;
use experiments::document::Document;

const SYSTEMS: [&str; 2] = ["linux", "linux+no-compaction"];
/// Longest lives, in days.
const DAYS: [f64; 3] = [0.5, 2.0, 7.0];

/// The table: a row for each longest life and allocator.
pub fn measure(numbers: &mut Numbers) -> Result<Vec<Document>, Box<dyn Error>> {
    let servers = numbers.next(40.0)? as u64;
    let columns = [
        "lives, allocator",
        "correlation of uptime and free 2 MiB blocks",
        "95 % interval",
        "servers without a free 2 MiB block, %",
        "potential contiguity at 2 MiB, %",
    ];
    let rounds = format!("seed 1, {servers} servers for each longest life");
    let mut document = Document::new("fleet-uptime", &columns, rounds);
    for days in DAYS {
        let study = study(&SYSTEMS, vec![2 * GIB], days)?;
        let fleets = simulate(&study, 1, servers, None)?;
        for system in SYSTEMS {
            let rows = of(&fleets[0], system);
            let found = correlation(&rows);
            let (low, high) = interval(found, rows.len());
            let without = mean(&rows, |row| f64::from(row.free_2_mib == 0) * 100.0);
            let potential = mean(&rows, |row| row.potential()[0] * 100.0);
            document.row(
                format!("up to {days} days, `{system}`"),
                [
                    format!("{found:.2}"),
                    format!("{low:.2} to {high:.2}"),
                    format!("{without:.1}"),
                    format!("{potential:.1}"),
                ],
            );
        }
    }
    Ok(vec![document])
}

/// The 95 % interval of a correlation of `count` pairs (Fisher's transformation).
fn interval(found: f64, count: usize) -> (f64, f64) {
    let width = 1.96 / (count as f64 - 3.0).max(1.0).sqrt();
    let z = found.clamp(-0.999_999, 0.999_999).atanh();
    ((z - width).tanh(), (z + width).tanh())
}
