//! `prairie heap lifetimes`: sizes and lifetimes of a running process's objects.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use prairie_heap::inspect;
use prairie_report::write_atomically;

use super::experiment::process::name;
use crate::files::Files;
use crate::output::{self, wrote};
use crate::view::heap_lifetimes::{Document, text};

/// Show sizes and lifetimes of a running process's objects
///
/// Estimates them from the samples in the memory of the process, which must have been started with
/// `prairie heap run --sample` or `--profile`: objects by size, how long those lived that were freed,
/// how old live ones are, and the sizes of spans. The process is not stopped. Needs permission to
/// trace it.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Process ID
    pid: u32,
    /// Write the sizes as input of `prairie heap driver`
    #[arg(short, long, value_name = "FILE.toml")]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  prairie heap run --sample -- redis-server &
  prairie heap lifetimes $(pgrep redis-server)
  prairie heap lifetimes $(pgrep redis-server) --out redis.toml
  prairie heap driver --sizes redis.toml

Exit codes:
  0    lifetimes were read
  1    the process cannot be read, or nothing was sampled yet
  2    usage error";

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        Files::default().output("--out", &self.out)
    }
}

/// Prints the histograms, and writes the sizes.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    output::expect_no_report()?;
    let process = || format!("process {}", args.pid);
    let lifetimes = inspect::lifetimes(args.pid).with_context(process)?;
    let name = name(args.pid);
    let driver = lifetimes.driver(&name);
    if let Some(path) = &args.out {
        let driver = driver.as_ref().ok_or_else(|| anyhow!("nothing was sampled yet"));
        write_atomically(path, driver.with_context(process)?.toml.as_bytes())?;
        wrote(path);
    }
    let document = Document::of(args.pid, &name, &lifetimes, driver.as_ref());
    match args.json {
        true => output::print_json(&document)?,
        false => output::print_text(&text(&document, args.out.as_deref()))?,
    }
    Ok(ExitCode::SUCCESS)
}
