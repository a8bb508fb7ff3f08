//! A sheet: title, maps side by side, legend; as SVG and PNG.

use std::fmt::Write;

use super::{MapBody, MapError, MapSheet, MemoryMap, body, has_labels_above};
use crate::number;
use crate::palette::{INK, LINE, MUTED, Theme};
use crate::raster;
use crate::svg::{Text, document, number as px, paint, text_width};

/// White space around the sheet.
const MARGIN: f64 = 40.0;
/// Between maps.
const GUTTER: f64 = 36.0;
/// Width that the maps of one row share, unless cells need more.
const WIDTH: f64 = 1280.0;

impl MapSheet {
    /// The sheet as an SVG file.
    ///
    /// # Errors
    /// [`MapError`] if the sheet cannot be drawn.
    pub fn svg(&self, theme: Theme) -> Result<String, MapError> {
        self.validate()?;
        let mut out = String::new();
        let columns = self.maps.len().clamp(1, 3);
        let columns = if self.maps.len() == 4 { 2 } else { columns };
        let share = (WIDTH - GUTTER * (columns as f64 - 1.0)) / columns as f64;
        let aspect = self.aspect();
        let strip = self.has_labels_above(share);
        let draw = |map| body(map, (share, aspect), strip, theme);
        let bodies: Vec<MapBody> = self.maps.iter().map(draw).collect();
        let column_width = bodies.iter().map(|b| b.width).fold(0.0, f64::max);
        let inner = columns as f64 * (column_width + GUTTER) - GUTTER;
        let inner = inner.max(760.0);

        let mut y = self.heading(&mut out, theme);
        let entries = self.legend_entries();
        for row in 0..self.maps.len().div_ceil(columns) {
            let shown = row * columns..((row + 1) * columns).min(self.maps.len());
            let mut bottom = y;
            for (column, i) in shown.enumerate() {
                let x = MARGIN + column as f64 * (column_width + GUTTER);
                let (map, body) = (&self.maps[i], &bodies[i]);
                let mut foot = y;
                if self.shows_map_titles() {
                    foot += map_heading(&mut out, map, (x, y), theme);
                }
                let at = (px(x), px(foot));
                let _ = write!(
                    out,
                    "<g transform=\"translate({} {})\">\n{}</g>\n",
                    at.0, at.1, body.svg
                );
                foot += body.height + 28.0;
                let width = if columns == 1 { inner } else { column_width };
                bottom = bottom.max(legend(&mut out, (&entries, i), (x, foot, width), theme));
            }
            y = bottom + GUTTER;
        }
        y -= GUTTER;
        let rule = paint("stroke", LINE, theme);
        let _ = writeln!(out, "<path d=\"M{} {}h{}\" {rule}/>", px(MARGIN), px(y), px(inner));
        y += 20.0;
        line(&mut out, (MARGIN, y), 12.5, false, &self.scale_text(), theme);
        let size = (inner + 2.0 * MARGIN, y + MARGIN - 12.0);
        Ok(document(size, (&self.shown_title(), &self.description()), theme, &out))
    }

    /// The sheet as a PNG file with `scale` pixels per SVG unit: 2.0 is sharp on a slide.
    ///
    /// # Errors
    /// [`MapError`] if the sheet cannot be drawn at that scale.
    pub fn png(&self, theme: Theme, scale: f32) -> Result<Vec<u8>, MapError> {
        raster::png(&self.svg(theme)?, scale).map_err(MapError::Render)
    }

    /// Whether any map, drawn about `width` pixels wide, has labels above it.
    pub(crate) fn has_labels_above(&self, width: f64) -> bool {
        self.maps.iter().any(|map| has_labels_above(map, (width, self.aspect())))
    }

    /// Width over height of each map: one map fills a slide, several are square.
    pub(crate) fn aspect(&self) -> f64 {
        if self.maps.len() == 1 { 2.0 } else { 1.0 }
    }

    /// A single map without a sheet title lends the sheet its own.
    fn shows_map_titles(&self) -> bool {
        self.maps.len() > 1 || !self.title.is_empty()
    }

    fn shown_title(&self) -> String {
        match self.maps.first() {
            Some(map) if !self.shows_map_titles() => map.title.clone(),
            _ => self.title.clone(),
        }
    }

    fn shown_subtitle(&self) -> &str {
        match self.maps.first() {
            Some(map) if !self.shows_map_titles() => &map.subtitle,
            _ => &self.subtitle,
        }
    }

    fn description(&self) -> String {
        let maps: Vec<String> = self.maps.iter().map(MemoryMap::description).collect();
        format!("Map of physical memory. {}", maps.join(" "))
    }

    fn heading(&self, out: &mut String, theme: Theme) -> f64 {
        let mut y = MARGIN;
        let (title, subtitle) = (self.shown_title(), self.shown_subtitle());
        if !title.is_empty() {
            y += 18.0;
            line(out, (MARGIN, y), 27.0, true, &title, theme);
            y += 10.0;
        }
        if !subtitle.is_empty() {
            y += 18.0;
            line(out, (MARGIN, y), 15.0, false, subtitle, theme);
        }
        y + if self.shows_map_titles() { 40.0 } else { 22.0 }
    }

