//! Repetition with several random seeds: mean and 95 % interval of every result.

use std::ops::Range;
use std::process::ExitCode;

use prairie_compare::{Spread, rows};
use serde::Serialize;
use serde_json::Value;

use super::survey;
use crate::output::{self, Answer, Header, Wanted, no_files};
use crate::view::seeds as view;

/// How often a simulation is repeated.
#[derive(Clone, Copy, clap::Args)]
pub struct Seeds {
    /// Repeat with N seeds, and show mean and 95 % interval
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
}

impl Seeds {
    /// The seeds from `first` on; `None` if one is enough.
    pub fn from(self, first: u64) -> Option<Range<u64>> {
        (self.seeds > 1).then(|| first..first.saturating_add(self.seeds))
    }
}

/// What `--json` prints for several seeds.
#[derive(Serialize)]
pub struct Document {
    #[serde(flatten)]
    header: Header,
    /// The kind of the documents of the single runs.
    of: String,
    seeds: Vec<u64>,
    rows: Vec<Row>,
    runs: Vec<Value>,
}

/// One result over all seeds.
#[derive(Serialize)]
pub struct Row {
    /// The result's name.
    pub name: String,
    #[serde(flatten)]
    spread: Spread,
    interval: Option<prairie_compare::Interval>,
}

/// Runs with each seed, prints and writes. `run` returns the document of one run, or `None` if it was
/// interrupted.
pub fn repeat(
    seeds: Range<u64>,
    wanted: Wanted,
    run: impl FnMut(u64) -> anyhow::Result<Option<Value>>,
) -> anyhow::Result<ExitCode> {
    let Some(answer) = answer(seeds, run)? else { return Ok(output::interrupted()) };
    answer.finish(&wanted, no_files)
}

/// Runs with each seed; `None` if `run` returned that for one of them, as it was interrupted.
pub fn answer(
    seeds: Range<u64>,
    mut run: impl FnMut(u64) -> anyhow::Result<Option<Value>>,
) -> anyhow::Result<Option<Answer<Document>>> {
    let (mut used, mut runs) = (Vec::new(), Vec::new());
    for seed in seeds {
        let Some(document) = run(seed)? else { return Ok(None) };
        used.push(seed);
        runs.push(document);
    }
    let of = runs[0]["schema"].as_str().unwrap_or_default().to_owned();
    let rows = spread(&runs);
    let report = view::report(&of, &used, &rows_of(&rows), survey::generated_by());
    let header = Header::new("prairie-seeds", 1);
    let document = Document { header, of, seeds: used, rows, runs };
    Ok(Some(Answer::whole(document, report)))
}

/// Every row that all runs have.
fn spread(runs: &[Value]) -> Vec<Row> {
    let numbers: Vec<rows::Rows> = runs.iter().map(rows::rows).collect();
    let row = |name: &String| {
        let values: Option<Vec<f64>> = numbers.iter().map(|rows| rows.get(name).copied()).collect();
        let spread = Spread::of(&values?)?;
        Some(Row { name: name.clone(), interval: spread.interval(), spread })
    };
    numbers[0].keys().filter_map(row).collect()
}

fn rows_of(rows: &[Row]) -> Vec<(String, Spread)> {
    rows.iter().map(|row| (row.name.clone(), row.spread)).collect()
}
