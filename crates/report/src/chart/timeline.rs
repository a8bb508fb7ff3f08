//! Timelines: several quantities over the same time, one under the other, and what happened when.

use std::fmt::Write;

use super::picture::{MARGIN, Plot, WIDTH, dashes, text};
use super::scale::Scale;
use super::{Axis, LineChart, Series, Shape, align};
use crate::map::MapError;
use crate::palette::{INK, LINE, MUTED, Paint, Theme};
use crate::raster;
use crate::svg::{document, number, paint, text_width};

/// Panels over one time axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// The caption.
    pub title: String,
    /// How to read it, in a line; may be empty.
    pub caption: String,
    /// Time: label, unit and both ends.
    pub x: Axis,
    /// From the top.
    pub panels: Vec<Panel>,
    /// Below the panels.
    pub marks: Vec<Marks>,
}

/// One quantity or several of the same unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// The vertical axis.
    pub y: Axis,
    /// The lines, each with its paint.
    pub lines: Vec<(Series, Paint)>,
    /// How points are joined.
    pub shape: Shape,
}

/// One kind of event.
#[derive(Clone, Debug, PartialEq)]
pub struct Marks {
    /// The event.
    pub name: String,
    /// Its paint.
    pub paint: Paint,
    /// When.
    pub at: Vec<f64>,
}

const PANEL: f64 = 190.0;
const MARK: f64 = 24.0;
/// The line beside a name: long enough for a whole pattern of dashes.
const SAMPLE: f64 = 28.0;
/// Where all plots begin: room for labels, and for the names of events.
const LEFT: f64 = 190.0;

impl Timeline {
    /// As SVG.
    pub fn svg(&self, theme: Theme) -> String {
        let mut out = String::new();
        let mut y = MARGIN + 14.0;
        text(&mut out, (MARGIN, y), (20.0, true, INK), "start", &self.title, theme);
        if !self.caption.is_empty() {
            y += 24.0;
            text(&mut out, (MARGIN, y), (13.0, false, MUTED), "start", &self.caption, theme);
        }
        for panel in &self.panels {
            y = self.panel(&mut out, panel, y + 34.0, theme) + 14.0;
        }
        y += 14.0;
        for marks in &self.marks {
            self.marks(&mut out, marks, y, theme);
            y += MARK;
        }
        let bottom = y + 4.0;
        let foot = Plot {
            top: bottom,
            bottom,
            ..self.plot(Scale { low: 0.0, high: 1.0, unit: self.x.unit }, y)
        };
        foot.foot(&mut out, &self.x.label, theme);
        document((WIDTH, bottom + 62.0), (&self.title, &self.caption), theme, &out)
    }

    /// As a PNG file with `scale` pixels per SVG unit.
    ///
    /// # Errors
    /// [`MapError::Render`] if it cannot be drawn at that scale.
    pub fn png(&self, theme: Theme, scale: f32) -> Result<Vec<u8>, MapError> {
        raster::png(&self.svg(theme), scale).map_err(MapError::Render)
    }

    fn plot(&self, y: Scale, top: f64) -> Plot {
        let (low, high) = self.x.range.filter(|(low, high)| low < high).unwrap_or((0.0, 1.0));
        let x = Scale { low, high, unit: self.x.unit };
        Plot { left: LEFT, right: WIDTH - MARGIN, top, bottom: top + PANEL, x, y }
    }

