//! Checking that pages, results and code agree.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::host::History;
use crate::registry::{Class, Entry};
use crate::run::Runner;
use crate::stored::Stored;
use crate::table::{Table, text};
use crate::{code, numbers, page};

/// All stored results of the registry.
pub fn results(root: &Path, entries: &BTreeMap<String, Entry>) -> Result<BTreeMap<String, Stored>> {
    let mut results = BTreeMap::new();
    for name in entries.keys() {
        if let Some(stored) = Stored::read(root, name)? {
            results.insert(name.clone(), stored);
        }
    }
    Ok(results)
}

/// The Markdown pages below `docs/`.
pub fn pages(root: &Path) -> Result<Vec<PathBuf>> {
    let files = crate::files(&root.join("docs"))?;
    Ok(files.into_iter().filter(|path| path.extension().is_some_and(|md| md == "md")).collect())
}

/// What is wrong with the pages and with the files in `results/`, a line each.
pub fn of_pages(root: &Path, entries: &BTreeMap<String, Entry>) -> Result<Vec<String>> {
    let results = results(root, entries)?;
    let mut faults = Vec::new();
    for path in pages(root)? {
        let name = path.strip_prefix(root)?.display();
        let text = std::fs::read_to_string(&path).with_context(|| name.to_string())?;
        match page::rendered(&text, &results) {
            Ok(rendered) if rendered != text => {
                faults.push(format!("{name}: differs from results/; run `experiments render`"));
            }
            Ok(_) => {}
            Err(fault) => faults.push(format!("{name}: {fault}")),
        }
        for line in numbers::unmarked(&text) {
            faults.push(format!("{name}:{line}: table of numbers that no command wrote"));
        }
    }
    for path in crate::files(&root.join("results"))? {
        let result = path.file_stem().unwrap_or_default().to_string_lossy();
        let json = path.extension().is_some_and(|extension| extension == "json");
        if json && !entries.contains_key(result.as_ref()) {
            faults.push(format!("results/{result}.json: no entry in results/registry"));
        }
    }
    Ok(faults)
}

/// The results that are older than the code they measure, that were never measured, or whose commit
/// does not exist here.
pub fn stale(root: &Path, entries: &BTreeMap<String, Entry>) -> Result<Vec<String>> {
    let results = results(root, entries)?;
    let history = History::of(root);
    let mut stale = Vec::new();
    for entry in entries.values() {
        match results.get(&entry.name) {
            None => stale.push(format!("{}: not measured yet", entry.name)),
            Some(stored) if stored.code_hash != code::hash(root, entry)? => {
                stale.push(format!("{}: the code has changed since {}", entry.name, stored.commit));
            }
            Some(stored) if !history.has(&stored.commit) => {
                stale.push(format!("{}: no commit {} here", entry.name, stored.commit));
            }
            Some(_) => {}
        }
    }
    Ok(stale)
}

/// Whether `check` re-runs the result.
pub fn is_repeated(entry: &Entry) -> bool {
    entry.deterministic && entry.class == Class::Quick
}

/// Re-runs each quick deterministic result and returns how it differs from what is stored.
pub fn repeat(root: &Path, entries: &BTreeMap<String, Entry>) -> Result<Vec<String>> {
    let results = results(root, entries)?;
    let mut runner = Runner::new(root);
    let mut faults = Vec::new();
    for (entry, stored) in
        entries.values().filter_map(|entry| Some((entry, results.get(&entry.name)?)))
    {
        if !is_repeated(entry) {
            continue;
        }
        match runner.run(entry) {
            Ok(now) => faults.extend(difference(&stored.table(), &now.table()).map(|difference| {
                format!("{}: {difference}; run `experiments run {0}`", entry.name)
            })),
            Err(fault) => faults.push(format!("{}: {fault:#}", entry.name)),
        }
    }
    Ok(faults)
}

/// The first difference between two tables.
fn difference(stored: &Table, now: &Table) -> Option<String> {
    if stored.columns != now.columns {
        return Some("the columns differ".to_owned());
    }
    if stored.rows.len() != now.rows.len() {
        return Some(format!("{} rows, stored are {}", now.rows.len(), stored.rows.len()));
    }
    for (stored_row, now_row) in stored.rows.iter().zip(&now.rows) {
        for (at, column) in now.columns.iter().enumerate() {
            if stored_row[at] != now_row[at] {
                let (row, column) = (text(&now_row[0]), column.heading());
                let (stored, now) = (text(&stored_row[at]), text(&now_row[at]));
                return Some(format!("row `{row}`, column `{column}`: {now}, stored is {stored}"));
            }
        }
    }
    None
}
