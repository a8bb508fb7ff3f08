//! Stored results: `results/NAME.json`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::host::Host;
use crate::table::{Column, Table};

/// A measured table, and everything needed to judge and repeat the measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    /// Name in the registry.
    pub name: String,
    /// What the table shows.
    pub title: String,
    /// The exact command.
    pub command: String,
    /// The commit at which it ran; `+` if files were changed since.
    pub commit: String,
    /// Day of the measurement.
    pub date: String,
    /// Where it ran.
    pub host: Host,
    /// Rounds, and which of them is shown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rounds: String,
    /// Random seeds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub seeds: String,
    /// Whether the same code prints the same values on every host.
    pub deterministic: bool,
    /// How long the command took.
    pub seconds: f64,
    /// Hash of the code that decides the values.
    pub code_hash: String,
    /// Remarks printed below the table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows.
    pub rows: Vec<Vec<Value>>,
}

impl Stored {
    /// The file of the result called `name`.
    pub fn path(root: &Path, name: &str) -> PathBuf {
        root.join("results").join(format!("{name}.json"))
    }

    /// The stored result called `name`, if there is one.
    pub fn read(root: &Path, name: &str) -> Result<Option<Self>> {
        let path = Self::path(root, name);
        if !path.exists() {
            return Ok(None);
        }
        let stored: Self = serde_json::from_str(&std::fs::read_to_string(&path)?)
            .with_context(|| path.display().to_string())?;
        Ok(Some(stored))
    }

    /// Writes the file, one row a line, beside its place and then renamed.
    pub fn write(&self, root: &Path) -> Result<()> {
        let path = Self::path(root, &self.name);
        let beside = path.with_extension("json.partial");
        std::fs::write(&beside, self.to_json()?)?;
        std::fs::rename(beside, path)?;
        Ok(())
    }

    fn to_json(&self) -> Result<String> {
        let mut frame = self.clone();
        frame.columns.clear();
        frame.rows.clear();
        let lines = |lines: Vec<String>| format!("[\n    {}\n  ]", lines.join(",\n    "));
        let columns = self.columns.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
        let rows = self.rows.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
        let text = serde_json::to_string_pretty(&frame)?
            .replace("\"columns\": []", &format!("\"columns\": {}", lines(columns)))
            .replace("\"rows\": []", &format!("\"rows\": {}", lines(rows)));
        Ok(text + "\n")
    }

    /// The table alone.
    pub fn table(&self) -> Table {
        Table { columns: self.columns.clone(), rows: self.rows.clone() }
    }
}
