//! Running registered commands.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::host::{self, Host};
use crate::registry::Entry;
use crate::stored::Stored;
use crate::table::Document;
use crate::{code, extract};

/// Runs commands, each once, however many results are taken from its output.
pub struct Runner {
    root: PathBuf,
    outputs: BTreeMap<String, (String, f64)>,
}

impl Runner {
    /// Commands run in `root`.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), outputs: BTreeMap::new() }
    }

    /// Runs the entry's command and returns its result, not yet stored.
    pub fn run(&mut self, entry: &Entry) -> Result<Stored> {
        if !self.outputs.contains_key(&entry.command) {
            let started = Instant::now();
            let output = output(&self.root, &entry.command)?;
            let seconds = (started.elapsed().as_secs_f64() * 10.0).round() / 10.0;
            self.outputs.insert(entry.command.clone(), (output, seconds));
        }
        let (output, seconds) = &self.outputs[&entry.command];
        let mut document = extract::document(entry, output)?;
        document.seconds = *seconds;
        stored(&self.root, entry, document)
    }
}

/// The result that a document of the entry makes here and today.
pub fn stored(root: &Path, entry: &Entry, document: Document) -> Result<Stored> {
    let or = |first: String, second: &String| if first.is_empty() { second.clone() } else { first };
    let mut notes = document.notes;
    notes.extend(entry.notes.iter().cloned());
    Ok(Stored {
        name: entry.name.clone(),
        title: entry.title.clone(),
        command: or(document.command, &entry.command),
        commit: host::commit(root),
        date: host::today(),
        host: Host::here(),
        rounds: or(document.rounds, &entry.rounds),
        seeds: entry.seeds.clone(),
        deterministic: entry.deterministic,
        seconds: document.seconds,
        code_hash: code::hash(root, entry)?,
        notes,
        columns: document.columns,
        rows: document.rows,
    })
}

/// What the command prints. Programs of this build come first in its PATH, and their folder is
/// `$BIN`, so that scripts run the same build.
fn output(root: &Path, command: &str) -> Result<String> {
    let folder = std::env::current_exe()?.parent().context("no folder of programs")?.to_owned();
    let folder = if folder.ends_with("deps") { folder.join("..") } else { folder };
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{0}:{0}/examples:{path}", folder.display());
    let output = Command::new("sh")
        .args(["-c", command])
        .current_dir(root)
        .env("PATH", path)
        .env("BIN", &folder)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .output()?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let last: Vec<&str> = errors.lines().rev().take(5).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        bail!("`{command}` failed ({}): {}", output.status, last.join("\n"));
    }
    String::from_utf8(output.stdout).context("the output is not text")
}
