//! Table documents that measuring programs print (`results/README.md`), and numbers in them.

use serde::Serialize;

/// One table, as `results/README.md` describes it.
#[derive(Debug, Serialize)]
pub struct Document {
    name: String,
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    rounds: String,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Column {
    name: String,
}

impl Document {
    /// A table without rows yet.
    pub fn new(name: &str, columns: &[&str], rounds: String) -> Document {
        let column = |name: &&str| Column { name: (*name).to_owned() };
        Document {
            name: name.to_owned(),
            columns: columns.iter().map(column).collect(),
            rows: Vec::new(),
            rounds,
            notes: Vec::new(),
        }
    }

    /// Adds a remark to be printed below the table.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds a row.
    pub fn row(&mut self, name: impl Into<String>, cells: impl IntoIterator<Item = String>) {
        self.rows.push(std::iter::once(name.into()).chain(cells).collect());
    }
}

/// Mean and sample standard deviation.
pub fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0).max(1.0)).sqrt())
}

/// Mean and standard deviation over the seeds, such as `67.9 ± 3.3`.
pub fn spread(values: &[f64]) -> String {
    let (mean, deviation) = moments(values);
    let digits = match mean.abs() {
        0.0..10.0 => 2,
        10.0..1000.0 => 1,
        _ => 0,
    };
    if deviation == 0.0 && mean == mean.round() {
        return format!("{mean:.0}");
    }
    format!("{mean:.digits$} ± {deviation:.digits$}")
}
