//! `prairie sources`: who allocates unmovable memory.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::bail;
use indicatif::ProgressBar;
use prairie_trace::{Column, Columns, Event, EventSource, Reader, Sources, Texts};
use serde::Serialize;

use super::survey::generated_by;
use crate::files::Files;
use crate::output::{self, Header};
use crate::view::sources as view;
use crate::{interrupt, progress};

/// Show who allocates unmovable memory
///
/// Lists the kernel subsystems and processes that made unmovable and reclaimable allocations during
/// a recording, the memory they still held at the end, and the lifetime of the rest. Subsystems are
/// known only from a recording made with `prairie record --stacks`.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Recording
    #[arg(value_name = "FILE.parquet")]
    recording: PathBuf,

    /// Print JSON instead of the report
    #[arg(long)]
    json: bool,

    /// Write the report as a self-contained HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Sources, processes and call chains to list
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
}

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        Files::default().input("FILE", [&self.recording]).output("--html", &self.html)
    }
}

const AFTER_HELP: &str = "\
Examples:
  sudo prairie record -o a.parquet --stacks -- make -j8
  prairie sources a.parquet                    the report in the terminal
  prairie sources a.parquet --html sources.html
  prairie sources a.parquet --json | jq '.by_source[] | {name, frames_held}'

Exit codes:
  0    success
  1    failure; one line on standard error: what, where, what was expected
  2    usage error
  130  interrupted; no partial files are left";

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    header: Header,
    page_bytes: u64,
    #[serde(flatten)]
    sources: &'a Sources,
}

/// Reads, prints and writes as asked.
pub fn run(args: &Args, interrupted: &'static AtomicBool) -> anyhow::Result<ExitCode> {
    let reader = Reader::open(&args.recording)?;
    let metadata = reader.metadata();
    if metadata.events == 0 {
        bail!(
            "{}: no events, expected a file of `prairie record --stacks`",
            args.recording.display()
        );
    }
    let columns = Columns::REPLAY.with(Column::Stack).with(Column::Text);
    let mut events = Watched {
        events: reader.events(columns),
        bar: progress::bar(Some(metadata.events), "Reading events"),
        interrupted,
    };
    let sources = Sources::of_events(&mut events, metadata.lost_events());
    events.bar.finish_and_clear();
    let sources = sources?;
    if interrupt::requested() {
        return Ok(output::interrupted());
    }
    let report = view::report(&sources, metadata, args.top, generated_by());
    output::publish(&report, args.json, args.html.as_deref(), || Document {
        header: Header::new("prairie-sources", 1),
        page_bytes: metadata.page_bytes,
        sources: &sources,
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A stream of events that shows progress, and ends when interrupted.
struct Watched<'a, S> {
    events: S,
    bar: ProgressBar,
    interrupted: &'a AtomicBool,
}

impl<S: EventSource> EventSource for Watched<'_, S> {
    fn next_batch(&mut self) -> prairie_trace::Result<Option<&[Event]>> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let batch = self.events.next_batch()?;
        self.bar.inc(batch.map_or(0, |batch| batch.len() as u64));
        Ok(batch)
    }

    fn texts(&self) -> &Texts {
        self.events.texts()
    }
}
