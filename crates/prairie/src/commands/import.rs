//! `prairie import`: converts other tools' traces.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use prairie_report::number;
use prairie_trace::Reader;
use serde::Serialize;

use crate::files::Files;
use crate::output::{self, Header};
use crate::progress;

/// Convert another tool's trace for replay
///
/// Reads the binary traces of LLFree's replay and the text of `trace-cmd report`, `perf script`,
/// and ftrace's `trace` file; the format is detected. None of them records the initial state of
/// memory, so a replay starts with empty memory.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Trace of another tool
    #[arg(value_name = "FILE")]
    from: PathBuf,

    /// Output file; it appears when it is complete
    #[arg(short, long, value_name = "FILE.parquet")]
    output: PathBuf,

    /// Print a summary as JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        Files::default().input("FILE", [&self.from]).output("--output", [&self.output])
    }
}

const AFTER_HELP: &str = "\
Examples:
  trace-cmd report trace.dat > t.txt; prairie import t.txt -o t.parquet
  perf script > t.txt; prairie import t.txt -o t.parquet
  prairie import llfree.bin -o t.parquet
  prairie replay t.parquet

Exit codes:
  0    success
  1    failure; one line on standard error: what, where, what was expected
  2    usage error
  130  interrupted; no file is left";

/// What `--json` prints.
#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    header: Header,
    file: PathBuf,
    file_bytes: u64,
    /// The format of the other tool's trace.
    origin: prairie_trace::Origin,
    events: u64,
    /// Events that the other tool reports as lost.
    lost_events: u64,
    /// One more than the largest frame number that an event names.
    frames_named: u64,
}

/// Converts and reports the result.
pub fn run(args: &Args, interrupted: &'static AtomicBool) -> anyhow::Result<ExitCode> {
    let bar = progress::bar(None, "Reading events");
    let converted = prairie_trace::import::convert_while(&args.from, &args.output, &mut |events| {
        bar.set_position(events);
        !interrupted.load(Ordering::Relaxed)
    });
    bar.finish_and_clear();
    let Some(summary) = converted? else {
        return Ok(output::interrupted());
    };
    let reader = Reader::open(&args.output)?;
    let metadata = reader.metadata();
    let lost = metadata.lost_events();
    if args.json {
        output::print_json(&Document {
            header: Header::new("prairie-import", 1),
            file: args.output.clone(),
            file_bytes: summary.bytes,
            origin: metadata.origin.clone(),
            events: summary.events,
            lost_events: lost,
            frames_named: metadata.frames_named,
        })?;
    }
    output::say(format_args!(
        "{}; wrote {} ({})",
        number::counted(summary.events, "event"),
        args.output.display(),
        number::bytes(summary.bytes),
    ));
    if lost > 0 {
        output::say(format_args!(
            "WARNING: the trace reports {} lost",
            number::counted(lost, "event")
        ));
    }
    Ok(ExitCode::SUCCESS)
}
