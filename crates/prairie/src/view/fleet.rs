//! A fleet's servers as a report: how contiguous their free memory is (Contiguitas, Figure 2), and
//! how contiguous their memory could be (Figure 5).

use std::path::Path;

use prairie_fleet::row::Row;
use prairie_report::{
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
        subtitle: format!("{} · {}", folder.display(), number::counted(servers as u64, "server")),
        generated_by,
        sections: vec![available(rows, &summaries), potential(rows, &summaries)],
    }
}

/// Characters that the systems' names may take together as heads of columns, so that a terminal of
/// 80 columns has room for what they measure.
const HEADS: usize = 48;

/// A column for each system. Names that would have to be broken up stand below, and their numbers
/// above the columns.
fn table(summaries: &[Summary], rows: Vec<Vec<Cell>>) -> Table {
    let names = summaries.iter().map(|summary| summary.system.as_str());
    let numbers = names.clone().map(str::len).sum::<usize>() > HEADS;
    let heads = names.clone().enumerate().map(|(at, name)| match numbers {
        true => Column::number((at + 1).to_string()),
        false => Column::number(name),
    });
    let legend = names.clone().enumerate().map(|(at, name)| format!("{}: {name}", at + 1));
    Table {
        title: String::new(),
        columns: std::iter::once(Column::text("")).chain(heads).collect(),
        rows,
        notes: if numbers { legend.collect() } else { Vec::new() },
    }
}

fn row(name: String, summaries: &[Summary], of: &dyn Fn(&Summary) -> String) -> Vec<Cell> {
    std::iter::once(Cell::from(name)).chain(summaries.iter().map(|s| of(s).into())).collect()
}

fn available(rows: &[Row], summaries: &[Summary]) -> Section {
    let mut shown = Vec::new();
    for (at, size) in SIZES.iter().enumerate() {
        shown.push(row(format!("servers without a free {size} block"), summaries, &|s| {
            number::percent(s.without_free[at])
        }));
    }
    for (at, size) in SIZES.iter().enumerate() {
        shown.push(row(format!("free memory in free {size} blocks, mean"), summaries, &|s| {
            number::percent(s.contiguity[at])
        }));
    }
    shown.push(row("correlation of uptime and free 2 MiB blocks".into(), summaries, &|s| {
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
        blocks: vec![Block::Table(table(summaries, shown)), Block::LineChart(distribution)],
    }
}

/// What a rate counts, and the rate.
type FailureRate = (&'static str, fn(&WorkloadFailures) -> f64);

/// Two rows for each workload, if there are several and not too many.
fn failures_by_workload(summaries: &[Summary]) -> Vec<Vec<Cell>> {
    let what: [FailureRate; 2] = [
        ("failed", |found| found.failed_kernel_per_10_million),
        ("waited", |found| found.waited_per_10_million),
    ];
    let workloads = summaries.first().map_or(&[][..], |first| &first.by_workload);
    let workloads = workloads.iter().enumerate().filter(|_| (2..=12).contains(&workloads.len()));
    let rows = workloads.flat_map(|(at, found)| {
        what.map(|(what, of)| {
            row(format!("{}: {what}, in 10 million", found.workload), summaries, &|s| {
                s.by_workload.get(at).map_or("-".to_owned(), |found| number::short(of(found)))
            })
        })
    });
    rows.collect()
}

fn potential(rows: &[Row], summaries: &[Summary]) -> Section {
    let mut shown = Vec::new();
    for (at, size) in POTENTIAL_SIZES.iter().enumerate() {
        shown.push(row(format!("memory that could be {size} blocks, mean"), summaries, &|s| {
            number::percent(s.potential[at])
        }));
    }
    shown.push(row("memory that cannot be moved".into(), summaries, &|s| {
        number::percent(s.unmovable)
    }));
    shown.push(row("2 MiB blocks that it spoils".into(), summaries, &|s| {
        number::percent(s.spoiled)
    }));
    shown.push(row("memory below the border".into(), summaries, &|s| match s.unmovable_region {
        0.0 => "-".to_owned(),
        share => number::percent(share),
    }));
    shown.push(row("pages moved for a GiB that a border passed".into(), summaries, &|s| {
        s.moved_per_gib.map_or("-".to_owned(), number::short)
    }));
    shown.push(row(
        "in 10 million: kernel's requests and pins that failed".into(),
        summaries,
        &|s| number::short(s.failed_kernel_per_10_million),
    ));
    shown.push(row(
        "in 10 million: allocations that waited for the border".into(),
        summaries,
        &|s| number::short(s.waited_per_10_million),
    ));
    shown.extend(failures_by_workload(summaries));
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
    Section {
        heading: "Contiguity that could be had".to_owned(),
        intro: "Aligned blocks in which nothing is unmovable, as a share of all memory \
                (Contiguitas, Figure 5)."
            .to_owned(),
        blocks: std::iter::once(Block::Table(table(summaries, shown))).chain(charts).collect(),
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

    /// Nine systems with long names, on a terminal of 80 columns: no head and no figure is broken.
    #[test]
    fn an_ablation_fits_a_terminal() {
        let of = |name: &&str| Row { system: (*name).to_owned(), ..server(1.0, 7) };
        let rows: Vec<Row> = prairie_model::allocator::ABLATION.iter().map(of).collect();
        let terminal = prairie_report::Terminal { width: 80, ..prairie_report::Terminal::PLAIN };
        for section in [available, potential].map(|make| make(&rows, &summaries(&rows))) {
            let Block::Table(table) = &section.blocks[0] else { panic!("a table first") };
            let shown = table.terminal(terminal);
            let head: Vec<&str> = shown.lines().next().unwrap().split_whitespace().collect();
            assert_eq!(head, ["1", "2", "3", "4", "5", "6", "7", "8", "9"], "{shown}");
            assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
            assert!(shown.contains("6: contiguitas\n"), "{shown}");
            // Each of the nine figures of a row stands on one line.
            let figure = table.rows[0][1].text.as_str();
            assert!(shown.lines().any(|line| line.matches(figure).count() == 9), "{shown}");
        }
        let few = summaries(&rows[..1]);
        let Block::Table(table) = &available(&rows, &few).blocks[0] else { panic!("a table") };
        assert_eq!((table.columns[1].heading.as_str(), table.notes.len()), ("linux", 0));
    }

    #[test]
    fn what_is_the_same_everywhere_correlates_with_nothing() {
        let rows = [server(1.0, 5), server(2.0, 5), server(f64::NAN, 9)];
        assert_eq!(summaries(&rows)[0].uptime_correlation, None);
    }
}
