//! `prairie heap playback`: a recorded program on several page heaps.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, anyhow, bail};
use prairie_heap::playback::Playback;
use prairie_trace::page_heap::Reader;

use super::played::{Document, PAGE_HEAPS, PlayedArgs, Rate, answer};
use crate::files::Files;
use crate::output::{Answer, no_files};
use crate::progress;

/// Play a page-heap trace back on several page heaps
///
/// Each page heap places every span that the recorded program requested. The kernel's backing is
/// modeled; no memory is allocated.
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{PAGE_HEAPS}\n\n{EXIT_CODES}"))]
pub struct Args {
    /// Page-heap trace
    #[arg(value_name = "FILE.parquet")]
    trace: PathBuf,

    /// Memory released per second: a rate such as 10M, `off`, or `recorded`
    #[arg(long, value_name = "RATE", default_value = "recorded")]
    release: Rate,

    #[command(flatten)]
    played: PlayedArgs,
}

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        self.played.files(Files::default().input("FILE", [&self.trace]))
    }
}

const EXAMPLES: &str = "\
Examples:
  prairie heap driver --out heap.parquet
  prairie heap playback heap.parquet
  prairie heap playback heap.parquet --release 10M --html heap.html
  prairie heap playback heap.parquet --page-heap temeraire,temeraire:fullness,temeraire:best-fit
  prairie heap playback heap.parquet --json | jq '.systems[] | {system, means}'";

pub(super) const EXIT_CODES: &str = "\
Exit codes:
  0    success
  1    failure; one line on standard error: what, where, what was expected
  2    usage error
  130  interrupted; partial results are printed, no file is written";

/// Plays back.
pub fn ask(args: &Args, interrupted: &AtomicBool) -> anyhow::Result<Answer<Document>> {
    let options = args.played.options(args.release.0)?;
    let reader = Reader::open(&args.trace)?;
    let metadata = reader.metadata();
    if metadata.events == 0 {
        bail!("{}: no events, expected a page-heap trace", args.trace.display());
    }
    let bar = progress::bar(Some(metadata.events), "Playing back");
    let mut playback = Playback::new(&options);
    let mut events = reader.events();
    let mut played = 0;
    while let Some(batch) = events.next_batch()? {
        playback.play(batch);
        played += batch.len() as u64;
        bar.set_position(played);
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
    }
    bar.finish_and_clear();
    let results = playback
        .finish()
        .map_err(|error| anyhow!(error))
        .with_context(|| format!("{}: a page heap is inconsistent", args.trace.display()))?;
    let source = format!("{}: {}", args.trace.display(), metadata.source);
    Ok(answer(source, results, interrupted.load(Ordering::Relaxed)))
}

/// Plays back, prints and writes as asked.
pub fn run(args: &Args, interrupted: &AtomicBool) -> anyhow::Result<ExitCode> {
    ask(args, interrupted)?.finish(&args.played.wanted(), no_files)
}
