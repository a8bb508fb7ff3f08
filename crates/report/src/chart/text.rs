//! Charts in the terminal: lines as a table of their course, bars as bars.

use super::{BarChart, LineChart, align};
use crate::table::{Align, Cell, Column, Table, Tone};
use crate::terminal::Terminal;

/// Places that a line's course is told at.
const SAMPLES: usize = 40;

impl LineChart {
    /// One row for each line: first, lowest, highest and last value, and the course as a row of
    /// small bars over the x axis.
    pub fn terminal(&self, terminal: Terminal) -> String {
        let mut table = self.table();
        table.title = self.title.clone();
        table.notes.extend(Some(&self.caption).filter(|caption| !caption.is_empty()).cloned());
        table.terminal(terminal)
    }

    /// The course of each line in figures.
    pub(crate) fn table(&self) -> Table {
        let aligned = align(self);
        let values = || aligned.ys.iter().flatten().flatten().copied();
        let (low, high) = match self.y.range {
            Some(range) => range,
            None => (values().fold(0.0, f64::min), values().fold(0.0, f64::max)),
        };
        let row = |(series, ys): (&super::Series, &Vec<Option<f64>>)| {
            let known: Vec<f64> = ys.iter().flatten().copied().collect();
            let text = |value: Option<f64>| Cell::from(self.y.unit.text(value.unwrap_or(f64::NAN)));
            vec![
                Cell::from(series.name.as_str()),
                text(known.first().copied()),
                text(known.iter().copied().reduce(f64::min)),
                text(known.iter().copied().reduce(f64::max)),
                text(known.last().copied()),
                Cell::from(course(&aligned.xs, ys, (low, high))),
            ]
        };
        let ends = match (aligned.xs.first(), aligned.xs.last()) {
            (Some(first), Some(last)) => {
                format!("{} to {}", self.x.unit.text(*first), self.x.unit.text(*last))
            }
            _ => String::new(),
        };
        Table {
            columns: vec![
                Column::text(&self.y.label),
                Column::number("first"),
                Column::number("lowest"),
                Column::number("highest"),
                Column::number("last"),
                Column::text(format!("{}, {ends}", self.x.label)),
            ],
            rows: self.series.iter().zip(&aligned.ys).map(row).collect(),
            ..Table::default()
        }
    }
}

/// The line at evenly spaced places, each an eighth-block of its height.
fn course(xs: &[f64], ys: &[Option<f64>], (low, high): (f64, f64)) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let (Some(first), Some(last)) = (xs.first(), xs.last()) else { return String::new() };
    let block = |sample: usize| {
        let x = first + (last - first) * (sample as f64 + 0.5) / SAMPLES as f64;
        let at = xs.partition_point(|other| *other <= x).saturating_sub(1);
        let share = |y: f64| ((y - low) / (high - low)).clamp(0.0, 1.0);
        ys[at].map_or(' ', |y| BLOCKS[(share(y) * 7.0).round() as usize])
    };
    (0..SAMPLES).map(block).collect()
}

impl BarChart {
    /// One row for each bar, its length in proportion to the largest.
    pub fn terminal(&self, terminal: Terminal) -> String {
        let largest = self.values().map(f64::abs).fold(0.0, f64::max);
        let room = terminal.width.saturating_sub(50).clamp(10, 50) as f64;
        let bar = |value: f64| match largest > 0.0 && value.is_finite() {
            true => bar(value.abs() / largest * room),
            false => String::new(),
        };
        let several = self.series.len() > 1;
        let mut columns = vec![Column::text(&self.x.label)];
        columns.extend(several.then(|| Column::text("")));
        columns.extend([
            Column::number(&self.y.label),
            Column { align: Align::Left, ..Column::default() },
        ]);
        let mut rows = Vec::new();
        for (i, category) in self.categories.iter().enumerate() {
            for (j, series) in self.series.iter().enumerate() {
                let value = series.values.get(i).copied().unwrap_or(f64::NAN);
                let mut row = vec![Cell::from(if j == 0 { category.as_str() } else { "" })];
                row.extend(several.then(|| Cell::toned(&series.name, Tone::Muted)));
                row.extend([Cell::from(self.y.unit.text(value)), Cell::from(bar(value))]);
                rows.push(row);
            }
        }
        let caption = Some(self.caption.clone()).filter(|caption| !caption.is_empty());
        let table = Table {
            title: self.title.clone(),
            columns,
            rows,
            notes: caption.into_iter().collect(),
        };
        table.terminal(terminal)
    }

    /// The value of each bar: a row per category, a column per series.
    pub(crate) fn table(&self) -> Table {
        let series = self.series.iter().map(|series| Column::number(&series.name));
        let row = |(i, category): (usize, &String)| {
            let value = |s: &super::BarSeries| s.values.get(i).copied().unwrap_or(f64::NAN);
            let values = self.series.iter().map(|s| Cell::from(self.y.unit.text(value(s))));
            [Cell::from(category.as_str())].into_iter().chain(values).collect()
        };
        Table {
            columns: [Column::text(&self.x.label)].into_iter().chain(series).collect(),
            rows: self.categories.iter().enumerate().map(row).collect(),
            ..Table::default()
        }
    }

    fn values(&self) -> impl Iterator<Item = f64> + '_ {
        self.series.iter().flat_map(|s| &s.values).copied().filter(|value| value.is_finite())
    }
}

/// A bar `length` characters long, to an eighth.
fn bar(length: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (length * 8.0).round() as usize;
    // A value that is not zero can be seen.
    let eighths = if length > 0.0 { eighths.max(1) } else { 0 };
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{Axis, BarSeries, Series, Unit};

    #[test]
    fn bars_are_in_proportion_and_none_vanishes() {
        assert_eq!(bar(2.5), "██▌");
        assert_eq!(bar(0.001), "▏");
        assert_eq!(bar(0.0), "");
    }

    #[test]
    fn charts_as_text() {
        let bars = BarChart {
            title: "Pages".into(),
            x: Axis::new("per block", Unit::Count),
            y: Axis::new("blocks", Unit::Count),
            categories: vec!["1".into(), "2".into()],
            series: vec![BarSeries { name: "host".into(), values: vec![50.0, 25.0] }],
            ..BarChart::default()
        };
        let text = bars.terminal(Terminal { width: 60, ..Terminal::PLAIN });
        assert!(text.contains("██████████\n") && text.contains("█████\n"), "{text}");
        let line = LineChart {
            y: Axis::new("F_u(9)", Unit::Number).within(0.0, 1.0),
            series: vec![Series { name: "buddy".into(), points: vec![(0.0, 0.0), (1.0, 1.0)] }],
            ..LineChart::default()
        };
        assert!(line.terminal(Terminal::PLAIN).contains("buddy"));
        LineChart::default().terminal(Terminal::PLAIN);
        BarChart::default().terminal(Terminal::PLAIN);
    }
}
