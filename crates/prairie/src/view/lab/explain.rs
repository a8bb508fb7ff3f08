//! The resizer's wake-ups as a report and as a timeline.

use std::path::Path;

use prairie_replay::explain::{Action, Decider, WakeUp, WakeUps};
use prairie_report::palette::{MOVABLE, MUTED, UNMOVABLE};
use prairie_report::{
    Axis, Block, Cell, Column, LineChart, Marks, Paint, Panel, Report, Section, Series, Shape,
    Table, Timeline, Unit, number,
};
use serde::Serialize;

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
        subtitle: format!(
            "{} · {} · {}",
            file.display(),
            match explained.decider {
                Decider::Kernel => "decisions of the kernel",
                Decider::Replay => "decisions of contiguitas on the recorded requests",
                Decider::Simulation => "simulation",
            },
            number::duration(last)
        ),
        generated_by,
        sections,
    }
}

/// What the resizer did over a whole run.
#[derive(Serialize)]
pub struct Counts {
    wake_ups: u64,
    grown: u64,
    surplus_returned: u64,
    yielded: u64,
    reversals_delayed: u64,
    /// Pageblocks that the border moved.
    pageblocks: u64,
    /// Pages migrated out of its way.
    pages_moved: u64,
    /// Requests that waited for the border.
    waited: u64,
    /// The unmovable region of a node at a wake-up.
    mean_region_bytes: f64,
}

impl Counts {
    /// Counts the wake-ups of a run.
    pub fn of(explained: &WakeUps) -> Counts {
        let all = &explained.wake_ups;
        let with = |action| all.iter().filter(|w| w.action == action).count() as u64;
        let sum = |of: fn(&WakeUp) -> u64| all.iter().map(of).sum::<u64>();
        Counts {
            wake_ups: all.len() as u64,
            grown: with(Action::Grow),
            surplus_returned: with(Action::Shrink),
            yielded: with(Action::Yield),
            reversals_delayed: with(Action::Refused),
            pageblocks: sum(|w| w.pageblocks),
            pages_moved: sum(|w| w.pages_moved),
            waited: sum(|w| w.waited),
            mean_region_bytes: sum(|w| w.region_bytes) as f64 / all.len().max(1) as f64,
        }
    }

    fn of_action(&self, action: Action) -> u64 {
        match action {
            Action::Grow => self.grown,
            Action::Shrink => self.surplus_returned,
            Action::Yield => self.yielded,
            Action::Refused => self.reversals_delayed,
            Action::Stay => 0,
        }
    }
}

fn counts(explained: &WakeUps) -> Table {
    let minutes = explained.wake_ups.last().map_or(0.0, seconds).max(1.0) / 60.0;
    let row = |name: &str, count: u64| -> Vec<Cell> {
        vec![name.into(), number::count(count).into(), number::short(count as f64 / minutes).into()]
    };
    let counts = Counts::of(explained);
    let mut rows = vec![row("wake-ups", counts.wake_ups)];
    rows.extend(ACTIONS.iter().map(|&(action, name, _)| row(name, counts.of_action(action))));
    rows.push(row("pageblocks that the border moved", counts.pageblocks));
    rows.push(row("pages moved by the border", counts.pages_moved));
    rows.push(row("requests that waited for the border", counts.waited));
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
