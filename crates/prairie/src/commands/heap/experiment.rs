//! `prairie heap experiment`: two page heaps side by side, in processes that are started or that
//! run already.

pub mod process;
mod rows;
mod start;
mod watch;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use prairie_heap::experiment::Subject;
use serde::Serialize;

use super::run::PageHeap;
use crate::commands::value::time;
use crate::files::Files;
use crate::output::{self, Header};
use crate::usage_error::refuse;
use crate::view::heap_experiment::{self, Comparison};

/// Compare page heaps across processes
///
/// Given a program, runs it on each page heap, interleaved, and samples each run to its end.
/// Otherwise samples running processes, such as those that `prairie heap run --experiment` assigned
/// to a page heap. Reports the difference of each measure with its 95 % confidence interval.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Runs of the program on each page heap
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    /// Observation time of running processes
    #[arg(long = "for", value_name = "TIME", value_parser = time, default_value = "60s")]
    time: Duration,
    /// Time between two observations
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "250ms")]
    every: Duration,
    /// Process IDs to observe [default: all that run on the heap]
    #[arg(long = "pid", value_name = "PID", conflicts_with = "program")]
    pids: Vec<u32>,
    /// Write every observation to a Parquet file
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Library to preload [default: libprairie_heap.so beside prairie]
    #[arg(long, value_name = "FILE.so")]
    library: Option<PathBuf>,
    /// A program to start, and its arguments; its output is discarded
    #[arg(trailing_var_arg = true)]
    program: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  prairie heap experiment --rounds 10 -- gcc -O2 -c large.c
  prairie heap experiment --for 10m --out rows.parquet

Exit codes:
  0    both page heaps were observed
  1    a page heap was not observed, or a run failed
  2    usage error";

/// Least time between two observations: reading a process costs about a millisecond.
const LEAST: Duration = Duration::from_millis(10);

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        Files::default()
            .input("PROGRAM", crate::commands::program(&self.program))
            .input("--library", &self.library)
            .output("--out", &self.out)
    }
}

/// One process and when each of its observations was made.
struct Observed {
    pid: u32,
    /// Seconds since the experiment began.
    at: Vec<f64>,
    subject: Subject,
}

/// Runs the experiment and reports it.
pub fn run(args: &Args, interrupted: &'static AtomicBool) -> anyhow::Result<ExitCode> {
    if args.every < LEAST {
        refuse!("--every {}: expected at least 10ms", humantime::format_duration(args.every));
    }
    output::expect_no_report()?;
    let observed = match args.program.is_empty() {
        false => start::observe(args, interrupted)?,
        true => watch::observe(args, interrupted)?,
    };
    if let Some(path) = &args.out {
        rows::write(path, &observed)?;
        output::wrote(path);
    }
    let subjects: Vec<Subject> = observed.into_iter().map(|observed| observed.subject).collect();
    let comparison = Comparison::of(&subjects);
    if args.json {
        let header = Header::new("prairie-heap-experiment", 1);
        output::print_json(&Document { header, comparison: &comparison })?;
    } else {
        output::print_text(&heap_experiment::text(&comparison))?;
    }
    let complete = comparison.programs.iter().any(|program| program.arms.len() > 1);
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    header: Header,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

const ARMS: [PageHeap; 2] = [PageHeap::Temeraire, PageHeap::Legacy];
