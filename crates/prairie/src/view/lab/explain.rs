//! The resizer's wake-ups as a report and as a timeline.

use std::path::Path;

use prairie_replay::explain::{Action, WakeUp, WakeUps};
use prairie_report::palette::{MOVABLE, MUTED, UNMOVABLE};
use prairie_report::{
    Axis, Block, Cell, Column, LineChart, Marks, Paint, Panel, Report, Section, Series, Shape,
    Table, Timeline, Unit, number,
};

/// The name of each kind of decision, in the order of the rows.
const ACTIONS: [(Action, &str, Paint); 4] = [
    (Action::Grow, "grown", UNMOVABLE[0]),
    (Action::Shrink, "surplus returned", MOVABLE[3]),
    (Action::Yield, "yielded to programs", MOVABLE[0]),
    (Action::Refused, "reversal delayed", MUTED),
];

/// Rows of the table of decisions, at most.
const ROWS: usize = 60;

/// A line over the first node's wake-ups.
type Line = (&'static str, Paint, fn(&WakeUp) -> f64);

const SIZES: [Line; 2] = [
    ("unmovable region, up to the border", UNMOVABLE[0], |w| w.region_bytes as f64),
    ("in use or reserved", UNMOVABLE[3], |w| w.region_bytes.saturating_sub(w.free_bytes) as f64),
];

const FREE: [Line; 4] = [
    ("unmovable", UNMOVABLE[0], |w| w.free_bytes as f64),
    ("its low mark", UNMOVABLE[1], |w| w.low_bytes as f64),
    ("movable", MOVABLE[0], |w| w.movable_free_bytes as f64),
    ("its low mark", MOVABLE[2], |w| w.movable_low_bytes as f64),
];

const PRESSURE: [Line; 2] = [
    ("for unmovable memory", UNMOVABLE[0], |w| w.pressure_unmovable),
    ("for movable memory", MOVABLE[0], |w| w.pressure_movable),
];

fn seconds(wake_up: &WakeUp) -> f64 {
    wake_up.time_ns as f64 / 1e9
}

/// The nodes' numbers.
fn nodes(explained: &WakeUps) -> Vec<u16> {
    let mut nodes: Vec<u16> = explained.wake_ups.iter().map(|w| w.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

fn series(explained: &WakeUps, node: u16, line: &Line) -> Series {
    let own = explained.wake_ups.iter().filter(|w| w.node == node);
    Series { name: line.0.to_owned(), points: own.map(|w| (seconds(w), line.2(w))).collect() }
}

/// Everything of the first node over one time axis.
pub fn timeline(file: &Path, explained: &WakeUps) -> Timeline {
    let nodes = nodes(explained);
    let node = nodes.first().copied().unwrap_or(0);
    let panel = |label: &str, unit, lines: &[Line]| Panel {
        y: Axis::new(label, unit),
        lines: lines.iter().map(|line| (series(explained, node, line), line.1)).collect(),
        shape: Shape::Steps,
    };
    let own = || explained.wake_ups.iter().filter(|w| w.node == node);
    let mut marks: Vec<Marks> = ACTIONS
        .iter()
        .map(|&(action, name, paint)| Marks {
            name: name.to_owned(),
            paint,
            at: own().filter(|w| w.action == action).map(seconds).collect(),
        })
        .collect();
    marks.push(Marks {
        name: "requests waited".to_owned(),
        paint: UNMOVABLE[2],
        at: own().filter(|w| w.waited > 0).map(seconds).collect(),
    });
    let end = own().next_back().map_or(1.0, seconds);
    let others = match nodes.len() {
        0 | 1 => String::new(),
        all => format!(", node {node} of {all}"),
    };
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    Timeline {
        title: format!("The border of contiguitas: {name}{others}"),
        caption: "The resizer's inputs and decisions at each wake-up.".to_owned(),
        x: Axis::new("time", Unit::Seconds).within(0.0, end),
        panels: vec![
            panel("Region", Unit::Bytes, &SIZES),
            panel("Free memory", Unit::Bytes, &FREE),
            panel("Time stalled", Unit::Share, &PRESSURE),
        ],
        marks,
    }
}

/// The report: counts, lines, and the decisions one by one.
pub fn report(file: &Path, explained: &WakeUps, generated_by: String) -> Report {
    let mut sections = vec![Section {
        heading: "Resizer activity".to_owned(),
        intro: "At each wake-up it compares the free memory of both regions and the time that \
                something stalled for either; `docs/src/internals/contiguitas.md` has the formula."
            .to_owned(),
        blocks: vec![Block::Table(counts(explained)), Block::Table(decisions(explained))],
    }];
    for node in nodes(explained) {
        let chart = |title: &str, unit, lines: &[Line]| {
            Block::LineChart(LineChart {
                title: title.to_owned(),
                x: Axis::new("time", Unit::Seconds),
                y: Axis::new("", unit),
                series: lines.iter().map(|line| series(explained, node, line)).collect(),
                shape: Shape::Steps,
                ..LineChart::default()
            })
        };
        sections.push(Section {
            heading: format!("Node {node} over time"),
            intro: String::new(),
            blocks: vec![
                chart("The unmovable region", Unit::Bytes, &SIZES),
                chart("Free memory of the regions", Unit::Bytes, &FREE),
                chart("Share of time stalled", Unit::Share, &PRESSURE),
            ],
        });
    }
    let last = explained.wake_ups.last().map_or(0, |w| w.time_ns);
    Report {
        title: "The border of contiguitas".to_owned(),
        subtitle: format!("{} · {}", file.display(), number::duration(last)),
        generated_by,
        sections,
    }
}

fn counts(explained: &WakeUps) -> Table {
    let all = &explained.wake_ups;
    let minutes = all.last().map_or(0.0, seconds).max(1.0) / 60.0;
    let row = |name: &str, count: u64| -> Vec<Cell> {
        vec![name.into(), number::count(count).into(), number::short(count as f64 / minutes).into()]
    };
    let with = |action| all.iter().filter(|w| w.action == action).count() as u64;
    let sum = |of: fn(&WakeUp) -> u64| all.iter().map(of).sum::<u64>();
    let mut rows = vec![row("wake-ups", all.len() as u64)];
    rows.extend(ACTIONS.iter().map(|&(action, name, _)| row(name, with(action))));
    rows.push(row("pageblocks that the border moved", sum(|w| w.pageblocks)));
    rows.push(row("pages moved by the border", sum(|w| w.pages_moved)));
    rows.push(row("requests that waited for the border", sum(|w| w.waited)));
    Table::new(vec![Column::text(""), Column::number("count"), Column::number("per minute")], rows)
}

/// Why the border moved, or why a reversal was delayed.
fn reason(w: &WakeUp) -> &'static str {
    match w.action {
        Action::Grow if w.free_bytes < w.low_bytes => "unmovable memory below its low mark",
        Action::Grow => "stalls for unmovable memory",
        Action::Shrink => "free unmovable memory far above its target",
        Action::Yield if w.movable_free_bytes < w.movable_low_bytes => {
            "movable memory below its low mark"
        }
        Action::Yield => "stalls for movable memory",
        Action::Refused => "it just moved the other way",
        Action::Stay => "",
    }
}

fn decisions(explained: &WakeUps) -> Table {
    let made: Vec<&WakeUp> =
        explained.wake_ups.iter().filter(|w| w.action != Action::Stay).collect();
    let row = |w: &&WakeUp| -> Vec<Cell> {
        let name = ACTIONS.iter().find(|(action, ..)| *action == w.action).map_or("", |a| a.1);
        vec![
            number::duration(w.time_ns).into(),
            name.into(),
            number::count(w.pageblocks).into(),
            number::bytes(w.region_bytes).into(),
            number::bytes(w.free_bytes).into(),
            number::percent(w.pressure_unmovable).into(),
            number::percent(w.pressure_movable).into(),
            reason(w).into(),
        ]
    };
    let more = made.len().saturating_sub(ROWS);
    let note = format!("{} more; --json prints all.", number::count(more as u64));
    Table {
        title: "Decisions".to_owned(),
        columns: vec![
            Column::number("after"),
            Column::text("the border"),
            Column::number("pageblocks"),
            Column::number("region"),
            Column::number("free"),
            Column::number("stalled, unmovable"),
            Column::number("movable"),
            Column::text("reason"),
        ],
        rows: made.iter().take(ROWS).map(row).collect(),
        notes: if more > 0 { vec![note] } else { Vec::new() },
    }
}
