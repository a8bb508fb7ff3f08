//! `prairie sources`: who allocates memory that cannot be moved.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::bail;
use indicatif::ProgressBar;
use prairie_trace::{Column, Columns, Event, EventSource, Reader, Sources, Texts};
use serde::Serialize;

use super::survey::generated_by;
use crate::files::Files;
use crate::view::sources as view;
use crate::{interrupt, output, progress};

/// Show who allocates unmovable memory
///
/// Reads a recording and says which parts of the kernel, and which processes, made its unmovable
/// and reclaimable allocations, how much of that memory they still held at the end, and how long
/// they kept the rest. Only a recording made with `prairie record --stacks` tells the parts of the
/// kernel apart.
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
    /// What this is.
    schema: &'static str,
    schema_version: u32,
    /// The Prairie that wrote it.
    prairie_version: &'static str,
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
            "{}: it holds no events; `prairie record --stacks` makes a file that does",
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
    if args.json {
        output::print_json(&Document {
            schema: "prairie-sources",
            schema_version: 1,
            prairie_version: env!("CARGO_PKG_VERSION"),
            page_bytes: metadata.page_bytes,
            sources: &sources,
        })?;
    } else {
        output::print_report(&report)?;
    }
    output::write_html(&report, args.html.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

/// A stream of events that shows how far it is, and ends early when it is interrupted.
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
