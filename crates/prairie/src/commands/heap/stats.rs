//! `prairie heap stats`: heap statistics of a running process.

use std::process::ExitCode;

use anyhow::Context;
use rustix::time::{ClockId, clock_gettime};

use crate::output;

/// Show heap statistics of a running process
///
/// Reads the statistics that the process publishes in its own memory at most four times a second.
/// The process is not stopped. Needs permission to trace it.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The process
    pid: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  prairie heap stats 1234
  prairie heap stats 1234 --json";

/// Prints the statistics.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let reading =
        prairie_heap::inspect::read(args.pid).with_context(|| format!("process {}", args.pid))?;
    if args.json {
        output::print_json_line(&reading.statistics)?;
        return Ok(ExitCode::SUCCESS);
    }
    let now = clock_gettime(ClockId::MonotonicCoarse);
    let now_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
    let age = now_ns.saturating_sub(reading.written_ns) as f64 / 1e9;
    output::print_text(&format!(
        "{age:.1} s old, {} page-level operations since\n{}",
        reading.operations_since, reading.statistics
    ))?;
    Ok(ExitCode::SUCCESS)
}
