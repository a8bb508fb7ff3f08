//! A fleet's servers as a report: how contiguous their free memory is (Contiguitas, Figure 2), and
//! how contiguous their memory could be (Figure 5).

use std::path::Path;

use lab::fleet::row::Row;
use report::{
    Axis, BarChart, BarSeries, Block, Cell, Column, LineChart, Report, Section, Table, Unit, number,
};
use serde::Serialize;

/// What the servers of one system have in common.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The system; `host` for real servers.
    pub system: String,
    /// Servers.
    pub servers: usize,
    /// Share of servers without one free block of 2 MiB, 4 MiB, 32 MiB, 1 GiB.
    pub without_free: [f64; 4],
    /// Mean contiguity of free memory at these sizes.
    pub contiguity: [f64; 4],
    /// Mean potential contiguity at 2 MiB, 32 MiB, 1 GiB.
    pub potential: [f64; 3],
    /// Mean share of memory that cannot be moved.
    pub unmovable: f64,
    /// Mean share of 2 MiB blocks that such memory spoils.
    pub spoiled: f64,
    /// Pearson's correlation of time since boot and free 2 MiB blocks; none with fewer than three
    /// servers, or where either is the same everywhere.
    pub uptime_correlation: Option<f64>,
    /// Requests of the kernel and pins that found nothing, in ten million allocations.
    pub failed_kernel_per_10_million: f64,
    /// Allocations that had to wait for a border to move, in ten million.
    pub waited_per_10_million: f64,
    /// Pages moved for each GiB that a border passed; none if no border moved.
    pub moved_per_gib: Option<f64>,
    /// Mean share of memory that lies in the unmovable region, where there is one.
    pub unmovable_region: f64,
    /// The same failures for each workload.
    pub by_workload: Vec<WorkloadFailures>,
}

/// What failed on the servers of one workload under one system, in ten million allocations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkloadFailures {
    /// The workload.
    pub workload: String,
    /// Allocations.
    pub allocations: u64,
    /// Requests of the kernel and pins that found nothing.
    pub failed_kernel_per_10_million: f64,
    /// Allocations that had to wait for a border to move.
    pub waited_per_10_million: f64,
}

const SIZES: [&str; 4] = ["2 MiB", "4 MiB", "32 MiB", "1 GiB"];
const POTENTIAL_SIZES: [&str; 3] = ["2 MiB", "32 MiB", "1 GiB"];

/// The systems in the order in which they come.
fn names(rows: &[Row], of: fn(&Row) -> &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for row in rows {
        if !names.iter().any(|name| name == of(row)) {
            names.push(of(row).to_owned());
        }
    }
    names
}

/// One summary for each system.
pub fn summaries(rows: &[Row]) -> Vec<Summary> {
    let systems = names(rows, |row| &row.system);
    let of = |system: String| {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.system == system).collect();
        summary(system, &rows)
    };
    systems.into_iter().map(of).collect()
}

fn summary(system: String, rows: &[&Row]) -> Summary {
    let count = rows.len().max(1) as f64;
    let mean = |of: &dyn Fn(&Row) -> f64| rows.iter().map(|row| of(row)).sum::<f64>() / count;
    let without = |of: fn(&Row) -> u64| mean(&|row| f64::from(of(row) == 0));
    let sum = |of: fn(&Row) -> u64| rows.iter().map(|row| of(row)).sum::<u64>() as f64;
    let passed_gib = sum(|row| row.border_moves) / 512.0;
    let all = WorkloadFailures::of(String::new(), rows);
    Summary {
        servers: rows.len(),
        without_free: [
            without(|row| row.free_2_mib),
            without(|row| row.free_4_mib),
            without(|row| row.free_32_mib),
            without(|row| row.free_1_gib),
        ],
        contiguity: std::array::from_fn(|size| mean(&|row| row.contiguity()[size])),
        potential: std::array::from_fn(|size| mean(&|row| row.potential()[size])),
        unmovable: mean(&|row| row.unmovable_frames as f64 / row.frames.max(1) as f64),
        spoiled: mean(&|row| (row.spoiled_blocks * 512) as f64 / row.frames.max(1) as f64),
        uptime_correlation: correlation(rows),
        failed_kernel_per_10_million: all.failed_kernel_per_10_million,
        waited_per_10_million: all.waited_per_10_million,
        moved_per_gib: (passed_gib > 0.0).then(|| sum(|row| row.pages_moved) / passed_gib),
        unmovable_region: mean(&|row| row.unmovable_region as f64 / row.frames.max(1) as f64),
        by_workload: by_workload(rows),
        system,
    }
}

