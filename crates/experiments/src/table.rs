//! A table of strings and numbers, and the document that measuring programs print.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A column's heading, and the unit of its values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// What the values are.
    pub name: String,
    /// Their unit, printed behind the name; empty for plain numbers and text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
}

/// Columns and rows; each row has one value, a string or a number, per column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows.
    pub rows: Vec<Vec<Value>>,
}

/// What a measuring program or script prints: a table, and how it was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// The result's name in the registry. May be left out if the output has one document.
    #[serde(default)]
    pub name: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows.
    pub rows: Vec<Vec<Value>>,
    /// Remarks that only the program knows, such as versions of peers.
    #[serde(default)]
    pub notes: Vec<String>,
    /// How often each value was measured, and which of them is shown.
    #[serde(default)]
    pub rounds: String,
    /// For imports: the command that printed this document, if not the registered one.
    #[serde(default)]
    pub command: String,
    /// For imports: how long the measurement took.
    #[serde(default)]
    pub seconds: f64,
}

impl Column {
    /// A column whose values have no unit.
    pub fn plain(name: &str) -> Self {
        Self { name: name.to_owned(), unit: String::new() }
    }

    /// The heading: the name, and the unit behind a comma.
    pub fn heading(&self) -> String {
        if self.unit.is_empty() {
            self.name.clone()
        } else if self.name.is_empty() {
            self.unit.clone()
        } else {
            format!("{}, {}", self.name, self.unit)
        }
    }
}

impl Table {
    /// Fails if a row has not one string or number per column, naming the row.
    pub fn validate(&self) -> Result<(), String> {
        if self.columns.is_empty() || self.rows.is_empty() {
            return Err("no columns or no rows".to_owned());
        }
        for (at, row) in self.rows.iter().enumerate() {
            if row.len() != self.columns.len() {
                let (found, expected) = (row.len(), self.columns.len());
                return Err(format!("row {}: {found} values, expected {expected}", at + 1));
            }
            if row.iter().any(|value| !value.is_string() && !value.is_number()) {
                return Err(format!("row {}: a value is neither a string nor a number", at + 1));
            }
        }
        Ok(())
    }

    /// Rows become columns: the first column's values become headings.
    pub fn transposed(self) -> Self {
        let mut columns = vec![Column::plain("")];
        columns.extend(self.rows.iter().map(|row| Column::plain(&text(&row[0]))));
        let rows = (1..self.columns.len())
            .map(|at| {
                let first = Value::from(self.columns[at].heading());
                std::iter::once(first).chain(self.rows.iter().map(|row| row[at].clone())).collect()
            })
            .collect();
        Self { columns, rows }
    }
}

/// A value as text.
pub fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Whether a cell holds a number, perhaps with a sign, a unit or a spread.
pub fn is_number(cell: &str) -> bool {
    let bare =
        cell.trim().trim_start_matches(['*', '+', '-', '−', '<', '>', '≤', '≥', '~', '±', ' ']);
    bare.starts_with(|first: char| first.is_ascii_digit())
}
