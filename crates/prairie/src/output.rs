//! Where output goes: the terminal, JSON on standard output, files.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use prairie_report::terminal::stderr_has_unicode;
use prairie_report::{MapSheet, Report, Terminal, Theme, Timeline, ascii, write_atomically};
use serde::Serialize;

use crate::interrupt;

/// Reports an event on standard error, in one line.
pub fn say(line: impl Display) {
    let line = format!("prairie: {line}");
    eprintln!("{}", if stderr_has_unicode() { line } else { ascii(&line) });
}

/// Reports that a file was written.
pub fn wrote(path: &Path) {
    say(format_args!("wrote {}", path.display()));
}

/// Reports that the work was stopped; the exit code that says the same.
pub fn interrupted() -> ExitCode {
    say("interrupted");
    ExitCode::from(interrupt::EXIT_CODE)
}

/// Prints a report in the terminal's width and colors.
pub fn print_report(report: &Report) -> anyhow::Result<()> {
    write_out(&report.terminal(Terminal::of_stdout())?)
}

/// Prints `value` as one JSON document.
pub fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    write_out(&(serde_json::to_string_pretty(value)? + "\n"))
}

/// Prints text with the characters that standard output can show.
pub fn print_text(text: &str) -> anyhow::Result<()> {
    match Terminal::of_stdout().unicode {
        true => write_out(text),
        false => write_out(&ascii(text)),
    }
}

/// Prints `value` as one line of JSON.
pub fn print_json_line(value: &impl Serialize) -> anyhow::Result<()> {
    write_out(&(serde_json::to_string(value)? + "\n"))
}

fn write_out(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("standard output")
}

/// Writes a report as a page, if requested, and reports it.
pub fn write_html(report: &Report, path: Option<&Path>) -> anyhow::Result<()> {
    if let Some(path) = path {
        report.write_html(path)?;
        wrote(path);
    }
    Ok(())
}

/// Whether the reader of our output closed it, as `head` does: not a failure.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let cause = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// Writes a map as SVG or PNG, by the name's ending.
pub fn write_map(sheet: &MapSheet, path: &Path, theme: Theme) -> anyhow::Result<()> {
    let contents = match path.extension().and_then(|ending| ending.to_str()) {
        Some("svg") => sheet.svg(theme)?.into_bytes(),
        Some("png") => sheet.png(theme, PNG_SCALE)?,
        _ => anyhow::bail!("{}: a map is written as .png or .svg", path.display()),
    };
    Ok(write_atomically(path, &contents)?)
}

/// Writes a timeline as SVG or PNG, by the name's ending.
pub fn write_timeline(timeline: &Timeline, path: &Path) -> anyhow::Result<()> {
    let contents = match path.extension().and_then(|ending| ending.to_str()) {
        Some("svg") => timeline.svg(Theme::Auto).into_bytes(),
        _ => timeline.png(Theme::Light, PNG_SCALE)?,
    };
    Ok(write_atomically(path, &contents)?)
}

/// Pixels of a PNG for each unit of the drawing: sharp on a projector.
const PNG_SCALE: f32 = 2.0;