impl WorkloadFailures {
    fn of(workload: String, rows: &[&Row]) -> WorkloadFailures {
        let sum = |of: fn(&Row) -> u64| rows.iter().map(|row| of(row)).sum::<u64>();
        let allocations = sum(|row| row.allocations);
        let rate = |count: u64| count as f64 * 1e7 / allocations.max(1) as f64;
        WorkloadFailures {
            workload,
            allocations,
            failed_kernel_per_10_million: rate(sum(|row| row.failed_kernel + row.failed_pins)),
            waited_per_10_million: rate(sum(|row| row.waited)),
        }
    }
}

/// By workload, in the order in which they come.
fn by_workload(rows: &[&Row]) -> Vec<WorkloadFailures> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.workload.as_str()) {
            names.push(&row.workload);
        }
    }
    let of = |name: &str| {
        let own: Vec<&Row> = rows.iter().filter(|row| row.workload == name).copied().collect();
        WorkloadFailures::of(name.to_owned(), &own)
    };
    names.into_iter().map(of).collect()
}

/// Pearson's correlation of uptime and free 2 MiB blocks.
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

/// The whole report.
pub fn report(folder: &Path, rows: &[Row], generated_by: String) -> Report {
    let summaries = summaries(rows);
    let servers: usize = summaries.iter().map(|s| s.servers).max().unwrap_or(0);
    Report {
        title: "Memory contiguity over a fleet".to_owned(),
        subtitle: format!("{} · {} servers", folder.display(), number::count(servers as u64)),
        generated_by,
        sections: vec![available(rows, &summaries), potential(rows, &summaries)],
    }
}

fn columns(summaries: &[Summary]) -> Vec<Column> {
    let systems = summaries.iter().map(|summary| Column::number(summary.system.as_str()));
    std::iter::once(Column::text("")).chain(systems).collect()
}

fn row(name: String, summaries: &[Summary], of: &dyn Fn(&Summary) -> String) -> Vec<Cell> {
    std::iter::once(Cell::from(name)).chain(summaries.iter().map(|s| of(s).into())).collect()
}

fn available(rows: &[Row], summaries: &[Summary]) -> Section {
    let mut table = Vec::new();
    for (at, size) in SIZES.iter().enumerate() {
        table.push(row(format!("servers without a free {size} block"), summaries, &|s| {
            number::percent(s.without_free[at])
        }));
    }
    for (at, size) in SIZES.iter().enumerate() {
        table.push(row(format!("free memory in free {size} blocks, mean"), summaries, &|s| {
            number::percent(s.contiguity[at])
        }));
    }
    table.push(row("correlation of uptime and free 2 MiB blocks".into(), summaries, &|s| {
        s.uptime_correlation.map_or("-".to_owned(), number::index)
    }));
    let shares = |system: &str| {
        rows.iter().filter(|row| row.system == system).map(|row| row.contiguity()[0]).collect()
    };
    let samples = summaries.iter().map(|s| (s.system.clone(), shares(&s.system)));
    let mut distribution = LineChart::distribution(
        "Free memory in free 2 MiB blocks, over the servers",
        Axis::new("share of free memory", Unit::Share).within(0.0, 1.0),
        samples,
    );
    distribution.y.label = "share of servers with no more".to_owned();
    Section {
        heading: "Contiguity available".to_owned(),
        intro: "How much of a server's free memory lies in aligned blocks that are wholly free. \
                In Meta's fleet 23 % of servers have no free 2 MiB block (Contiguitas, Figure 2)."
            .to_owned(),
        blocks: vec![
            Block::Table(Table {
                title: String::new(),
                columns: columns(summaries),
                rows: table,
                notes: Vec::new(),
            }),
            Block::LineChart(distribution),
        ],
    }
}

