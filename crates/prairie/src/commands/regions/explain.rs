//! `prairie regions explain`: a picture of what the daemon saw and did.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use prairie_regions::series::{self, Row};

use crate::commands::value;
use crate::files::Files;
use crate::output;
use crate::view::regions as view;

/// Show region sizes, free memory, pressures, and operations over time
///
/// INPUT is a time series that the daemon wrote (daemon.series), or the folder of all of them.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Time series (Parquet), or a folder of them
    input: PathBuf,

    /// Draw the timeline
    #[arg(long, value_name = "FILE.png|.svg", value_parser = value::picture)]
    picture: Option<PathBuf>,

    /// Write the report as a self-contained HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  prairie regions explain /var/lib/prairie/regions --picture regions.svg
  prairie regions explain regions-1790000000000.parquet --html regions.html";

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        Files::default()
            .input("INPUT", [&self.input])
            .input_files_in("INPUT", &self.input, &["parquet"])
            .output("--picture", &self.picture)
            .output("--html", &self.html)
    }
}

/// Reads, prints, draws.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let rows = read(&args.input)?;
    if rows.is_empty() {
        bail!("{}: expected at least one row", args.input.display());
    }
    let report = view::explain(&args.input, &rows);
    output::print_report(&report)?;
    output::write_html(&report, args.html.as_deref())?;
    if let Some(path) = &args.picture {
        output::write_timeline(&view::timeline(&args.input, &rows), path)?;
        output::wrote(path);
    }
    Ok(ExitCode::SUCCESS)
}

fn read(input: &std::path::Path) -> anyhow::Result<Vec<Row>> {
    if !input.is_dir() {
        return Ok(series::read(input)?);
    }
    let entries = std::fs::read_dir(input).with_context(|| input.display().to_string())?;
    let mut rows = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| input.display().to_string())?.path();
        if path.extension().is_some_and(|ending| ending == "parquet") {
            rows.extend(series::read(&path)?);
        }
    }
    rows.sort_by_key(|row| row.at_ms);
    Ok(rows)
}
