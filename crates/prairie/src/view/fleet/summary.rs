//! Summary of a fleet's servers under one allocator.

use prairie_fleet::row::{Counters, Row};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// A measure whose value depends on whether unknown frames can be moved.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bounds {
    /// The smaller value.
    pub min: f64,
    /// The larger value.
    pub max: f64,
}

/// The servers of one allocator.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The allocator; `host` for real servers.
    pub system: String,
    /// Servers.
    pub servers: usize,
    /// Share of servers without one free block of 2 MiB, 4 MiB, 32 MiB, 1 GiB.
    pub without_free: [f64; 4],
    /// Mean share of free memory in free blocks of these sizes.
    pub contiguity: [f64; 4],
    /// Mean potential contiguity at 2 MiB, 32 MiB, 1 GiB.
    pub potential: [Bounds; 3],
    /// Mean share of memory that cannot be moved.
    pub unmovable: Bounds,
    /// Mean share of 2 MiB blocks that such memory pollutes.
    pub polluted: Bounds,
    /// Pearson correlation of uptime and free 2 MiB blocks; none with fewer than three servers, or
    /// where either is the same on all.
    pub uptime_correlation: Option<f64>,
    /// What only a simulation knows; none for real servers.
    #[serde(flatten)]
    pub simulated: Option<Simulated>,
}

/// What only a simulation knows.
#[derive(Clone, Debug, Serialize)]
pub struct Simulated {
    /// Share of unmovable memory that is the network's.
    pub network_of_unmovable: f64,
    /// Mean share of memory that is pinned.
    pub pinned: f64,
    /// Pages moved for each GiB that a border passed; none if no border moved.
    pub moved_per_gib: Option<f64>,
    /// Mean share of memory below the border, where there is one.
    pub unmovable_region: f64,
    /// What failed or waited on all servers.
    #[serde(flatten)]
    pub rates: Rates,
    /// The same for each workload.
    pub by_workload: Vec<WorkloadRates>,
}

/// Events in ten million allocations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// Allocations.
    pub allocations: u64,
    /// Kernel requests and pins that failed.
    pub failed_kernel_per_10_million: f64,
    /// Allocations that waited for a border to move.
    pub waited_per_10_million: f64,
}

/// The rates of one workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkloadRates {
    /// The workload.
    pub workload: String,
    /// Its rates.
    #[serde(flatten)]
    pub rates: Rates,
}

/// Distinct values in order of first occurrence.
pub fn names(rows: &[Row], of: fn(&Row) -> &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for row in rows {
        if !names.iter().any(|name| name == of(row)) {
            names.push(of(row).to_owned());
        }
    }
    names
}

/// One summary for each allocator.
pub fn summaries(rows: &[Row]) -> Vec<Summary> {
    let systems = names(rows, |row| &row.system);
    let of = |system: String| {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.system == system).collect();
        summary(system, &rows)
    };
    systems.into_iter().map(of).collect()
}

/// The figures of a simulated fleet by name instead of by place in a list, so that runs of several
/// seeds can be compared. In a simulation every frame's mobility is known, and both bounds are equal.
pub fn named(summary: &Summary) -> Value {
    let free = ["2_mib", "4_mib", "32_mib", "1_gib"];
    let potential = ["2_mib", "32_mib", "1_gib"];
    let by_size = |sizes: &[&str], values: &[f64]| -> Value {
        let fields =
            sizes.iter().zip(values).map(|(size, value)| ((*size).to_owned(), json!(value)));
        Value::Object(fields.collect::<Map<_, _>>())
    };
    json!({
        "system": summary.system,
        "servers": summary.servers,
        "servers_without_free": by_size(&free, &summary.without_free),
        "contiguity": by_size(&free, &summary.contiguity),
        "potential": by_size(&potential, &summary.potential.map(|bounds| bounds.min)),
        "unmovable": summary.unmovable.min,
        "polluted": summary.polluted.min,
        "uptime_correlation": summary.uptime_correlation,
        "simulated": summary.simulated,
    })
}

fn mean(rows: &[&Row], of: impl Fn(&Row) -> f64) -> f64 {
    rows.iter().map(|row| of(row)).sum::<f64>() / rows.len().max(1) as f64
}

fn share(row: &Row, frames: u64) -> f64 {
    frames as f64 / row.frames.max(1) as f64
}

fn summary(system: String, rows: &[&Row]) -> Summary {
    let without = |of: fn(&Row) -> u64| mean(rows, |row| f64::from(of(row) == 0));
    Summary {
        servers: rows.len(),
        without_free: [
            without(|row| row.free_2_mib),
            without(|row| row.free_4_mib),
            without(|row| row.free_32_mib),
            without(|row| row.free_1_gib),
        ],
        contiguity: std::array::from_fn(|size| mean(rows, |row| row.contiguity()[size])),
        potential: std::array::from_fn(|size| potential(rows, size)),
        unmovable: Bounds {
            min: mean(rows, |row| share(row, row.unmovable_frames)),
            max: mean(rows, |row| share(row, row.unmovable_frames + row.unknown_frames)),
        },
        polluted: Bounds {
            min: mean(rows, |row| share(row, row.polluted_min * 512)),
            max: mean(rows, |row| share(row, row.polluted_max * 512)),
        },
        uptime_correlation: correlation(rows),
        simulated: simulated(rows),
        system,
    }
}

