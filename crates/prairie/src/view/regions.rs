//! Regions: the findings of a check, the daemon's status, its time series.

use std::fmt::Write;
use std::path::Path;

use prairie_regions::check::{Gain, Report as Checked};
use prairie_regions::series::Row;
use prairie_regions::status::{NodeStatus, Status};
use prairie_report::palette::{MOVABLE, MUTED, UNMOVABLE};
use prairie_report::table::wrap;
use prairie_report::{
    Axis, Block, Cell, Column, KeyFigure, LineChart, Marks, Paint, Panel, Report, Section, Series,
    Shape, Table, Timeline, Unit, number,
};

use super::findings;

/// Stuck blocks that are listed by name.
const LISTED: usize = 12;

/// The findings of a check, the expected gain, and what is in the way.
pub fn check(report: &Checked, width: usize) -> String {
    let mut text = findings::text(&report.findings, width);
    let Gain { block_bytes, blocks, movable, could_move, .. } = report.gain;
    if blocks > 0 {
        let gain = report.gain;
        let sentences = format!(
            "{could_move} of {blocks} blocks of {} could become movable now, {movable} are.\n\
             {} of kernel memory lie in {}; packed, {} would hold it.",
            number::bytes(block_bytes),
            number::bytes(gain.unmovable_bytes),
            number::counted(gain.polluted_blocks, "block"),
            gain.packed_blocks,
        );
        let _ = writeln!(text, "\n{}", wrap(&sentences, width, ""));
    }
    if !report.stuck.is_empty() {
        text.push_str("\nBlocks that stay where they are:\n");
    }
    for stuck in report.stuck.iter().take(LISTED) {
        let block = stuck.block;
        let head = format!("  block {:<5} node {}  ", block.number, block.node);
        text += &findings::hanging(&head, &stuck.why, width);
        text += &findings::remedy(stuck.remedy, width);
    }
    if report.stuck.len() > LISTED {
        let _ = writeln!(text, "  {} more; --json has all", report.stuck.len() - LISTED);
    }
    text
}

/// What the daemon does.
pub fn status(status: &Status) -> Report {
    let mut blocks = vec![Block::KeyFigures(figures(status))];
    if !status.trouble.is_empty() {
        blocks.push(Block::Warning(status.trouble.clone()));
    }
    if status.dry_run {
        blocks.push(Block::Note("A dry run: no block is moved.".to_owned()));
    }
    blocks.push(Block::Table(nodes(status)));
    let recent = Table {
        columns: vec![Column::text("operation")],
        rows: status.recent.iter().map(|line| vec![line.clone().into()]).collect(),
        ..Table::default()
    };
    Report {
        title: "Regions".to_owned(),
        subtitle: format!("memory blocks of {}", number::bytes(status.block_bytes)),
        generated_by: format!("prairie {}", status.version),
        sections: vec![
            Section { heading: "Regions now".to_owned(), intro: String::new(), blocks },
            Section::of_table("Last operations", recent),
        ],
    }
}

fn figures(status: &Status) -> Vec<KeyFigure> {
    vec![
        KeyFigure::new(
            status.blocks_kernel.to_string(),
            "blocks in the kernel region",
            format!("{} are movable, {} are neither.", status.blocks_movable, status.blocks_fixed),
        ),
        KeyFigure::new(
            status.movable_gigabytes.to_string(),
            "whole movable gigabytes",
            "Available as 1 GiB pages once what they hold is moved.".to_owned(),
        ),
        KeyFigure::new(
            status.operations.to_string(),
            "operations",
            format!(
                "{} failed; {} in the last hour; {:.1} s in all.",
                status.operations_failed, status.operations_last_hour, status.operation_seconds
            ),
        ),
        KeyFigure::new(
            format!("{:.2} s", status.cpu_seconds),
            "of CPU time so far",
            format!("{} OOM kills since the start.", status.oom_kills),
        ),
    ]
}

fn nodes(status: &Status) -> Table {
    let columns = vec![
        Column::number("node"),
        Column::number("kernel region"),
        Column::number("available"),
        Column::number("reserve"),
        Column::number("rate"),
        Column::number("movable zone"),
        Column::number("free"),
        Column::number("cache"),
        Column::number("stalled, kernel"),
        Column::number("user"),
        Column::text("now"),
    ];
    let row = |node: &NodeStatus| -> Vec<Cell> {
        let now = match (node.guard.as_str(), node.set_up) {
            ("", true) => "at rest".to_owned(),
            ("", false) => "setting up".to_owned(),
            (guard, _) => guard.to_owned(),
        };
        vec![
            node.node.to_string().into(),
            number::bytes(node.kernel_bytes).into(),
            number::bytes(node.kernel_available_bytes).into(),
            number::bytes(node.reserve_bytes).into(),
            format!("{}/s", number::bytes(node.rate_bytes)).into(),
            number::bytes(node.movable_bytes).into(),
            number::bytes(node.movable_free_bytes).into(),
            number::bytes(node.movable_cache_bytes).into(),
            number::percent(node.kernel_stalled).into(),
            number::percent(node.user_stalled).into(),
            now.into(),
        ]
    };
    Table { columns, rows: status.nodes.iter().map(row).collect(), ..Table::default() }
}

