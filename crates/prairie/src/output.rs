//! Where output goes: the terminal or a pager, JSON on standard output, files.

mod display;
mod header;
mod pager;

use std::fmt::Display as Shown;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use prairie_provenance::Provenance;
use prairie_report::terminal::stderr_has_unicode;
use prairie_report::{
    MapSheet, Report, Section, Table, Terminal, Theme, Timeline, ascii, number, write_atomically,
};
use serde::Serialize;

use self::display::Format;
pub use self::display::{Display, as_json, display, has_json};
pub use self::header::Header;
use crate::called_as::generated_by;
use crate::interrupt;
use crate::standard_output;
use crate::usage_error::refuse;

/// The results of a command that reports, before they are printed.
pub struct Answer<D> {
    /// What `--json` prints.
    pub document: D,
    /// The report.
    pub report: Report,
    /// How much was done, where the work was stopped before its end.
    pub stopped_after: Option<Done>,
}

/// How much was done, such as 3 allocators.
#[derive(Clone, Copy)]
pub struct Done {
    /// The number of parts.
    pub count: u64,
    /// The name of one part.
    pub part: &'static str,
}

/// Where a result goes.
pub struct Wanted<'a> {
    /// Print JSON.
    pub json: bool,
    /// Write a page.
    pub html: Option<&'a Path>,
}

impl<D: Serialize> Answer<D> {
    /// The answer of work that was not stopped.
    pub fn whole(document: D, report: Report) -> Answer<D> {
        Answer { document, report, stopped_after: None }
    }

    /// Prints the document or the report.
    pub fn print(&self, as_json: bool) -> anyhow::Result<()> {
        match as_json {
            true => print_json(&self.document),
            false => print_report(&self.report),
        }
    }

    /// Ends a command. What is done is printed; if nothing is missing, `write` writes the files that
    /// only this command has, and then the page is written.
    pub fn finish(
        mut self,
        wanted: &Wanted<'_>,
        write: impl FnOnce(&mut Answer<D>) -> anyhow::Result<()>,
    ) -> anyhow::Result<ExitCode> {
        if wanted.json || self.stopped_after.is_none_or(|done| done.count > 0) {
            self.print(wanted.json)?;
        }
        if let Some(done) = self.stopped_after {
            say(format_args!("interrupted after {}", number::counted(done.count, done.part)));
            return Ok(ExitCode::from(interrupt::EXIT_CODE));
        }
        write(&mut self)?;
        write_html(&self.report, wanted.html)?;
        Ok(ExitCode::SUCCESS)
    }

    /// The same with the document as the text that `--json` prints.
    pub fn into_text(self) -> anyhow::Result<Answer<String>> {
        let Answer { document, report, stopped_after } = self;
        Ok(Answer { document: json(&document)?, report, stopped_after })
    }
}

/// What [`Answer::finish`] writes of a command without files of its own.
pub fn no_files<D>(_: &mut Answer<D>) -> anyhow::Result<()> {
    Ok(())
}

/// Reports an event on standard error, in one line.
pub fn say(line: impl Shown) {
    let line = format!("prairie: {line}");
    let line = if stderr_has_unicode() { line } else { ascii(&line) };
    // Standard error may be full or closed; there is nowhere else to say so.
    let _ = writeln!(io::stderr(), "{line}");
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

/// Prints a report in the requested format: as text in the terminal's width and colors, through a
/// pager where it is longer than the terminal. Draws its charts, if requested.
pub fn print_report(report: &Report) -> anyhow::Result<()> {
    match display().format {
        Format::Text | Format::Json => pager::show(&report.terminal(Terminal::of_stdout())?)?,
        Format::Md => write_out(&report.markdown()?)?,
        Format::Csv => write_out(&report.csv())?,
    }
    write_charts(report)
}

/// Publishes a command's result: prints the report as text, or the document where `json` asks for
/// it, and writes the report as a page where `html` names one.
pub fn publish<D: Serialize>(
    report: &Report,
    json: bool,
    html: Option<&Path>,
    document: impl FnOnce() -> D,
) -> anyhow::Result<()> {
    match json {
        true => print_json(&document())?,
        false => print_report(report)?,
    }
    write_html(report, html)
}

/// Whether a format other than text was requested.
pub fn is_formatted() -> bool {
    !display().format.is_text()
}

/// Prints a screen of text that was made for standard output.
pub fn print_screen(text: &str) -> anyhow::Result<()> {
    write_out(text)
}

/// A JSON document and where it comes from.
#[derive(Serialize)]
struct Document<'a, T> {
    #[serde(flatten)]
    document: &'a T,
    #[serde(skip_serializing_if = "Option::is_none")]
    provenance: Option<Provenance>,
}

/// Prints `value`, an object, as one JSON document, with its provenance.
pub fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    write_out(&json(value)?)
}

/// An object as printed.
fn json(value: &impl Serialize) -> anyhow::Result<String> {
    let document = Document { document: value, provenance: prairie_provenance::block() };
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

/// Refuses what only reports have, for output without one.
///
/// # Errors
/// With `--svg`, `--format md`, and `--format csv`.
pub fn expect_no_report() -> anyhow::Result<()> {
    match &display().svg {
        Some(folder) => refuse!("--svg {}: this command prints no report", folder.display()),
        None => expect_text(),
    }
}

/// Refuses the formats of reports, for output that is none.
///
/// # Errors
/// With `--format md` and `--format csv`.
pub fn expect_text() -> anyhow::Result<()> {
    match display().format {
        Format::Text | Format::Json => Ok(()),
        format => {
            refuse!("--format {format}: this command prints no report, expected text or json")
        }
    }
}

/// Prints a table that is no part of a report, in the requested format.
pub fn print_table(mut table: Table) -> anyhow::Result<()> {
    if !is_formatted() {
        return print_text(&table.terminal(Terminal::of_stdout()));
    }
    // A heading says it.
    let title = std::mem::take(&mut table.title);
    print_report(&Report {
        title: title.clone(),
        subtitle: String::new(),
        generated_by: generated_by(),
        sections: vec![Section::of_table(title, table)],
    })
}

/// Prints text with the characters that standard output can show.
///
/// # Errors
/// Those of [`expect_text`].
pub fn print_text(text: &str) -> anyhow::Result<()> {
    expect_text()?;
    match Terminal::of_stdout().unicode {
        true => write_out(text),
        false => write_out(&ascii(text)),
    }
}

/// Prints `value`, an object, as a document of one line, with its provenance.
pub fn print_document_line(value: &impl Serialize) -> anyhow::Result<()> {
    write_out(&document_line(value)?)
}

/// An object as a document of one line, with its provenance.
pub fn document_line(value: &impl Serialize) -> anyhow::Result<String> {
    let document = Document { document: value, provenance: prairie_provenance::block() };
    Ok(serde_json::to_string(&document)? + "\n")
}

fn write_out(text: &str) -> anyhow::Result<()> {
    standard_output::write(text.as_bytes())
}

/// Writes a report as a page, if requested, and reports it. Draws its charts, if requested.
pub fn write_html(report: &Report, path: Option<&Path>) -> anyhow::Result<()> {
    if let Some(path) = path {
        report.write_html(path)?;
        wrote(path);
    }
    write_charts(report)
}

/// Writes the charts and maps of a report as SVG, once, if requested.
fn write_charts(report: &Report) -> anyhow::Result<()> {
    let Some(folder) = display().take_svg() else { return Ok(()) };
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create the directory {}", folder.display()))?;
    for (name, svg) in report.charts()? {
        let path = folder.join(name + ".svg");
        write_atomically(&path, svg.as_bytes())?;
        wrote(&path);
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