/// Mean potential contiguity at 2 MiB, 32 MiB or 1 GiB.
pub fn potential(rows: &[&Row], size: usize) -> Bounds {
    Bounds {
        min: mean(rows, |row| row.potential_min()[size]),
        max: mean(rows, |row| row.potential()[size]),
    }
}

/// Sums over servers that were simulated; `None` if none was.
fn simulated(rows: &[&Row]) -> Option<Simulated> {
    let counted: Vec<&Counters> = rows.iter().filter_map(|row| row.simulated.as_ref()).collect();
    if counted.is_empty() {
        return None;
    }
    let sum = |of: fn(&Counters) -> u64| counted.iter().map(|found| of(found)).sum::<u64>() as f64;
    let of_memory = |of: fn(&Counters) -> u64| {
        mean(rows, |row| row.simulated.as_ref().map_or(0.0, |found| share(row, of(found))))
    };
    let passed_gib = sum(|found| found.border_moves) / 512.0;
    let unmovable: u64 = rows.iter().map(|row| row.unmovable_frames).sum();
    Some(Simulated {
        network_of_unmovable: sum(|found| found.network_frames) / unmovable.max(1) as f64,
        pinned: of_memory(|found| found.pinned_frames),
        moved_per_gib: (passed_gib > 0.0).then(|| sum(|found| found.pages_moved) / passed_gib),
        unmovable_region: of_memory(|found| found.unmovable_region),
        rates: Rates::of(&counted),
        by_workload: by_workload(rows),
    })
}

impl Rates {
    fn of(counted: &[&Counters]) -> Rates {
        let sum = |of: fn(&Counters) -> u64| counted.iter().map(|found| of(found)).sum::<u64>();
        let allocations = sum(|found| found.allocations);
        let rate = |count: u64| count as f64 * 1e7 / allocations.max(1) as f64;
        Rates {
            allocations,
            failed_kernel_per_10_million: rate(sum(|found| {
                found.failed_kernel + found.failed_pins
            })),
            waited_per_10_million: rate(sum(|found| found.waited)),
        }
    }
}

/// The rates of each workload, in the order in which workloads occur.
fn by_workload(rows: &[&Row]) -> Vec<WorkloadRates> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.workload.as_str()) {
            names.push(&row.workload);
        }
    }
    let of = |name: &str| {
        let own = rows.iter().filter(|row| row.workload == name);
        let counted: Vec<&Counters> = own.filter_map(|row| row.simulated.as_ref()).collect();
        WorkloadRates { workload: name.to_owned(), rates: Rates::of(&counted) }
    };
    names.into_iter().map(of).collect()
}

/// Pearson correlation of uptime and free 2 MiB blocks.
fn correlation(rows: &[&Row]) -> Option<f64> {
    let pairs: Vec<(f64, f64)> = rows
        .iter()
        .map(|row| (row.uptime_s, row.free_2_mib as f64))
        .filter(|(uptime, _)| uptime.is_finite())
        .collect();
    if pairs.len() < 3 {
        return None;
    }
    let count = pairs.len() as f64;
    let (x, y) = pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    let (x, y) = (x / count, y / count);
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for pair in &pairs {
        xy += (pair.0 - x) * (pair.1 - y);
        xx += (pair.0 - x).powi(2);
        yy += (pair.1 - y).powi(2);
    }
    (xx > 0.0 && yy > 0.0).then(|| xy / (xx * yy).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::fleet::tests::server;

    #[test]
    fn a_fleet_of_three_by_hand() {
        let rows = [server(1.0, 0), server(2.0, 1), server(3.0, 2)];
        let summary = &summaries(&rows)[0];
        assert_eq!(summary.servers, 3);
        assert!((summary.without_free[0] - 1.0 / 3.0).abs() < 1e-12);
        // 0, a half and all of the free memory.
        assert!((summary.contiguity[0] - 0.5).abs() < 1e-12);
        let half = Bounds { min: 0.5, max: 0.5 };
        assert_eq!((summary.potential[0], summary.polluted), (half, half));
        assert!((summary.uptime_correlation.unwrap() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn values_that_are_the_same_everywhere_have_no_correlation() {
        let rows = [server(1.0, 5), server(2.0, 5), server(f64::NAN, 9)];
        assert_eq!(summaries(&rows)[0].uptime_correlation, None);
    }

    /// A surveyed host has two bounds, and nothing that only a simulation counts.
    #[test]
    fn unknown_frames_make_bounds() {
        let mut host = Row { simulated: None, ..server(1.0, 0) };
        host.potential_min.mib_2 = 2;
        host.unknown_frames = 1024;
        let summary = &summaries(&[host])[0];
        assert_eq!(summary.potential[0], Bounds { min: 0.25, max: 0.5 });
        assert_eq!(summary.unmovable, Bounds { min: 0.0, max: 0.25 });
        assert!(summary.simulated.is_none());
        let json = serde_json::to_string(summary).unwrap();
        assert!(!json.contains("per_10_million") && !json.contains("border"), "{json}");
    }
}
