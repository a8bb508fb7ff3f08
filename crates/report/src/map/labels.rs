//! Names on zones: inside where there is room, else above the map with a line to the zone.

use std::fmt::Write;

use super::{Layout, MemoryMap};
use crate::palette::{GROUND, INK, Theme};
use crate::svg::{Text, number, paint, text_width};

/// A zone's name and its place, in pixels from the map's top left corner.
pub(crate) struct Label {
    text: String,
    /// Center of the plate.
    x: f64,
    y: f64,
    width: f64,
    /// Whether it stands above the map, tied to a place in the zone.
    pub above: bool,
    anchor: (f64, f64),
}

impl Label {
    /// Height of the strip above the map that labels may need.
    pub const STRIP: f64 = 30.0;
    const SIZE: f64 = 13.0;
    const HEIGHT: f64 = 21.0;
}

/// A place for the label of each zone that has cells.
pub(crate) fn place_labels(
    map: &MemoryMap,
    layout: &Layout,
    zones: &[u16],
    cell: f64,
) -> Vec<Label> {
    let room = Room::of(layout, zones);
    let mut labels = Vec::new();
    // How far the strip above is taken.
    let mut taken = 0.0;
    for (zone, named) in map.zones.iter().enumerate().filter(|(_, zone)| !zone.label.is_empty()) {
        let Some((column, row, radius)) = room.widest(zones, zone) else { continue };
        let width = text_width(&named.label, Label::SIZE, true) + 14.0;
        let roomy = 2.0 * f64::from(radius) * cell >= Label::HEIGHT * 1.6;
        let (from, to) = row_span(layout, zones, column, row);
        let above = !roomy || ((to - from) as f64 * cell) < width * 0.8;
        let half = width / 2.0;
        let (x, y) = middle(column, row, cell);
        let label = |x, y, anchor| Label { text: named.label.clone(), x, y, width, above, anchor };
        labels.push(if above {
            let x = (x - 10.0 + half).max(taken + half);
            taken = x + half + 6.0;
            let (column, row) = room.nearest(zones, zone, x / cell);
            label(x, -Label::STRIP + Label::HEIGHT / 2.0, middle(column, row, cell))
        } else {
            let map_width = layout.columns as f64 * cell;
            label(x.clamp(half + 4.0, (map_width - half - 4.0).max(half + 4.0)), y, (x, y))
        });
    }
    labels
}

/// The middle of a cell in pixels.
fn middle(column: usize, row: usize, cell: f64) -> (f64, f64) {
    ((column as f64 + 0.5) * cell, (row as f64 + 0.5) * cell)
}

pub(crate) fn draw_labels(out: &mut String, labels: &[Label], theme: Theme) {
    for label in labels {
        if label.above {
            let foot =
                label.anchor.0.clamp(label.x - label.width / 2.0, label.x + label.width / 2.0);
            let path = format!(
                "M{} {}L{} {}",
                number(foot),
                number(label.y + Label::HEIGHT / 2.0),
                number(label.anchor.0),
                number(label.anchor.1),
            );
            for (color, width) in [(GROUND, "3.6"), (INK, "1.4")] {
                let color = paint("stroke", color, theme);
                let _ = writeln!(out, "<path d=\"{path}\" stroke-width=\"{width}\" {color}/>");
            }
        }
        let _ = writeln!(
            out,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"4\" fill-opacity=\".92\" {}/>",
            number(label.x - label.width / 2.0),
            number(label.y - Label::HEIGHT / 2.0),
            number(label.width),
            number(Label::HEIGHT),
            paint("fill", GROUND, theme),
        );
        let text = Text {
            x: label.x,
            y: label.y + Label::SIZE * 0.36,
            size: Label::SIZE,
            strong: true,
            paint: INK,
            anchor: "middle",
            text: &label.text,
        };
        text.draw(out, theme);
        out.push('\n');
    }
}

/// The columns from the first to past the last that hold the same zone around a place.
fn row_span(layout: &Layout, zones: &[u16], column: usize, row: usize) -> (usize, usize) {
    let row = &zones[row * layout.columns..][..layout.columns];
    let same = |x: &usize| row[*x] == row[column];
    let left = (0..column).rev().take_while(same).count();
    let right = (column..layout.columns).take_while(same).count();
    (column - left, column + right)
}

/// For each place, the distance to the nearest other zone or edge (in cells, king's moves).
struct Room {
    columns: usize,
    distance: Vec<u32>,
}

impl Room {
    /// Two sweeps, each looking at the four neighbors already settled.
    fn of(layout: &Layout, zones: &[u16]) -> Room {
        let (columns, rows) = (layout.columns, layout.rows);
        let mut distance = vec![1u32; zones.len()];
        let at = |x: usize, y: usize| y * columns + x;
        let inner = |x: usize, y: usize| x > 0 && y > 0 && x + 1 < columns && y + 1 < rows;
        let around = |x: usize, y: usize| {
            let before = [at(x - 1, y), at(x - 1, y - 1), at(x, y - 1), at(x + 1, y - 1)];
            let after = [at(x + 1, y), at(x + 1, y + 1), at(x, y + 1), at(x - 1, y + 1)];
            (before, after)
        };
        for y in 0..rows {
            for x in (0..columns).filter(|x| inner(*x, y)) {
                let (before, after) = around(x, y);
                let zone = zones[at(x, y)];
                if before.iter().chain(&after).all(|&n| zones[n] == zone) {
                    distance[at(x, y)] =
                        before.map(|n| distance[n]).into_iter().min().unwrap_or(0) + 1;
                }
            }
        }
        for y in (0..rows).rev() {
            for x in (0..columns).rev().filter(|x| inner(*x, y)) {
                let (_, after) = around(x, y);
                let nearest = after.map(|n| distance[n]).into_iter().min().unwrap_or(0) + 1;
                let here = &mut distance[at(x, y)];
                *here = (*here).min(nearest);
            }
        }
        Room { columns, distance }
    }

    /// The roomiest place of a zone: column, row, distance. The one nearest the zone's middle in
    /// reading order when several are alike.
    fn widest(&self, zones: &[u16], zone: usize) -> Option<(usize, usize, u32)> {
        let places = (0..zones.len()).filter(|place| usize::from(zones[*place]) == zone);
        let best = places.clone().map(|place| self.distance[place]).max()?;
        let alike: Vec<usize> = places.filter(|place| self.distance[*place] == best).collect();
        let place = alike[alike.len() / 2];
        Some((place % self.columns, place / self.columns, best))
    }

    /// The place in a zone that a line from above column `x` reaches first, a little inside.
    fn nearest(&self, zones: &[u16], zone: usize, x: f64) -> (usize, usize) {
        let inside = |place: &usize| usize::from(zones[*place]) == zone;
        let deepest = (0..zones.len()).filter(inside).map(|p| self.distance[p]).max().unwrap_or(0);
        let at = |place: usize| (place % self.columns, place / self.columns);
        let far = |place: &usize| {
            let (column, row) = at(*place);
            (column as f64 - x).abs() + row as f64
        };
        let places =
            (0..zones.len()).filter(inside).filter(|p| self.distance[*p] >= deepest.min(4));
        places.min_by(|a, b| far(a).total_cmp(&far(b))).map_or((0, 0), at)
    }
}
