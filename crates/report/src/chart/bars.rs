//! Bar charts as still pictures.

use std::fmt::Write;

use super::picture::{MARGIN, Plot, WIDTH, text};
use super::scale::Scale;
use super::{Aligned, Axis, BarChart, LineChart, Unit};
use crate::palette::{INK, MUTED, Theme, series};
use crate::svg::{document, number, paint, text_width};

const PLOT_HEIGHT: f64 = 340.0;
/// The share of a group's place that its bars take.
const FILLED: f64 = 0.78;

impl BarChart {
    /// The chart as an SVG file.
    pub fn svg(&self, theme: Theme) -> String {
        let mut out = String::new();
        let top = self.heading(&mut out, theme);
        let plot = self.plot(top);
        plot.levels(&mut out, 5, theme);
        for (at, bars) in self.series.iter().enumerate() {
            let color = paint("fill", series(at), theme);
            for (group, value) in bars.values.iter().take(self.categories.len()).enumerate() {
                if let Some(path) = self.bar(&plot, group, at, *value) {
                    let _ = writeln!(out, "<path {color} d=\"{path}\"/>");
                }
            }
        }
        self.foot(&mut out, &plot, theme);
        document((WIDTH, plot.bottom + 62.0), (&self.title, &self.caption), theme, &out)
    }

    /// Title, then the legend where there are several series. Returns where the plot begins.
    fn heading(&self, out: &mut String, theme: Theme) -> f64 {
        text(out, (MARGIN, MARGIN + 14.0), (20.0, true, INK), "start", &self.title, theme);
        let (mut x, mut y) = (MARGIN, MARGIN + 42.0);
        for (at, bars) in self.series.iter().enumerate().filter(|_| self.series.len() > 1) {
            let width = 22.0 + text_width(&bars.name, 14.0, false) + 24.0;
            if x + width > WIDTH - MARGIN && x > MARGIN {
                (x, y) = (MARGIN, y + 22.0);
            }
            let color = paint("fill", series(at), theme);
            let (left, upper) = (number(x), number(y - 11.0));
            let _ = writeln!(out, "<path {color} d=\"M{left} {upper}h14v14h-14z\"/>");
            text(out, (x + 22.0, y), (14.0, false, INK), "start", &bars.name, theme);
            x += width;
        }
        y += 26.0;
        text(out, (MARGIN, y), (13.0, false, MUTED), "start", &self.y.label, theme);
        y + 16.0
    }

    fn plot(&self, top: f64) -> Plot {
        let values = self.series.iter().flat_map(|bars| &bars.values).copied();
        let finite: Vec<Option<f64>> = values.filter(|v| v.is_finite()).map(Some).collect();
        // The vertical axis of lines through the same values.
        let aligned = Aligned { ys: vec![finite], ..Aligned::default() };
        let like = LineChart { y: self.y.clone(), ..LineChart::default() };
        let y = Scale::vertical(&like, &aligned);
        let label_width =
            y.ticks(5).iter().map(|(_, text)| text_width(text, 13.0, false)).fold(0.0, f64::max);
        let x = Axis::new("", Unit::Number).within(0.0, self.categories.len().max(1) as f64);
        let x = Scale::horizontal(&LineChart { x, ..LineChart::default() }, &Aligned::default());
        Plot {
            left: MARGIN + label_width + 12.0,
            right: WIDTH - MARGIN,
            top,
            bottom: top + PLOT_HEIGHT,
            x,
            y,
        }
    }

    /// The outline of a bar; `None` for a value that is missing.
    fn bar(&self, plot: &Plot, group: usize, at: usize, value: f64) -> Option<String> {
        if !value.is_finite() {
            return None;
        }
        let width = FILLED / self.series.len().max(1) as f64;
        let start = group as f64 + (1.0 - FILLED) / 2.0 + at as f64 * width;
        let (left, y) = plot.at(start, value);
        let (right, zero) = plot.at(start + width * 0.94, 0.0);
        let (left, right, y, zero) = (number(left), number(right), number(y), number(zero));
        Some(format!("M{left} {zero}V{y}H{right}V{zero}z"))
    }

    /// The names of the groups, as many as have room.
    fn foot(&self, out: &mut String, plot: &Plot, theme: Theme) {
        let longest =
            self.categories.iter().map(|c| text_width(c, 13.0, false)).fold(0.0, f64::max) + 12.0;
        let room = (plot.right - plot.left) / self.categories.len().max(1) as f64;
        let every = (longest / room).ceil().max(1.0) as usize;
        for (group, category) in self.categories.iter().enumerate().step_by(every) {
            let (x, _) = plot.at(group as f64 + 0.5, plot.y.low);
            let at = (x, plot.bottom + 22.0);
            text(out, at, (13.0, false, MUTED), "middle", category, theme);
        }
        let base = paint("stroke", MUTED, theme);
        let (_, zero) = plot.at(0.0, 0.0);
        let (left, width) = (number(plot.left), number(plot.right - plot.left));
        let _ = writeln!(out, "<path {base} d=\"M{left} {}h{width}\"/>", number(zero));
        let middle = (plot.left + plot.right) / 2.0;
        let at = (middle, plot.bottom + 44.0);
        text(out, at, (13.0, false, MUTED), "middle", &self.x.label, theme);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::BarSeries;

    #[test]
    fn every_value_has_a_bar() {
        let chart = BarChart {
            title: "a < b".into(),
            categories: vec!["one".into(), "two".into()],
            series: vec![
                BarSeries { name: "x".into(), values: vec![1.0, f64::NAN] },
                BarSeries { name: "y".into(), values: vec![0.5, -2.0, 9.0] },
            ],
            ..BarChart::default()
        };
        let svg = chart.svg(Theme::Light);
        // Two in the legend, three bars.
        assert_eq!(svg.matches("<path fill=").count(), 5, "{svg}");
        assert!(svg.contains("a &lt; b") && svg.contains(">two<"));
        BarChart::default().svg(Theme::Dark);
    }
}
