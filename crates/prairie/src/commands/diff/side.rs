//! One side of a comparison: documents of one kind, from files of several forms.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use prairie_fleet::host_row;
use prairie_host::Survey;
use prairie_observe::journal::KIND;
use serde_json::Value;

use super::log;
use crate::commands::wrong_kind;

/// Endings of the files of a directory that are read.
pub const ENDINGS: [&str; 4] = [".json", ".jsonl", ".ndjson", ".parquet"];

/// Parquet files that are read.
const EXPECTED_PARQUET: &str = "a saved survey, rows of `prairie survey --summary`, or a log";

/// The documents of a side.
pub struct Side {
    /// Their kind: the field `schema`.
    pub kind: String,
    /// Its files, for headings.
    pub name: String,
    /// The documents, one for each measurement.
    pub documents: Vec<Value>,
}

impl Side {
    /// Reads files and the files of directories.
    ///
    /// # Errors
    /// If one cannot be read, is of another kind than the first, or none is there.
    pub fn read(paths: &[PathBuf]) -> anyhow::Result<Side> {
        let mut sources = Vec::new();
        for path in paths {
            if !path.is_dir() {
                sources.push((path.clone(), None));
            } else if let Some(rows) = log::directory(path)? {
                sources.push((path.clone(), Some(rows)));
            } else {
                sources.extend(files_in(path)?.into_iter().map(|file| (file, None)));
            }
        }
        let mut documents: Vec<Value> = Vec::new();
        let mut kind: Option<String> = None;
        for (file, rows) in sources {
            for document in rows.map_or_else(|| read(&file), Ok)? {
                let own = kind_of(&document).ok_or_else(|| {
                    anyhow!(
                        "{}: no field `schema`, expected a document of `--json`",
                        file.display()
                    )
                })?;
                let first = kind.get_or_insert_with(|| own.clone());
                if *first != own {
                    bail!(
                        "{}: a document of kind {own}, expected {first} as the first",
                        file.display()
                    );
                }
                documents.push(document);
            }
        }
        let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        let name = names.join(",");
        match kind {
            Some(kind) => Ok(Side { kind, name, documents }),
            None => {
                bail!("{name}: no file to compare, expected names ending in {}", ENDINGS.join(", "))
            }
        }
    }
}

fn kind_of(document: &Value) -> Option<String> {
    document.get("schema")?.as_str().map(str::to_owned)
}

/// The files of a directory by name.
fn files_in(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let cannot = || format!("cannot read the directory {}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_file() && ENDINGS.iter().any(|ending| name.ends_with(ending)) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The documents of one file.
fn read(path: &Path) -> anyhow::Result<Vec<Value>> {
    let within = || path.display().to_string();
    let mut head = [0; 4];
    let is_parquet = fs::File::open(path)
        .and_then(|mut file| std::io::Read::read(&mut file, &mut head))
        .with_context(|| format!("cannot read {}", path.display()))?
        == head.len()
        && &head == b"PAR1";
    if is_parquet {
        return parquet(path);
    }
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let Ok(text) = String::from_utf8(bytes) else {
        bail!("{}: not text, expected a JSON document, {EXPECTED_PARQUET}", path.display());
    };
    let documents = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    let documents: Vec<Value> = documents
        .collect::<Result<_, _>>()
        .map_err(|e| anyhow!("not JSON ({e}), expected what a command prints with --json"))
        .with_context(within)?;
    if documents.is_empty() {
        bail!("{}: empty file, expected a JSON document, {EXPECTED_PARQUET}", path.display());
    }
    Ok(documents.into_iter().flat_map(runs).collect())
}

/// The documents of the single runs, if it is one over several seeds, or of the rows of a log.
fn runs(mut document: Value) -> Vec<Value> {
    if let (Some(KIND), Some(rows)) = (document["schema"].as_str(), document["rows"].as_array()) {
        return log::documents(rows);
    }
    match document.get_mut("runs").map(Value::take) {
        Some(Value::Array(runs)) => runs,
        _ => vec![document],
    }
}

/// A saved survey, or rows of a fleet or a log.
fn parquet(path: &Path) -> anyhow::Result<Vec<Value>> {
    let within = || path.display().to_string();
    if let Some(rows) = log::file(path, EXPECTED_PARQUET)? {
        return Ok(rows);
    }
    if let Some(rows) = host_row::read_parquet(path).with_context(within)? {
        return rows.iter().map(|row| Ok(serde_json::to_value(row)?)).collect();
    }
    let capture = prairie_trace::snapshot::load(path)
        .map_err(|error| wrong_kind::named(error, EXPECTED_PARQUET))?;
    let survey = Survey::of(&capture).with_context(within)?;
    let mut document = serde_json::to_value(survey)?;
    document["schema"] = "prairie-survey".into();
    Ok(vec![document])
}