    /// Draws a panel from `top`; returns where it ends.
    fn panel(&self, out: &mut String, panel: &Panel, top: f64, theme: Theme) -> f64 {
        text(out, (MARGIN, top), (14.0, true, INK), "start", &panel.y.label, theme);
        let mut x = LEFT;
        for (at_line, (line, color)) in panel.lines.iter().enumerate() {
            let dash = dashes(at_line);
            let stroke = paint("stroke", *color, theme);
            let at = (number(x), number(top - 5.0));
            let _ = writeln!(
                out,
                "<path stroke-width=\"3\"{dash} {stroke} d=\"M{} {}h{SAMPLE}\"/>",
                at.0, at.1
            );
            let name = x + SAMPLE + 8.0;
            text(out, (name, top), (13.0, false, INK), "start", &line.name, theme);
            x = name + text_width(&line.name, 13.0, false) + 24.0;
        }
        let chart = LineChart {
            x: self.x.clone(),
            y: panel.y.clone(),
            series: panel.lines.iter().map(|(line, _)| line.clone()).collect(),
            shape: panel.shape,
            ..LineChart::default()
        };
        let aligned = align(&chart);
        let plot = self.plot(Scale::vertical(&chart, &aligned), top + 18.0);
        plot.levels(out, 4, theme);
        for (at_line, ((_, color), ys)) in panel.lines.iter().zip(&aligned.ys).enumerate() {
            let dash = dashes(at_line);
            let path = plot.path(&aligned.xs, ys, panel.shape);
            let stroke = paint("stroke", *color, theme);
            let _ = writeln!(
                out,
                "<path fill=\"none\" stroke-width=\"1.8\" stroke-linejoin=\"round\"{dash} {stroke} d=\"{path}\"/>"
            );
        }
        plot.bottom
    }

    /// A row of events at `y`; those that fall on the same pixel are drawn once.
    fn marks(&self, out: &mut String, marks: &Marks, y: f64, theme: Theme) {
        let plot = self.plot(Scale { low: 0.0, high: 1.0, unit: self.x.unit }, y);
        let name = format!("{} ({})", marks.name, crate::number::count(marks.at.len() as u64));
        text(out, (LEFT - 10.0, y + 13.0), (13.0, false, INK), "end", &name, theme);
        let rule = paint("stroke", LINE, theme);
        let (left, width) = (number(plot.left), number(plot.right - plot.left));
        let _ = writeln!(out, "<path {rule} d=\"M{left} {}h{width}\"/>", number(y + 8.0));
        let mut places: Vec<i64> =
            marks.at.iter().map(|&at| plot.at(at, 0.0).0.round() as i64).collect();
        places.dedup();
        let ticks: String = places.iter().map(|x| format!("M{x} {}v16", number(y))).collect();
        let stroke = paint("stroke", marks.paint, theme);
        let _ = writeln!(out, "<path stroke-width=\"1.4\" {stroke} d=\"{ticks}\"/>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unit;
    use crate::palette::series;

    fn timeline(marks: Vec<f64>) -> Timeline {
        let line = Series { name: "border".into(), points: vec![(0.0, 1.0), (10.0, 3.0)] };
        Timeline {
            title: "A border".into(),
            caption: String::new(),
            x: Axis::new("time", Unit::Seconds).within(0.0, 10.0),
            panels: vec![Panel {
                y: Axis::new("size", Unit::Number),
                lines: vec![(line, series(0))],
                shape: Shape::Steps,
            }],
            marks: vec![Marks { name: "grown".into(), paint: series(1), at: marks }],
        }
    }

    #[test]
    fn events_stand_at_their_time_and_are_counted() {
        let svg = timeline(vec![0.0, 5.0, 5.001, 10.0]).svg(Theme::Light);
        assert!(svg.contains("grown (4)"), "{svg}");
        // Both ends and the middle of the plot; the two in the middle fall together.
        let row = svg.lines().find(|line| line.contains("v16")).unwrap();
        let places = [LEFT, (LEFT + WIDTH - MARGIN) / 2.0, WIDTH - MARGIN];
        assert_eq!(row.matches("v16").count(), 3);
        assert!(places.iter().all(|x| row.contains(&format!("M{x} "))), "{row}");
    }

    #[test]
    fn lines_of_a_panel_differ_by_more_than_their_color() {
        let mut timeline = timeline(Vec::new());
        let line = Series { name: "other".into(), points: vec![(0.0, 2.0), (10.0, 1.0)] };
        timeline.panels[0].lines.push((line, series(1)));
        let svg = timeline.svg(Theme::Light);
        // In the curve and beside its name.
        assert_eq!(svg.matches("stroke-dasharray").count(), 2, "{svg}");
    }

    #[test]
    fn empty_timelines_are_drawn() {
        let mut empty = timeline(Vec::new());
        empty.panels[0].lines.clear();
        empty.x.range = None;
        assert!(empty.png(Theme::Dark, 1.0).is_ok());
    }
}
