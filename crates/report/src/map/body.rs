//! The map itself, without title or legend: cells, grid lines, zone borders, labels.

use std::fmt::Write;

use super::labels::{Label, draw_labels, place_labels};
use super::{Layout, MemoryMap};
use crate::palette::{GROUND, INK, Theme};
use crate::svg::{number, paint};

/// A drawn map and its size in pixels.
pub(crate) struct MapBody {
    pub width: f64,
    pub height: f64,
    /// Side of a cell.
    pub cell: f64,
    /// Height of the strip of labels above the cells.
    pub top: f64,
    pub layout: Layout,
    /// SVG elements, from (0, 0).
    pub svg: String,
}

/// No zone, or no cell.
const NOTHING: u16 = u16::MAX;

/// Draws a valid map about `width` pixels wide and `aspect` times as wide as high; `strip` leaves
/// room above it for labels, needed or not, so that maps side by side begin at one height.
pub(crate) fn body(
    map: &MemoryMap,
    (width, aspect): (f64, f64),
    strip: bool,
    theme: Theme,
) -> MapBody {
    let (layout, cell) = lay_out(map, width, aspect);
    let zones = layout.grid(NOTHING, zone_of_cells(map));
    let labels = place_labels(map, &layout, &zones, cell);
    let top = if strip { Label::STRIP } else { 0.0 };
    let (map_width, map_height) = (layout.columns as f64 * cell, layout.rows as f64 * cell);

    let mut svg = String::new();
    let _ = writeln!(svg, "<g transform=\"translate(0 {})\">", number(top));
    cells(&mut svg, map, &layout, cell, theme);
    // The pointer reaches through to the cells.
    svg.push_str("<g pointer-events=\"none\">\n");
    if cell >= 5.0 {
        grid_lines(&mut svg, &layout, cell, theme);
    }
    borders(&mut svg, &layout, &zones, cell, theme);
    draw_labels(&mut svg, &labels, theme);
    svg.push_str("</g>\n</g>\n");
    MapBody { width: map_width, height: map_height + top, cell, top, layout, svg }
}

/// Whether a map so drawn has labels above it.
pub(crate) fn has_labels_above(map: &MemoryMap, (width, aspect): (f64, f64)) -> bool {
    let (layout, cell) = lay_out(map, width, aspect);
    let zones = layout.grid(NOTHING, zone_of_cells(map));
    place_labels(map, &layout, &zones, cell).iter().any(|label| label.above)
}

/// The layout and the side of a cell: whole pixels, so that every cell is as large as its
/// neighbor.
fn lay_out(map: &MemoryMap, width: f64, aspect: f64) -> (Layout, f64) {
    let layout = Layout::new(map.len(), aspect);
    let cell = (width / layout.columns as f64).floor().clamp(1.0, 48.0);
    (layout, cell)
}

/// Which zone each cell, by rising address, belongs to.
fn zone_of_cells(map: &MemoryMap) -> impl FnMut(usize) -> u16 {
    let mut owners = Vec::with_capacity(map.len());
    for (pfn, _) in map.cells() {
        let owner = map.zones.iter().rposition(|z| (z.start_pfn..z.end_pfn).contains(&pfn));
        owners.push(owner.map_or(NOTHING, |zone| zone.min(usize::from(NOTHING) - 1) as u16));
    }
    move |cell| owners[cell]
}

/// One path for each class: runs of cells along a row as strokes one cell thick.
fn cells(out: &mut String, map: &MemoryMap, layout: &Layout, cell: f64, theme: Theme) {
    let classes: Vec<u8> = map.cells().map(|(_, class)| class).collect();
    let grid = layout.grid(None, |cell| Some(classes[cell]));
    let mut pens = vec![Pen::default(); map.classes.len()];
    for (y, row) in grid.chunks(layout.columns).enumerate() {
        let mut x = 0;
        for run in row.chunk_by(|a, b| a == b) {
            if let Some(class) = run[0] {
                pens[usize::from(class)].run(x, y, run.len());
            }
            x += run.len();
        }
    }
    let _ = writeln!(
        out,
        "<g transform=\"scale({})\" fill=\"none\" shape-rendering=\"crispEdges\">",
        number(cell)
    );
    for (i, (class, pen)) in map.classes.iter().zip(&pens).enumerate() {
        if let (Some(color), false) = (class.paint, pen.path.is_empty()) {
            let color = paint("stroke", color, theme);
            let _ = writeln!(out, "<path data-c=\"{i}\" {color} d=\"{}\"/>", pen.path);
        }
    }
    out.push_str("</g>\n");
}

