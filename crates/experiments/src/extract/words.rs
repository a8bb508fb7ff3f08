//! Tables that a command printed with spaces between the columns.

use anyhow::{Result, anyhow};
use serde_json::Value;

use crate::form::Word;
use crate::table::{Column, Table};

/// The lines after the one that contains `after` and before the one that contains `until`, as far
/// as they have at least `least` words.
pub fn table(
    output: &str,
    (after, until): (&str, &str),
    (separator, least): (&str, usize),
    words: &[Word],
) -> Result<Table> {
    let mut lines = output.lines();
    if !after.is_empty() && !lines.any(|line| line.contains(after)) {
        return Err(anyhow!("the output has no line with `{after}`"));
    }
    let mut rows = Vec::new();
    for line in lines.take_while(|line| until.is_empty() || !line.contains(until)) {
        let found: Vec<&str> = if separator.is_empty() {
            line.split_whitespace().collect()
        } else {
            line.split(separator).map(str::trim).filter(|word| !word.is_empty()).collect()
        };
        if found.len() >= least.max(1) {
            rows.push(words.iter().map(|word| word.of(&found)).collect::<Result<Vec<_>>>()?);
        }
    }
    let columns =
        words.iter().map(|word| Column { name: word.name.clone(), unit: word.unit.clone() });
    Ok(Table { columns: columns.collect(), rows })
}

impl Word {
    fn of(&self, found: &[&str]) -> Result<Value> {
        let at = if self.at < 0 { self.at + found.len() as isize } else { self.at };
        let word = usize::try_from(at).ok().and_then(|at| found.get(at));
        word.map(|word| (*word).into())
            .ok_or_else(|| anyhow!("`{}`: no word {}", found.join(" "), self.at))
    }
}
