//! Rows of a log as documents to compare.
//!
//! Counters become rates, as their values depend on the time since boot. Figures of a walk over page
//! flags count once for each walk, however many rows repeat them.

use std::path::Path;

use anyhow::anyhow;
use prairie_frames::Order;
use prairie_observe::journal::{self, JournalError};
use prairie_observe::{Summary, summary};
use serde_json::{Map, Value};

use crate::commands::log::{row, say_damaged};

/// The most rows of a directory that are compared; a longer log is thinned evenly.
const MAX_ROWS: u64 = 5000;

/// The documents of a directory that holds a log; `None` if it holds none. Damaged files of it are
/// left out and named.
///
/// # Errors
/// If nothing of the log can be read.
pub fn directory(path: &Path) -> anyhow::Result<Option<Vec<Value>>> {
    if journal::days(path)?.is_none() {
        return Ok(None);
    }
    let found = journal::read_thinned(path, MAX_ROWS)?;
    say_damaged(&found.damaged);
    Ok(Some(of_summaries(&found.rows)))
}

/// The documents of one file of a log; `None` if the file is of another kind.
///
/// # Errors
/// If the file cannot be read; one that is damaged may have been of another kind, any of `expected`.
pub fn file(path: &Path, expected: &str) -> anyhow::Result<Option<Vec<Value>>> {
    let rows = journal::read_file(path).map_err(|error| match error {
        JournalError::Format { path, why } => {
            anyhow!("{}: damaged: {why}, expected {expected}", path.display())
        }
        error => error.into(),
    })?;
    Ok(rows.as_deref().map(of_summaries))
}

fn of_summaries(rows: &[Summary]) -> Vec<Value> {
    documents(&rows.iter().map(row).collect::<Vec<_>>())
}

/// The documents of rows as `prairie log show --json` prints them, in the order of time.
pub fn documents(rows: &[Value]) -> Vec<Value> {
    let before = std::iter::once(&Value::Null).chain(rows);
    rows.iter().zip(before).map(|(row, before)| document(row, before)).collect()
}

fn document(row: &Value, before: &Value) -> Value {
    let mut fields = Map::new();
    fields.insert("schema".to_owned(), journal::KIND.into());
    let is_repeated =
        !row["walk_at_unix_ns"].is_null() && row["walk_at_unix_ns"] == before["walk_at_unix_ns"];
    for (name, value) in row.as_object().into_iter().flatten() {
        if name.ends_with("_unix_ns") || (is_repeated && summary::is_of_walk(name)) {
            continue;
        }
        match (summary::is_counter(name), name.strip_suffix("_us")) {
            (false, _) => drop(fields.insert(name.clone(), value.clone())),
            (true, Some(stall)) => {
                let share = rate(row, before, name).map(|rate| rate / 1e6);
                fields.insert(format!("{stall}_share"), share.into());
            }
            (true, None) => {
                fields.insert(format!("{name}_per_second"), rate(row, before, name).into());
            }
        }
    }
    let share = |part: &str, whole: &str| {
        let whole = row[whole].as_f64().filter(|whole| *whole > 0.0)?;
        Some(row[part].as_f64()? / whole)
    };
    let coverage = share("anonymous_huge_bytes", "anonymous_bytes");
    fields.insert("coverage".to_owned(), coverage.into());
    if !is_repeated {
        fields.insert("polluted_pageblocks_share".to_owned(), polluted(row).into());
    }
    Value::Object(fields)
}

/// Polluted pageblocks as a share of the initialized ones.
fn polluted(row: &Value) -> Option<f64> {
    let uninitialized = row["class_uninitialized_bytes"].as_f64().unwrap_or(0.0);
    let initialized =
        row["whole_pageblocks"].as_f64()? - uninitialized / Order::HUGE.bytes() as f64;
    (initialized > 0.0).then_some(row["polluted_pageblocks"].as_f64()? / initialized)
}

/// How fast a counter rose, a second; `None` without a row before, and over a boot.
fn rate(row: &Value, before: &Value, name: &str) -> Option<f64> {
    let of = |name: &str| Some(row[name].as_i64()? - before[name].as_i64()?);
    let (passed, rise) = (of("at_unix_ns")?, of(name)?);
    (passed > 0 && rise >= 0).then(|| rise as f64 / (passed as f64 / 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(seconds: i64, walk: i64, stalls: i64) -> Value {
        json!({
            "at_unix_ns": seconds * 1_000_000_000, "walk_at_unix_ns": walk, "free_bytes": 5,
            "polluted_pageblocks": 3, "whole_pageblocks": 6,
            "class_uninitialized_bytes": 2 << 21, "vmstat_compact_stall": stalls,
            "memory_some_us": seconds * 250_000, "anonymous_bytes": 8, "anonymous_huge_bytes": 2,
        })
    }

    #[test]
    fn counters_become_rates_and_walks_count_once() {
        let found = documents(&[row(10, 1, 40), row(20, 1, 60), row(30, 2, 5)]);
        assert_eq!(found[0]["vmstat_compact_stall_per_second"], Value::Null);
        assert_eq!(found[1]["vmstat_compact_stall_per_second"], 2.0);
        assert_eq!(found[1]["memory_some_share"], 0.25);
        // Booted in between.
        assert_eq!(found[2]["vmstat_compact_stall_per_second"], Value::Null);
        let polluted: Vec<&Value> =
            found.iter().map(|document| &document["polluted_pageblocks_share"]).collect();
        assert_eq!(polluted, [&json!(0.75), &Value::Null, &json!(0.75)]);
        assert_eq!((&found[1]["coverage"], &found[1]["free_bytes"]), (&json!(0.25), &json!(5)));
        assert!(
            found[2].get("walk_at_unix_ns").is_none() && found[2].get("memory_some_us").is_none()
        );
    }
}
