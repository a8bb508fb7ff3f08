//! The declared results: one entry per table, in `results/registry/*.toml`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::form::Form;

/// How long a result takes, and so when it is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// At most a few seconds. If deterministic, `check` re-runs and compares it.
    Quick,
    /// At most a quarter of an hour: `make results`.
    Minutes,
    /// Longer, or on machines that most do not have: `make results-long`.
    Long,
}

/// One result: which command prints it, and how its table is taken out of the output.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Name of the result, of its file and of its markers.
    pub name: String,
    /// What the table shows, in one line.
    pub title: String,
    /// The command, run by `sh` in the repository's root. Programs of the workspace are found.
    pub command: String,
    /// How long it takes.
    pub class: Class,
    /// Whether the same code prints the same values on every host.
    pub deterministic: bool,
    /// Crates (folders of `crates/`) whose code decides the values; what they use is included.
    #[serde(default)]
    pub crates: Vec<String>,
    /// Further files and folders that decide the values: scripts, inputs.
    #[serde(default)]
    pub files: Vec<String>,
    /// Random seeds, as text for the reader.
    #[serde(default)]
    pub seeds: String,
    /// Rounds, as text for the reader, if the command's output does not say.
    #[serde(default)]
    pub rounds: String,
    /// Remarks printed below the table.
    #[serde(default)]
    pub notes: Vec<String>,
    /// How the table is taken out of the output.
    pub from: Form,
    /// Rows to keep, by column and values of it, before anything else is arranged.
    #[serde(default)]
    pub only: BTreeMap<String, Vec<String>>,
    /// Columns to show, by name in the output, in this order; all if empty.
    #[serde(default)]
    pub select: Vec<String>,
    /// New headings by old ones.
    #[serde(default)]
    pub rename: BTreeMap<String, String>,
    /// Rows to show, by their first value, in this order; all if empty.
    #[serde(default)]
    pub rows: Vec<String>,
    /// New first values by old ones, applied after `rows`.
    #[serde(default)]
    pub relabel: BTreeMap<String, String>,
    /// Turns rows into columns, after `select` and `rows`.
    #[serde(default)]
    pub transpose: bool,
    /// Columns of values that no command prints, such as the paper's, appended to the rows.
    #[serde(default)]
    pub beside: Vec<Beside>,
}

/// A column of declared values.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beside {
    /// Its heading.
    pub column: String,
    /// The index of the column after it, counted from 0.
    pub at: usize,
    /// Values by the row's first value.
    pub values: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    result: Vec<Entry>,
}

/// Reads every file of the registry.
pub fn read(root: &Path) -> Result<BTreeMap<String, Entry>> {
    let mut entries = BTreeMap::new();
    for path in crate::files(&root.join("results/registry"))? {
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        let file: File = toml::from_str(&text).with_context(|| path.display().to_string())?;
        for entry in file.result {
            let name = entry.name.clone();
            if entries.insert(name.clone(), entry).is_some() {
                bail!("{}: `{name}` is declared twice", path.display());
            }
        }
    }
    Ok(entries)
}

/// The entries that `names` mean; a name may end in `*`.
pub fn chosen<'a>(
    entries: &'a BTreeMap<String, Entry>,
    names: &[String],
) -> Result<Vec<&'a Entry>> {
    let mut chosen = Vec::new();
    for name in names {
        let before = chosen.len();
        chosen.extend(entries.values().filter(|entry| match name.strip_suffix('*') {
            Some(start) => entry.name.starts_with(start),
            None => entry.name == *name,
        }));
        if chosen.len() == before {
            bail!("no such result: {name}; `experiments list` prints their names");
        }
    }
    Ok(chosen)
}
