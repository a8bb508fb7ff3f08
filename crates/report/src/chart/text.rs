//! Charts in the terminal: lines as a table of their course, bars as bars.

use unicode_width::UnicodeWidthStr;

use super::{BarChart, LineChart, align};
use crate::table::{Cell, Column, Table, Tone};
use crate::terminal::Terminal;

/// The default number of points at which a line is described in text.
const SAMPLES: usize = 40;

impl LineChart {
    /// One row for each line: first, lowest, highest and last value, and the course as a row of
    /// small bars over the x axis.
    pub fn terminal(&self, terminal: Terminal) -> String {
        let mut table = self.table();
        let others: usize =
            table.columns.iter().enumerate().map(|(i, _)| width(&table, i) + 2).sum();
        let room = terminal.width.saturating_sub(others).clamp(8, SAMPLES);
        table.columns.push(Column::text(format!("{}, {}", self.x.label, self.span())));
        for (row, course) in table.rows.iter_mut().zip(self.courses(room)) {
            row.push(Cell::from(course));
        }
        table.title = self.title.clone();
        table.notes.extend(Some(&self.caption).filter(|caption| !caption.is_empty()).cloned());
        table.terminal(terminal)
    }

    /// The course of each line in figures.
    pub(crate) fn table(&self) -> Table {
        let aligned = align(self);
        let row = |(series, ys): (&super::Series, &Vec<Option<f64>>)| {
            let known: Vec<f64> = ys.iter().flatten().copied().collect();
            let text = |value: Option<f64>| Cell::from(self.y.unit.text(value.unwrap_or(f64::NAN)));
            vec![
                Cell::from(series.name.as_str()),
                text(known.first().copied()),
                text(known.iter().copied().reduce(f64::min)),
                text(known.iter().copied().reduce(f64::max)),
                text(known.last().copied()),
            ]
        };
        Table {
            columns: vec![
                Column::text(&self.y.label),
                Column::number("first"),
                Column::number("lowest"),
                Column::number("highest"),
                Column::number("last"),
            ],
            rows: self.series.iter().zip(&aligned.ys).map(row).collect(),
            ..Table::default()
        }
    }
}

impl LineChart {
    /// From where to where the x axis goes.
    fn span(&self) -> String {
        let xs = align(self).xs;
        match (xs.first(), xs.last()) {
            (Some(first), Some(last)) => {
                format!("{} to {}", self.x.unit.text(*first), self.x.unit.text(*last))
            }
            _ => String::new(),
        }
    }

    fn courses(&self, samples: usize) -> Vec<String> {
        let aligned = align(self);
        let values = || aligned.ys.iter().flatten().flatten().copied();
        let (low, high) = match self.y.range {
            Some(range) => range,
            None => (values().fold(0.0, f64::min), values().fold(0.0, f64::max)),
        };
        let line = |ys: &Vec<Option<f64>>| course(&aligned.xs, ys, (low, high), samples);
        aligned.ys.iter().map(line).collect()
    }
}

/// How wide the cells of a column are, its heading included.
fn width(table: &Table, column: usize) -> usize {
    let cells = table.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.text.width());
    cells.chain([table.columns[column].heading.width()]).max().unwrap_or(0)
}

/// The line at evenly spaced places, each an eighth-block of its height.
fn course(xs: &[f64], ys: &[Option<f64>], (low, high): (f64, f64), samples: usize) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let (Some(first), Some(last)) = (xs.first(), xs.last()) else { return String::new() };
    let block = |sample: usize| {
        let x = first + (last - first) * (sample as f64 + 0.5) / samples as f64;
        let at = xs.partition_point(|other| *other <= x).saturating_sub(1);
        let share = |y: f64| ((y - low) / (high - low)).clamp(0.0, 1.0);
        ys[at].map_or(' ', |y| BLOCKS[(share(y) * 7.0).round() as usize])
    };
    (0..samples).map(block).collect()
}

impl BarChart {
    /// One row for each bar, its length in proportion to the largest.
    pub fn terminal(&self, terminal: Terminal) -> String {
        let several = self.series.len() > 1;
        let mut columns = vec![Column::text(&self.x.label)];
        columns.extend(several.then(|| Column::text("")));
        columns.push(Column::number(&self.y.label));
        let values = self.categories.iter().enumerate().flat_map(|(i, category)| {
            let value = move |s: &super::BarSeries| s.values.get(i).copied().unwrap_or(f64::NAN);
            let name = move |j| if j == 0 { category.as_str() } else { "" };
            self.series.iter().enumerate().map(move |(j, s)| (name(j), s.name.as_str(), value(s)))
        });
        let values: Vec<(&str, &str, f64)> = values.collect();
        let row = |&(category, series, value): &(&str, &str, f64)| {
            let mut row = vec![Cell::from(category)];
            row.extend(several.then(|| Cell::toned(series, Tone::Muted)));
            row.push(Cell::from(self.y.unit.text(value)));
            row
        };
        let mut table = Table {
            title: self.title.clone(),
            rows: values.iter().map(row).collect(),
            notes: Some(self.caption.clone())
                .filter(|caption| !caption.is_empty())
                .into_iter()
                .collect(),
            columns,
        };
        let others: usize = (0..table.columns.len()).map(|i| width(&table, i) + 2).sum();
        let room = terminal.width.saturating_sub(others + 1).clamp(8, 50) as f64;
        let largest = self.values().map(f64::abs).fold(0.0, f64::max);
        table.columns.push(Column::text(""));
        for (row, (_, _, value)) in table.rows.iter_mut().zip(&values) {
            let length =
                if value.is_finite() && largest > 0.0 { value.abs() / largest } else { 0.0 };
            row.push(Cell::from(bar(length * room)));
        }
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
        let text = bars.terminal(Terminal { width: 60, unicode: true, ..Terminal::PLAIN });
        let bars: Vec<usize> = text.lines().map(|line| line.matches('█').count()).collect();
        let (longest, shorter) = (bars[3], bars[4]);
        assert!(longest >= 20 && longest.div_ceil(2) == shorter.max(longest / 2), "{text}");
        assert!(text.lines().all(|line| line.width() <= 60) && text.lines().count() == 5, "{text}");
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
