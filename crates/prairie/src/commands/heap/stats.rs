//! `prairie heap stats`: heap statistics of running processes.

use std::process::ExitCode;

use anyhow::Context;
use prairie_heap::Statistics;
use prairie_heap::inspect::{self, Survey};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::experiment::process::name;
use crate::output::{self, Header};
use crate::view::heap_processes::{self, Process};

/// Show heap statistics of running processes
///
/// Reads the statistics that a process publishes in its own memory at most four times a second. The
/// process is not stopped. Needs permission to trace it.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Process ID
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pid: Option<u32>,
    /// Show all processes that run on the heap, in one table
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  prairie heap stats 1234
  prairie heap stats 1234 --json
  prairie heap stats --all

Exit codes:
  0    statistics were read
  1    the process cannot be read
  2    usage error";

/// Prints the statistics.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match args.pid {
        Some(pid) => print_one(pid, args.json)?,
        None => print_all(&inspect::read_all().context("/proc")?, args.json)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn print_one(pid: u32, json: bool) -> anyhow::Result<()> {
    let reading = inspect::read(pid).with_context(|| format!("process {pid}"))?;
    if json {
        let header = Header::new("prairie-heap-stats", 1);
        return output::print_json(&One { header, statistics: &reading.statistics });
    }
    output::print_text(&format!(
        "{:.1} s old, {} page-level operations since\n{}",
        age_seconds(reading.written_ns),
        reading.operations_since,
        reading.statistics
    ))
}

/// The document of `--json` for one process.
#[derive(Serialize)]
struct One<'a> {
    #[serde(flatten)]
    header: Header,
    #[serde(flatten)]
    statistics: &'a Statistics,
}

/// The document of `--all --json`.
#[derive(Serialize)]
struct All<'a> {
    #[serde(flatten)]
    header: Header,
    /// Processes that are not ours to read.
    unreadable: usize,
    processes: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    pid: u32,
    name: String,
    age_seconds: f64,
    statistics: &'a Statistics,
}

fn print_all(survey: &Survey, json: bool) -> anyhow::Result<()> {
    let processes = survey.readings.iter().map(|(pid, reading)| Entry {
        pid: *pid,
        name: name(*pid),
        age_seconds: age_seconds(reading.written_ns),
        statistics: &reading.statistics,
    });
    if json {
        let processes = processes.collect();
        let header = Header::new("prairie-heap-stats-all", 1);
        return output::print_json(&All { header, unreadable: survey.unreadable, processes });
    }
    let rows: Vec<Process> = processes
        .map(|entry| Process { pid: entry.pid, name: entry.name, statistics: entry.statistics })
        .collect();
    let table = heap_processes::table(&rows, survey.unreadable);
    output::print_table(table)
}

fn age_seconds(written_ns: u64) -> f64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    let now_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
    now_ns.saturating_sub(written_ns) as f64 / 1e9
}
