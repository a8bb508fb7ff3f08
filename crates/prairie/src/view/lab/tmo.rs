//! Results of TMO's experiments.

use prairie_report::{
    Axis, Block, Cell, Column, LineChart, Report, Section, Series, Table, Unit, number,
};
use prairie_tmo::findings::{Curves, Findings, Unit as Quantity, Value};

/// The whole report.
pub fn report(all: &[Findings], seed: u64, generated_by: String) -> Report {
    Report {
        title: "Transparent memory offloading, simulated".to_owned(),
        subtitle: format!("seed {seed}"),
        generated_by,
        sections: all.iter().map(section).collect(),
    }
}

fn section(findings: &Findings) -> Section {
    let named = std::iter::once(Column::text(findings.rows_are));
    let table = Table {
        title: String::new(),
        columns: named.chain(findings.columns.iter().map(Column::number)).collect(),
        rows: findings
            .rows
            .iter()
            .map(|row| {
                std::iter::once(Cell::from(row.name.as_str()))
                    .chain(row.values.iter().map(|value| Cell::from(text(value))))
                    .collect()
            })
            .collect(),
        notes: findings.notes.clone(),
    };
    let charts = findings.curves.iter().map(|curves| Block::LineChart(chart(curves)));
    Section {
        heading: findings.title.clone(),
        intro: format!("The paper: {}", findings.paper),
        blocks: std::iter::once(Block::Table(table)).chain(charts).collect(),
    }
}

/// A value as text. Pressures are small: shares below a percent show three digits.
fn text(value: &Value) -> String {
    match value {
        Value::Share(share) if share.abs() < 0.01 => format!("{:.3} %", share * 100.0),
        Value::Share(share) => format!("{:.1} %", share * 100.0),
        Value::Bytes(bytes) => {
            let sign = if *bytes < 0 { "-" } else { "" };
            format!("{sign}{}", number::bytes(bytes.unsigned_abs()))
        }
        Value::Count(count) => number::count(*count),
        Value::Rate(rate) => format!("{rate:.2}"),
        Value::Milliseconds(ms) => format!("{ms:.0} ms"),
        Value::Text(words) => words.clone(),
        Value::Nothing => "–".to_owned(),
    }
}

fn chart(curves: &Curves) -> LineChart {
    let unit = match curves.unit {
        Quantity::Share => Unit::Share,
        Quantity::Bytes => Unit::Bytes,
        Quantity::Rate => Unit::Number,
    };
    let series = |(name, points): &(String, Vec<(f64, f64)>)| Series {
        name: name.clone(),
        points: points.clone(),
    };
    LineChart {
        title: curves.title.clone(),
        x: Axis::new("time", Unit::Seconds),
        y: Axis::new(curves.quantity, unit),
        series: curves.series.iter().map(series).collect(),
        ..LineChart::default()
    }
}