    /// The description of one cell for the legend.
    pub(crate) fn scale_text(&self) -> String {
        let map = &self.maps[0];
        format!(
            "1 cell = {} ({}), by rising address along a Hilbert curve from the top left corner",
            number::bytes(map.cell_bytes()),
            number::counted(map.frames_per_cell, "frame")
        )
    }

    /// The classes that occur on some map, with their size on each.
    pub(crate) fn legend_entries(&self) -> Vec<LegendEntry> {
        let counts: Vec<Vec<u64>> = self.maps.iter().map(MemoryMap::cells_by_class).collect();
        let map = &self.maps[0];
        let painted = map.classes.iter().enumerate().filter(|(_, class)| class.paint.is_some());
        let present = painted.filter(|(i, _)| counts.iter().any(|by_class| by_class[*i] > 0));
        let entry = |(i, class): (usize, &super::MapClass)| {
            let size = |(map, by_class): (&MemoryMap, &Vec<u64>)| ClassSize {
                bytes: by_class[i].saturating_mul(map.cell_bytes()),
                share: by_class[i] as f64 / present_cells(map, by_class).max(1) as f64,
            };
            LegendEntry {
                class: class.clone(),
                sizes: self.maps.iter().zip(&counts).map(size).collect(),
            }
        };
        present.map(entry).collect()
    }
}

impl MemoryMap {
    /// The text alternative of the map: the share of each class.
    pub(crate) fn description(&self) -> String {
        let by_class = self.cells_by_class();
        let all = present_cells(self, &by_class).max(1) as f64;
        let shares: Vec<String> = self
            .classes
            .iter()
            .zip(by_class)
            .filter(|(class, cells)| *cells > 0 && class.paint.is_some())
            .map(|(class, cells)| format!("{} {}", class.name, number::percent(cells as f64 / all)))
            .collect();
        format!("{}: {}.", self.title, shares.join(", "))
    }
}

/// The legend of map number `map` in as many columns as fit. Returns where it ends.
fn legend(
    out: &mut String,
    (entries, map): (&[LegendEntry], usize),
    (x, y, width): (f64, f64, f64),
    theme: Theme,
) -> f64 {
    const GAP: f64 = 28.0;
    let widest = entries.iter().map(|entry| entry.width(map)).fold(0.0, f64::max);
    let columns = ((width + GAP) / (widest + GAP)).floor().max(1.0) as usize;
    let rows = entries.len().div_ceil(columns.min(entries.len().max(1))).max(1);
    let pitch = (width + GAP) / entries.len().div_ceil(rows).max(1) as f64;
    for (i, entry) in entries.iter().enumerate() {
        let (column, row) = (i / rows, i % rows);
        entry.draw(out, map, (x + column as f64 * pitch, y + 22.0 * row as f64), theme);
    }
    y + 22.0 * rows as f64 + 4.0
}

/// Cells of classes that are not blank.
fn present_cells(map: &MemoryMap, by_class: &[u64]) -> u64 {
    map.classes.iter().zip(by_class).filter(|(c, _)| c.paint.is_some()).map(|(_, n)| n).sum()
}

/// How much of one map is of a class.
pub(crate) struct ClassSize {
    pub bytes: u64,
    /// Of all memory that is present.
    pub share: f64,
}

/// A class and its size on each map.
pub(crate) struct LegendEntry {
    pub class: super::MapClass,
    pub sizes: Vec<ClassSize>,
}

impl LegendEntry {
    const SIZE: f64 = 14.0;

    fn figures(&self, map: usize) -> String {
        let size = &self.sizes[map];
        format!("{}, {}", number::bytes(size.bytes), number::percent(size.share))
    }

    fn width(&self, map: usize) -> f64 {
        22.0 + text_width(&self.class.name, Self::SIZE, true)
            + 8.0
            + text_width(&self.figures(map), Self::SIZE, false)
    }

    fn draw(&self, out: &mut String, map: usize, (x, y): (f64, f64), theme: Theme) {
        let Some(color) = self.class.paint else { return };
        let _ = write!(
            out,
            "<rect x=\"{}\" y=\"{}\" width=\"14\" height=\"14\" rx=\"3\" {}/>",
            px(x),
            px(y - 11.5),
            paint("fill", color, theme)
        );
        // One text element, so that the figures follow the name whatever its true width.
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\" font-size=\"{}\" {}><tspan font-weight=\"600\">{}</tspan>\
             <tspan dx=\"8\" {}>{}</tspan></text>",
            px(x + 22.0),
            px(y),
            Self::SIZE,
            paint("fill", INK, theme),
            crate::svg::escape(&self.class.name),
            paint("fill", MUTED, theme),
            self.figures(map),
        );
    }
}

fn map_heading(out: &mut String, map: &MemoryMap, (x, y): (f64, f64), theme: Theme) -> f64 {
    line(out, (x, y + 8.0), 18.0, true, &map.title, theme);
    if map.subtitle.is_empty() {
        return 22.0;
    }
    line(out, (x, y + 28.0), 13.0, false, &map.subtitle, theme);
    42.0
}

fn line(out: &mut String, (x, y): (f64, f64), size: f64, strong: bool, text: &str, theme: Theme) {
    let paint = if strong { INK } else { MUTED };
    Text { x, y, size, strong, paint, anchor: "start", text }.draw(out, theme);
    out.push('\n');
}