/// A line over a node's rows.
type Line = (&'static str, Paint, fn(&Row) -> f64);

const FRAME: f64 = 4096.0;

const SIZES: [Line; 2] = [
    ("kernel region", UNMOVABLE[0], |r| r.kernel as f64 * FRAME),
    ("of it used by the kernel", UNMOVABLE[3], |r| r.kernel_own as f64 * FRAME),
];

const FREE: [Line; 4] = [
    ("kernel region, available", UNMOVABLE[0], |r| r.kernel_available as f64 * FRAME),
    ("its reserve", UNMOVABLE[1], |r| r.reserve as f64 * FRAME),
    ("movable zone, free", MOVABLE[0], |r| r.movable_free as f64 * FRAME),
    ("page cache there", MOVABLE[2], |r| r.movable_cache as f64 * FRAME),
];

const PRESSURE: [Line; 2] = [
    ("for kernel memory", UNMOVABLE[0], |r| r.kernel_stalled as f64 / 1e3),
    ("for user memory", MOVABLE[0], |r| r.user_stalled as f64 / 1e3),
];

fn seconds(rows: &[Row], row: &Row) -> f64 {
    (row.at_ms - rows[0].at_ms) as f64 / 1e3
}

fn series(rows: &[Row], node: i64, line: &Line) -> Series {
    let own = rows.iter().filter(|row| row.node == node);
    let points = own.map(|row| (seconds(rows, row), line.2(row))).collect();
    Series { name: line.0.to_owned(), points }
}

/// Everything of the first node over one time axis.
pub fn timeline(file: &Path, rows: &[Row]) -> Timeline {
    let node = rows[0].node;
    let panel = |label: &str, unit, lines: &[Line]| Panel {
        y: Axis::new(label, unit),
        lines: lines.iter().map(|line| (series(rows, node, line), line.1)).collect(),
        shape: Shape::Steps,
    };
    let marks = |name: &str, paint, wanted: &dyn Fn(&Row) -> bool| Marks {
        name: name.to_owned(),
        paint,
        at: rows
            .iter()
            .filter(|row| row.node == node && row.block >= 0 && wanted(row))
            .map(|row| seconds(rows, row))
            .collect(),
    };
    let done = |row: &Row| row.outcome == "done";
    let end = rows.last().map_or(1.0, |row| seconds(rows, row)).max(1.0);
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    Timeline {
        title: format!("Regions of a kernel: {name}"),
        caption: format!("Node {node}: sizes, free memory, stalls, and converted blocks."),
        x: Axis::new("time", Unit::Seconds).within(0.0, end),
        panels: vec![
            panel("Region", Unit::Bytes, &SIZES),
            panel("Free memory", Unit::Bytes, &FREE),
            panel("Time stalled", Unit::Share, &PRESSURE),
        ],
        marks: vec![
            marks("to the kernel region", UNMOVABLE[0], &|r| done(r) && r.to == "kernel"),
            marks("to the movable zone", MOVABLE[0], &|r| done(r) && r.to == "movable"),
            marks("refused", MUTED, &|r| !done(r)),
        ],
    }
}

/// The report: lines, and the operations one by one.
pub fn explain(file: &Path, rows: &[Row]) -> Report {
    let mut nodes: Vec<i64> = rows.iter().map(|row| row.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let mut sections = vec![Section::of_table("Operations", operations(rows))];
    for node in nodes {
        let chart = |title: &str, unit, lines: &[Line]| {
            Block::LineChart(LineChart {
                title: title.to_owned(),
                x: Axis::new("time", Unit::Seconds),
                y: Axis::new("", unit),
                series: lines.iter().map(|line| series(rows, node, line)).collect(),
                shape: Shape::Steps,
                ..LineChart::default()
            })
        };
        sections.push(Section {
            heading: format!("Node {node} over time"),
            intro: String::new(),
            blocks: vec![
                chart("The kernel region", Unit::Bytes, &SIZES),
                chart("Free memory", Unit::Bytes, &FREE),
                chart("Share of time stalled", Unit::Share, &PRESSURE),
            ],
        });
    }
    let lasted = rows.last().map_or(0.0, |row| seconds(rows, row));
    Report {
        title: "Regions of a kernel".to_owned(),
        subtitle: format!("{} · {}", file.display(), number::duration((lasted * 1e9) as u64)),
        generated_by: format!("prairie {}", env!("CARGO_PKG_VERSION")),
        sections,
    }
}

fn operations(rows: &[Row]) -> Table {
    let row = |row: &Row| -> Vec<Cell> {
        vec![
            number::duration((seconds(rows, row) * 1e9) as u64).into(),
            row.block.to_string().into(),
            row.to.clone().into(),
            row.reason.clone().into(),
            row.outcome.clone().into(),
            number::duration(row.took_ms.max(0) as u64 * 1_000_000).into(),
            number::bytes(row.kernel_available.max(0) as u64 * 4096).into(),
            number::bytes(row.reserve.max(0) as u64 * 4096).into(),
        ]
    };
    Table {
        columns: vec![
            Column::number("after"),
            Column::number("block"),
            Column::text("to"),
            Column::text("reason"),
            Column::text("result"),
            Column::number("took"),
            Column::number("available"),
            Column::number("reserve"),
        ],
        rows: rows.iter().filter(|row| row.block >= 0).map(row).collect(),
        ..Table::default()
    }
}