/// A path written in short relative moves.
#[derive(Clone, Default)]
struct Pen {
    path: String,
    x: i64,
    y: i64,
}

impl Pen {
    /// A stroke over `length` cells from column `x` in row `y`.
    fn run(&mut self, x: usize, y: usize, length: usize) {
        let (x, y) = (x as i64, y as i64);
        let _ = match self.path.is_empty() {
            true => write!(self.path, "M{x} {y}.5h{length}"),
            false => write!(self.path, "m{} {}h{length}", x - self.x, y - self.y),
        };
        (self.x, self.y) = (x + length as i64, y);
    }

    /// A line from a grid point.
    fn line(&mut self, x: usize, y: usize, direction: char, length: usize) {
        let (x, y) = (x as i64, y as i64);
        let _ = match self.path.is_empty() {
            true => write!(self.path, "M{x} {y}{direction}{length}"),
            false => write!(self.path, "m{} {}{direction}{length}", x - self.x, y - self.y),
        };
        (self.x, self.y) = match direction {
            'h' => (x + length as i64, y),
            _ => (x, y + length as i64),
        };
    }
}

/// Hairlines of the ground's color between cells that are large enough to be seen singly.
fn grid_lines(out: &mut String, layout: &Layout, cell: f64, theme: Theme) {
    let mut pen = Pen::default();
    (1..layout.columns).for_each(|x| pen.line(x, 0, 'v', layout.rows));
    (1..layout.rows).for_each(|y| pen.line(0, y, 'h', layout.columns));
    let _ = writeln!(
        out,
        "<path transform=\"scale({})\" stroke-width=\"{}\" opacity=\".55\" {} d=\"{}\"/>",
        number(cell),
        number(0.7 / cell),
        paint("stroke", GROUND, theme),
        pen.path,
    );
}

/// The outline of every zone: each edge between two cells of different zones, once.
fn borders(out: &mut String, layout: &Layout, zones: &[u16], cell: f64, theme: Theme) {
    let (columns, rows) = (layout.columns, layout.rows);
    let zone = |x: usize, y: usize| zones[y * columns + x];
    let zone_or_nothing = |x: Option<usize>, y: Option<usize>| match (x, y) {
        (Some(x), Some(y)) if x < columns && y < rows => zone(x, y),
        _ => NOTHING,
    };
    let mut pen = Pen::default();
    for y in 0..=rows {
        let edge = |x: usize| {
            zone_or_nothing(Some(x), y.checked_sub(1)) != zone_or_nothing(Some(x), Some(y))
        };
        for (x, length) in runs(columns, edge) {
            pen.line(x, y, 'h', length);
        }
    }
    for x in 0..=columns {
        let edge = |y: usize| {
            zone_or_nothing(x.checked_sub(1), Some(y)) != zone_or_nothing(Some(x), Some(y))
        };
        for (y, length) in runs(rows, edge) {
            pen.line(x, y, 'v', length);
        }
    }
    if pen.path.is_empty() {
        return;
    }
    // A rim of the ground's color keeps the line visible on every class.
    for (color, width) in [(GROUND, 3.6), (INK, 1.4)] {
        let _ = writeln!(
            out,
            "<path transform=\"scale({})\" fill=\"none\" stroke-linecap=\"square\" \
             stroke-width=\"{}\" {} d=\"{}\"/>",
            number(cell),
            format_args!("{:.4}", width / cell),
            paint("stroke", color, theme),
            pen.path,
        );
    }
}

/// The maximal runs of positions where `holds`, as (start, length).
fn runs(length: usize, holds: impl Fn(usize) -> bool) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for position in (0..length).filter(|position| holds(*position)) {
        match runs.last_mut() {
            Some((start, run)) if *start + *run == position => *run += 1,
            _ => runs.push((position, 1)),
        }
    }
    runs
}
