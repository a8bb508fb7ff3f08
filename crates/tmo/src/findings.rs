//! The results of an experiment: a table, curves, and the paper's statement.

use serde::Serialize;

/// The result of one experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Findings {
    /// The experiment's name.
    pub name: &'static str,
    /// The question.
    pub title: String,
    /// The paper's result, or the assumption.
    pub paper: String,
    /// The label of the rows.
    pub rows_are: &'static str,
    /// The labels of the values.
    pub columns: Vec<String>,
    /// Rows.
    pub rows: Vec<Row>,
    /// Curves over time.
    pub curves: Vec<Curves>,
    /// Notes.
    pub notes: Vec<String>,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Of what.
    pub name: String,
    /// A value for each column.
    pub values: Vec<Value>,
}

/// A value with its unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// A share; 1 is all.
    Share(f64),
    /// Bytes; may be negative.
    Bytes(i64),
    /// Things.
    Count(u64),
    /// Things a second.
    Rate(f64),
    /// Milliseconds.
    Milliseconds(f64),
    /// Words.
    Text(String),
    /// Not applicable.
    Nothing,
}

/// Curves over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curves {
    /// What they show.
    pub title: String,
    /// The quantity.
    pub quantity: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Each by its name: seconds and values.
    pub series: Vec<(String, Vec<(f64, f64)>)>,
}

/// The unit of curves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Shares.
    Share,
    /// Bytes.
    Bytes,
    /// A second.
    Rate,
}
