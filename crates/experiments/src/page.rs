//! Writing stored results into Markdown pages, between markers.
//!
//! ```text
//! <!-- result: NAME -->
//! (the table, and a line that names command, commit and date)
//! <!-- end result -->
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Result, anyhow, bail};

use crate::stored::Stored;
use crate::table::{is_number, text};

const START: &str = "<!-- result: ";
const END: &str = "<!-- end result -->";

/// The page with the table of every marker rewritten. Fails at a marker without a result or
/// without an end.
pub fn rendered(page: &str, results: &BTreeMap<String, Stored>) -> Result<String> {
    let mut written = String::with_capacity(page.len());
    let mut lines = page.lines();
    let mut above = None;
    while let Some(line) = lines.next() {
        writeln!(written, "{line}")?;
        let Some(name) = marker(line) else { continue };
        let stored = results.get(name);
        let stored = stored.ok_or_else(|| anyhow!("results/{name}.json: no such file"))?;
        if !lines.by_ref().any(|line| line.trim() == END) {
            bail!("marker of {name}: no `{END}` follows");
        }
        written.push_str(&table(stored, above));
        above = Some(stored);
        writeln!(written, "{END}")?;
    }
    Ok(written)
}

/// The result that a line marks.
pub fn marker(line: &str) -> Option<&str> {
    line.trim().strip_prefix(START)?.strip_suffix("-->").map(str::trim)
}

/// The table of a result, and what it comes from. `above` is the result before it on the page.
fn table(stored: &Stored, above: Option<&Stored>) -> String {
    let once = is_single(stored);
    let cell = |text: String| {
        // One round has no spread.
        let text = if once { text.replace(" ± 0 %", "") } else { text };
        text.replace('|', "\\|")
    };
    let mut lines = String::from("\n");
    let line = |lines: &mut String, cells: Vec<String>| {
        lines.push_str(
            &format!("| {} |\n", cells.join(" | ")).replace("|  |", "| |").replace("|  |", "| |"),
        );
    };
    line(&mut lines, stored.columns.iter().map(|column| cell(column.heading())).collect());
    let rules = (0..stored.columns.len()).map(|at| {
        let mut values =
            stored.rows.iter().map(|row| text(&row[at])).filter(|text| !text.is_empty());
        let right = at > 0 && values.all(|value| is_number(&value));
        if right { "---:" } else { "---" }.to_owned()
    });
    line(&mut lines, rules.collect());
    for row in &stored.rows {
        line(&mut lines, row.iter().map(|value| cell(text(value))).collect());
    }
    lines.push('\n');
    lines.push_str(&source(stored, above));
    lines
}

/// Whether a result comes from a single round.
fn is_single(stored: &Stored) -> bool {
    stored.rounds.split([',', ';', ' ']).next() == Some("1")
}

/// Whether both results come from one run of one command.
fn is_same_run(one: &Stored, other: &Stored) -> bool {
    let run = |of: &'_ Stored| {
        let Stored { command, commit, date, host, rounds, seeds, .. } = of.clone();
        (command, commit, date, host, rounds, seeds)
    };
    run(one) == run(other)
}

/// What a table comes from: remarks, command, commit, date, and the host where it matters. Said once
/// where results of one run follow each other.
fn source(stored: &Stored, above: Option<&Stored>) -> String {
    let notes: String = stored.notes.iter().map(|note| format!("{note}\n\n")).collect();
    if above.is_some_and(|above| is_same_run(stored, above)) {
        return format!("{notes}<sub>from the run of the result above</sub>\n\n");
    }
    let command = stored.command.trim();
    let mut parts = Vec::new();
    // The lines of a script would run together in a sentence.
    let script = command.contains('\n').then(|| format!("```sh\n{command}\n```\n\n"));
    if script.is_none() {
        parts.push(format!("`{command}`"));
    }
    if !stored.seeds.is_empty() {
        parts.push(format!("seeds: {}", stored.seeds));
    }
    if !stored.rounds.is_empty() {
        let rounds = match is_single(stored) {
            true => stored.rounds.trim_end_matches("; medians ± half the range"),
            false => &stored.rounds,
        };
        parts.push(format!("rounds: {rounds}"));
    }
    parts.push(format!("commit {}, {}", stored.commit, stored.date));
    if !stored.deterministic {
        let host = &stored.host;
        let (cores, memory) = (host.cores, host.memory_gib);
        parts.push(format!("{}, {cores} CPUs, {memory} GiB, Linux {}", host.cpu, host.kernel));
    }
    format!("{notes}{}<sub>{}</sub>\n\n", script.unwrap_or_default(), parts.join("; "))
}