fn potential(rows: &[Row], summaries: &[Summary]) -> Section {
    let mut table = Vec::new();
    for (at, size) in POTENTIAL_SIZES.iter().enumerate() {
        table.push(row(format!("memory that could be {size} blocks, mean"), summaries, &|s| {
            number::percent(s.potential[at])
        }));
    }
    table.push(row("memory that cannot be moved".into(), summaries, &|s| {
        number::percent(s.unmovable)
    }));
    table.push(row("2 MiB blocks that it spoils".into(), summaries, &|s| {
        number::percent(s.spoiled)
    }));
    table.push(row("memory below the border".into(), summaries, &|s| match s.unmovable_region {
        0.0 => "-".to_owned(),
        share => number::percent(share),
    }));
    table.push(row("pages moved for a GiB that a border passed".into(), summaries, &|s| {
        s.moved_per_gib.map_or("-".to_owned(), number::short)
    }));
    table.push(row(
        "in 10 million: kernel's requests and pins that failed".into(),
        summaries,
        &|s| number::short(s.failed_kernel_per_10_million),
    ));
    table.push(row(
        "in 10 million: allocations that waited for the border".into(),
        summaries,
        &|s| number::short(s.waited_per_10_million),
    ));
    let each = summaries.first().map_or(0, |s| s.by_workload.len());
    for at in (0..each).filter(|_| (2..=12).contains(&each)) {
        let name = &summaries[0].by_workload[at].workload;
        table.push(row(format!("{name}: failed, waited, in 10 million"), summaries, &|s| {
            s.by_workload.get(at).map_or("-".to_owned(), |found| {
                let failed = number::short(found.failed_kernel_per_10_million);
                format!("{failed}, {}", number::short(found.waited_per_10_million))
            })
        }));
    }
    let workloads = names(rows, |row| &row.workload);
    let charts = POTENTIAL_SIZES.iter().enumerate().map(|(at, size)| {
        let mean = |system: &str, workload: &str| {
            let of: Vec<f64> = rows
                .iter()
                .filter(|row| row.system == system && row.workload == workload)
                .map(|row| row.potential()[at])
                .collect();
            of.iter().sum::<f64>() / of.len() as f64
        };
        Block::BarChart(BarChart {
            title: format!("Memory that could be {size} blocks"),
            caption: "After a perfect software compaction, as a share of all memory.".to_owned(),
            x: Axis::new("workload", Unit::Number),
            y: Axis::new("share of memory", Unit::Share).within(0.0, 1.0),
            categories: workloads.clone(),
            series: summaries
                .iter()
                .map(|s| BarSeries {
                    name: s.system.clone(),
                    values: workloads.iter().map(|w| mean(&s.system, w)).collect(),
                })
                .collect(),
        })
    });
    let charts: Vec<Block> = if workloads.len() <= 12 { charts.collect() } else { Vec::new() };
    let table =
        Table { title: String::new(), columns: columns(summaries), rows: table, notes: Vec::new() };
    Section {
        heading: "Contiguity that could be had".to_owned(),
        intro: "Aligned blocks in which nothing is unmovable, as a share of all memory \
                (Contiguitas, Figure 5)."
            .to_owned(),
        blocks: std::iter::once(Block::Table(table)).chain(charts).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(uptime_s: f64, free_2_mib: u64) -> Row {
        Row {
            system: "linux".into(),
            workload: "web".into(),
            uptime_s,
            free_2_mib,
            free_frames: 1024,
            frames: 4096,
            potential_2_mib: 4,
            spoiled_blocks: 4,
            ..Row::default()
        }
    }

    #[test]
    fn a_fleet_of_three_by_hand() {
        let rows = [server(1.0, 0), server(2.0, 1), server(3.0, 2)];
        let summary = &summaries(&rows)[0];
        assert_eq!(summary.servers, 3);
        assert!((summary.without_free[0] - 1.0 / 3.0).abs() < 1e-12);
        // 0, a half and all of the free memory.
        assert!((summary.contiguity[0] - 0.5).abs() < 1e-12);
        assert_eq!((summary.potential[0], summary.spoiled), (0.5, 0.5));
        assert!((summary.uptime_correlation.unwrap() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn what_is_the_same_everywhere_correlates_with_nothing() {
        let rows = [server(1.0, 5), server(2.0, 5), server(f64::NAN, 9)];
        assert_eq!(summaries(&rows)[0].uptime_correlation, None);
    }
}
