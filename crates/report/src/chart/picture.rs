//! Line charts as still pictures, for documents.

use std::fmt::Write;

use super::scale::Scale;
use super::{Aligned, LineChart, Shape, align};
use crate::map::MapError;
use crate::palette::{self, INK, LINE, MUTED, Paint, Theme, series};
use crate::raster;
use crate::svg::{Text, document, number, paint, text_width};

pub(super) const WIDTH: f64 = 960.0;
const PLOT_HEIGHT: f64 = 340.0;
pub(super) const MARGIN: f64 = 28.0;

/// The rectangle that lines are drawn in.
pub(super) struct Plot {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
    pub(super) x: Scale,
    pub(super) y: Scale,
}

impl LineChart {
    /// The chart as an SVG file.
    pub fn svg(&self, theme: Theme) -> String {
        let aligned = align(self);
        let mut out = String::new();
        let top = self.heading(&mut out, theme);
        let y = Scale::vertical(self, &aligned);
        let label_width =
            y.ticks(5).iter().map(|(_, text)| text_width(text, 13.0, false)).fold(0.0, f64::max);
        let plot = Plot {
            left: MARGIN + label_width + 12.0,
            right: WIDTH - MARGIN,
            top,
            bottom: top + PLOT_HEIGHT,
            x: Scale::horizontal(self, &aligned),
            y,
        };
        plot.axes(&mut out, self, theme);
        for (i, ys) in aligned.ys.iter().enumerate() {
            let path = plot.path(&aligned.xs, ys, self.shape);
            let color = paint("stroke", series(i), theme);
            let dash = dashes(i);
            let _ = writeln!(
                out,
                "<path fill=\"none\" stroke-width=\"2.2\" stroke-linejoin=\"round\"{dash} {color} d=\"{path}\"/>"
            );
        }
        let height =
            plot.bottom + 62.0 + self.thinning_note(&mut out, &aligned, plot.bottom + 64.0, theme);
        document((WIDTH, height), (&self.title, &self.caption), theme, &out)
    }

    /// The chart as a PNG file with `scale` pixels per SVG unit.
    ///
    /// # Errors
    /// [`MapError::Render`] if it cannot be drawn at that scale.
    pub fn png(&self, theme: Theme, scale: f32) -> Result<Vec<u8>, MapError> {
        raster::png(&self.svg(theme), scale).map_err(MapError::Render)
    }

    /// Title, then the legend. Returns where the plot begins.
    fn heading(&self, out: &mut String, theme: Theme) -> f64 {
        text(out, (MARGIN, MARGIN + 14.0), (20.0, true, INK), "start", &self.title, theme);
        let (mut x, mut y) = (MARGIN, MARGIN + 42.0);
        for (i, line) in self.series.iter().enumerate() {
            let width = 26.0 + text_width(&line.name, 14.0, false) + 24.0;
            if x + width > WIDTH - MARGIN && x > MARGIN {
                (x, y) = (MARGIN, y + 22.0);
            }
            let color = paint("stroke", series(i), theme);
            let dash = dashes(i);
            let _ = writeln!(
                out,
                "<path stroke-width=\"2.6\"{dash} {color} d=\"M{} {}h20\"/>",
                number(x + 2.0),
                number(y - 5.0)
            );
            text(out, (x + 26.0, y), (14.0, false, INK), "start", &line.name, theme);
            x += width;
        }
        y += 26.0;
        text(out, (MARGIN, y), (13.0, false, MUTED), "start", &self.y.label, theme);
        y + 16.0
    }

    fn thinning_note(&self, out: &mut String, aligned: &Aligned, y: f64, theme: Theme) -> f64 {
        if !aligned.is_thinned() {
            return 0.0;
        }
        text(out, (MARGIN, y), (12.0, false, MUTED), "start", &aligned.note(), theme);
        20.0
    }
}

/// The pattern of a line as an attribute, so that lines differ by more than their color.
pub(super) fn dashes(series: usize) -> String {
    let pattern = palette::dashes(series);
    let lengths: Vec<String> = pattern.iter().map(u8::to_string).collect();
    if lengths.is_empty() {
        String::new()
    } else {
        format!(" stroke-dasharray=\"{}\"", lengths.join(" "))
    }
}

impl Aligned {
    /// A sentence about omitted samples.
    pub(crate) fn note(&self) -> String {
        format!(
            "{} of {} points drawn; every peak and trough is kept.",
            crate::number::count(self.xs.len() as u64),
            crate::number::count(self.measured as u64)
        )
    }
}

impl Plot {
    pub(super) fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let y = self.y.place(y).clamp(-0.02, 1.02);
        (
            self.left + self.x.place(x).clamp(-0.02, 1.02) * (self.right - self.left),
            self.bottom - y * (self.bottom - self.top),
        )
    }

    /// The vertical axis: about `wanted` values with a line at each.
    pub(super) fn levels(&self, out: &mut String, wanted: usize, theme: Theme) {
        let grid = paint("stroke", LINE, theme);
        for (value, label) in self.y.ticks(wanted) {
            let (_, y) = self.at(self.x.low, value);
            let (left, width) = (number(self.left), number(self.right - self.left));
            let _ = writeln!(out, "<path {grid} d=\"M{left} {}h{width}\"/>", number(y));
            text(out, (self.left - 10.0, y + 4.5), (13.0, false, MUTED), "end", &label, theme);
        }
    }

    fn axes(&self, out: &mut String, chart: &LineChart, theme: Theme) {
        self.levels(out, 5, theme);
        self.foot(out, &chart.x.label, theme);
    }

    /// The horizontal axis.
    pub(super) fn foot(&self, out: &mut String, label: &str, theme: Theme) {
        let base = paint("stroke", MUTED, theme);
        for (value, tick) in self.x.ticks(8) {
            let (x, _) = self.at(value, self.y.low);
            let _ = writeln!(out, "<path {base} d=\"M{} {}v6\"/>", number(x), number(self.bottom));
            text(out, (x, self.bottom + 22.0), (13.0, false, MUTED), "middle", &tick, theme);
        }
        let (left, width) = (number(self.left), number(self.right - self.left));
        let _ = writeln!(out, "<path {base} d=\"M{left} {}h{width}\"/>", number(self.bottom));
        let middle = (self.left + self.right) / 2.0;
        text(out, (middle, self.bottom + 44.0), (13.0, false, MUTED), "middle", label, theme);
    }

    /// The line of one series; a missing value lifts the pen.
    pub(super) fn path(&self, xs: &[f64], ys: &[Option<f64>], shape: Shape) -> String {
        let mut path = String::new();
        let mut drawing = false;
        for (x, y) in xs.iter().zip(ys) {
            let Some(y) = y else {
                drawing = false;
                continue;
            };
            let (x, y) = self.at(*x, *y);
            let (x, y) = (number(x), number(y));
            let _ = match (drawing, shape) {
                (false, _) => write!(path, "M{x} {y}"),
                (true, Shape::Straight) => write!(path, "L{x} {y}"),
                (true, Shape::Steps) => write!(path, "H{x}V{y}"),
            };
            drawing = true;
        }
        path
    }
}

pub(super) fn text(
    out: &mut String,
    (x, y): (f64, f64),
    (size, strong, paint): (f64, bool, Paint),
    anchor: &str,
    text: &str,
    theme: Theme,
) {
    if !text.is_empty() {
        Text { x, y, size, strong, paint, anchor, text }.draw(out, theme);
        out.push('\n');
    }
}
