//! The regions of a kernel with a movable border, over the time of a log.

use std::path::Path;

use prairie_frames::Order;
use prairie_observe::Summary;
use prairie_observe::summary::RegionsRow;
use prairie_report::palette::{MOVABLE, MUTED, UNMOVABLE};
use prairie_report::{
    Axis, Block, Cell, Column, Marks, Paint, Panel, Report, Section, Series, Shape, Table,
    Timeline, Unit, number,
};

use super::{chart, section};

/// A line over a node's rows.
type Line = (&'static str, Paint, fn(&RegionsRow) -> Option<f64>);

const BORDER: [Line; 1] =
    [("border", UNMOVABLE[0], |r| Some(r.border_pfn as f64 * Order::BASE.bytes() as f64))];

const SIZES: [Line; 2] = [
    ("unmovable region", UNMOVABLE[0], |r| Some(r.unmovable_bytes as f64)),
    ("movable region", MOVABLE[0], |r| Some(r.movable_bytes as f64)),
];

const BELOW: [Line; 3] = [
    ("unmovable region", UNMOVABLE[0], |r| bytes(r.unmovable_available_bytes)),
    ("its low mark", UNMOVABLE[1], |r| bytes(r.unmovable_low_bytes)),
    ("its high mark", UNMOVABLE[3], |r| bytes(r.unmovable_high_bytes)),
];

const ABOVE: [Line; 2] = [
    ("movable region", MOVABLE[0], |r| bytes(r.movable_available_bytes)),
    ("its low mark", MOVABLE[2], |r| bytes(r.movable_low_bytes)),
];

/// A counter of a node.
type Counter = (&'static str, Paint, fn(&RegionsRow) -> Option<u64>);

/// Microseconds.
const STALLED: [Counter; 2] = [
    ("for unmovable memory", UNMOVABLE[0], |r| r.unmovable_some_us),
    ("for movable memory", MOVABLE[0], |r| r.movable_some_us),
];

const EVENTS: [Counter; 4] = [
    ("border moved up", UNMOVABLE[0], |r| r.grown_pageblocks),
    ("border moved down", MOVABLE[0], |r| r.shrunk_pageblocks),
    ("moves failed", MUTED, |r| r.failed_moves),
    ("requests waited", MUTED, |r| r.waits),
];

fn bytes(bytes: Option<u64>) -> Option<f64> {
    bytes.map(|bytes| bytes as f64)
}

/// The nodes that have regions in some row, ascending.
fn nodes(rows: &[Summary]) -> Vec<u32> {
    let mut nodes: Vec<u32> =
        rows.iter().flat_map(|row| &row.regions).map(|regions| regions.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// A section for each node; none for other kernels.
pub fn sections(rows: &[Summary]) -> Vec<Section> {
    let of_node = |node: u32| {
        let values = |title: &str, lines: &[Line]| {
            let values = lines.iter().map(|(name, _, value)| {
                let value = move |row: &Summary, _: Option<&Summary>| value(row.regions_of(node)?);
                (*name, value)
            });
            let values: Vec<_> = values.collect();
            let lines = values.iter().map(|(name, value)| -> super::Line<'_> { (*name, value) });
            chart(rows, title, Unit::Bytes, &lines.collect::<Vec<_>>())
        };
        let stalled = STALLED.map(|(name, _, us)| {
            let share = move |row: &Summary, before: Option<&Summary>| {
                Some(row.regions_rate(before?, node, us)? / 1e6)
            };
            (name, share)
        });
        let stalled = stalled.each_ref().map(|(name, share)| -> super::Line<'_> { (*name, share) });
        let blocks = vec![
            values("Address of the border", &BORDER),
            values("Size of the regions", &SIZES),
            values("Free memory below the border", &BELOW),
            values("Free memory above the border", &ABOVE),
            chart(rows, "Share of time stalled", Unit::Share, &stalled),
            Block::Table(events(rows, node)),
        ];
        section(&format!("Regions of node {node}"), blocks)
    };
    nodes(rows).into_iter().map(of_node).collect()
}

/// What happened at the border between the first row and the last.
fn events(rows: &[Summary], node: u32) -> Table {
    let row = |(name, _, counter): &Counter| -> Vec<Cell> {
        let rises = rows.windows(2).filter_map(|pair| rise(&pair[0], &pair[1], node, *counter));
        vec![Cell::from(*name), number::count(rises.sum()).into()]
    };
    let mut table = Table::new(
        vec![Column::text("in the time of the log"), Column::number("pageblocks or events")],
        EVENTS.iter().map(row).collect(),
    );
    table.title = "Moves of the border".to_owned();
    table
}

/// How far a counter rose between two rows.
fn rise(
    before: &Summary,
    now: &Summary,
    node: u32,
    counter: fn(&RegionsRow) -> Option<u64>,
) -> Option<u64> {
    counter(now.regions_of(node)?)?.checked_sub(counter(before.regions_of(node)?)?)
}

/// The report of `prairie regions explain` on a log.
pub fn explain(file: &Path, rows: &[Summary], generated_by: String) -> Report {
    let lasted = rows.last().map_or(0.0, |row| seconds(rows, row));
    Report {
        title: "Regions of a kernel".to_owned(),
        subtitle: format!("{} · {}", file.display(), number::duration((lasted * 1e9) as u64)),
        generated_by,
        sections: sections(rows),
    }
}

fn seconds(rows: &[Summary], row: &Summary) -> f64 {
    (row.at_unix_ns - rows[0].at_unix_ns) as f64 / 1e9
}

/// Everything of the first node over one time axis; `None` for other kernels.
pub fn timeline(file: &Path, rows: &[Summary]) -> Option<Timeline> {
    let node = *nodes(rows).first()?;
    let values = |label: &str, lines: &[Line]| {
        let line = |(name, paint, value): &Line| {
            let point = |row: &Summary| {
                let value = row.regions_of(node).and_then(value).unwrap_or(f64::NAN);
                (seconds(rows, row), value)
            };
            let points = rows.iter().map(point).collect();
            (Series { name: (*name).to_owned(), points }, *paint)
        };
        panel(label, Unit::Bytes, lines.iter().map(line).collect())
    };
    let stalled = STALLED.map(|(name, paint, us)| {
        let point = |pair: &[Summary]| {
            let rate = pair[1].regions_rate(&pair[0], node, us);
            // A share holds from the row before on.
            (seconds(rows, &pair[0]), rate.map_or(f64::NAN, |us| us / 1e6))
        };
        (Series { name: name.to_owned(), points: rows.windows(2).map(point).collect() }, paint)
    });
    let marks = EVENTS.map(|(name, paint, counter)| {
        let happened =
            |pair: &&[Summary]| rise(&pair[0], &pair[1], node, counter).is_some_and(|n| n > 0);
        let at = rows.windows(2).filter(happened).map(|pair| seconds(rows, &pair[1])).collect();
        Marks { name: name.to_owned(), paint, at }
    });
    let end = rows.last().map_or(1.0, |row| seconds(rows, row)).max(1.0);
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    Some(Timeline {
        title: format!("Regions of a kernel: {name}"),
        caption: format!("Node {node}: border, sizes, free memory, and stalls."),
        x: Axis::new("time", Unit::Seconds).within(0.0, end),
        panels: vec![
            values("Border", &BORDER),
            values("Regions", &SIZES),
            values("Free below", &BELOW),
            values("Free above", &ABOVE),
            panel("Time stalled", Unit::Share, stalled.to_vec()),
        ],
        marks: marks.to_vec(),
    })
}

fn panel(label: &str, unit: Unit, lines: Vec<(Series, Paint)>) -> Panel {
    Panel { y: Axis::new(label, unit), lines, shape: Shape::Steps }
}
