//! Results over several random seeds as a report: mean and 95 % interval.

use prairie_compare::Spread;
use prairie_report::{Block, Cell, Column, Report, Section, Table, number};

/// Rows of the table; JSON has all.
const MAX_ROWS: usize = 120;

/// The report on the rows of runs with `seeds`; `of` is the kind of their documents.
pub fn report(of: &str, seeds: &[u64], rows: &[(String, Spread)], generated_by: String) -> Report {
    // Results of single systems, and those of the whole run.
    let (own, common): (Vec<_>, Vec<_>) =
        rows.iter().cloned().partition(|(name, _)| parts(name).is_some());
    let systems = systems(&own);
    let tables = [table(&[], &common), table(&systems, &own)];
    let tables = tables.into_iter().filter(|table| !table.rows.is_empty()).map(Block::Table);
    let constant = rows.iter().filter(|(_, spread)| spread.deviation == 0.0).count();
    let note = format!(
        "{} the same with every seed; those at 0 are not listed.",
        number::counted(constant as u64, "row")
    );
    let (first, last) = (seeds.first().copied().unwrap_or(0), seeds.last().copied().unwrap_or(0));
    Report {
        title: "Results over several random seeds".to_owned(),
        subtitle: format!("{of}, seeds {first} to {last}"),
        generated_by,
        sections: vec![Section {
            heading: "Mean and 95 % interval".to_owned(),
            intro:
                "Mean ± half of the interval that holds the mean with 95 % confidence (Student's \
                    t). `prairie diff` compares two such documents."
                    .to_owned(),
            blocks: tables.chain([Block::Note(note)]).collect(),
        }],
    }
}

/// The identities of the first array of each row: allocators, page heaps, experiments.
fn systems(rows: &[(String, Spread)]) -> Vec<&str> {
    let mut systems: Vec<&str> = Vec::new();
    for (name, _) in rows {
        if let Some((_, system, _)) = parts(name).filter(|(_, system, _)| !systems.contains(system))
        {
            systems.push(system);
        }
    }
    systems
}

/// A name as what is before the first bracket, within it, and after it.
fn parts(name: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = name.split_once('[')?;
    let (identity, after) = rest.split_once(']')?;
    Some((before, identity, after.trim_start_matches('.')))
}

/// A row for each result, a column for each system.
fn table(systems: &[&str], rows: &[(String, Spread)]) -> Table {
    let mut lines: Vec<(String, Vec<Cell>)> = Vec::new();
    let shown = rows.iter().filter(|(name, spread)| {
        // A place in a list without names, such as a sample, is no result of its own.
        let is_place = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let nested = parts(name).and_then(|(.., after)| parts(after));
        (spread.min != 0.0 || spread.max != 0.0)
            && !nested.is_some_and(|(_, place, _)| is_place(place))
    });
    for (name, spread) in shown {
        let (line, system) = match parts(name) {
            Some((before, system, after)) if !after.is_empty() => {
                (format!("{before}: {after}"), system)
            }
            _ => (name.clone(), ""),
        };
        let at = match lines.iter().position(|(name, _)| *name == line) {
            Some(at) => at,
            None => {
                lines.push((line, vec![Cell::default(); systems.len().max(1)]));
                lines.len() - 1
            }
        };
        let column = systems.iter().position(|name| *name == system).unwrap_or(0);
        lines[at].1[column] = Cell::from(value(spread));
    }
    let left = lines.len().saturating_sub(MAX_ROWS);
    lines.truncate(MAX_ROWS);
    let heads: Vec<Column> = match systems {
        [] => vec![Column::number("value")],
        systems => systems.iter().map(|system| Column::number(*system)).collect(),
    };
    Table {
        columns: std::iter::once(Column::text("")).chain(heads).collect(),
        rows: lines
            .into_iter()
            .map(|(name, cells)| [vec![Cell::from(name)], cells].concat())
            .collect(),
        notes: if left > 0 {
            vec![format!("{} more: --json has all.", number::counted(left as u64, "row"))]
        } else {
            Vec::new()
        },
        ..Table::default()
    }
}

fn value(spread: &Spread) -> String {
    let mean = number::short(spread.mean);
    match spread.interval() {
        Some(interval) if spread.deviation > 0.0 => {
            format!("{mean} ± {}", number::short((interval.high - interval.low) / 2.0))
        }
        _ => mean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_are_columns() {
        let spread = |values: &[f64]| Spread::of(values).unwrap();
        let rows = [
            ("systems[buddy].failed".to_owned(), spread(&[1.0, 3.0])),
            ("systems[linux].failed".to_owned(), spread(&[5.0, 5.0])),
            ("systems[linux].never".to_owned(), spread(&[0.0, 0.0])),
            ("systems[linux].samples[3].free".to_owned(), spread(&[5.0, 6.0])),
            ("total".to_owned(), spread(&[7.0, 7.0])),
        ];
        let report = report("prairie-lab-run", &[1, 2], &rows, String::new());
        let text = report.terminal(prairie_report::Terminal::PLAIN).unwrap();
        let line = text.lines().find(|line| line.starts_with("systems: failed")).unwrap();
        let words: Vec<&str> = line.split_whitespace().skip(2).collect();
        // Half of the interval: 12.706 × √2 / √2.
        assert_eq!(words, ["2", "+/-", "12.7", "5"], "{text}");
        assert!(!text.contains("never") && !text.contains("samples"), "{text}");
    }
}
