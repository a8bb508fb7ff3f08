//! `prairie fleet report`: contiguity over the servers of a fleet.

use std::path::PathBuf;
use std::process::ExitCode;

use prairie_fleet::row::Row;
use serde::Serialize;

use super::folder::{Folder, Skipped};
use crate::commands::survey;
use crate::files::Files;
use crate::output;
use crate::view::fleet as view;

/// Report on a directory of simulated servers or saved surveys
///
/// FOLDER holds parts of one study of `prairie fleet run`, files of `prairie survey --save`, or
/// both.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Directory with Parquet files
    folder: PathBuf,

    /// Fail if a file cannot be read [default: skip it and name it]
    #[arg(long)]
    strict: bool,

    /// Print JSON instead of the report
    #[arg(long)]
    json: bool,

    /// Write the report as a self-contained HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        Files::default()
            .input_files_in("FOLDER", &self.folder, &[".parquet"])
            .output("--html", &self.html)
    }
}

const AFTER_HELP: &str = "\
Examples:
  prairie fleet report study --html fleet.html
  prairie fleet report surveys --json | jq '.systems[].potential'";

/// What `--json` prints.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    schema_version: u32,
    prairie_version: &'static str,
    skipped: Vec<Skipped>,
    missing_shards: Vec<u64>,
    systems: Vec<view::Summary>,
    rows: Vec<Row>,
}

/// Reads, prints, and writes.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let found = Folder::read(&args.folder, args.strict)?;
    for Skipped { file, reason } in &found.skipped {
        eprintln!("prairie: skipped {file}: {reason}");
    }
    let report = view::report(&args.folder, &found.rows, warnings(&found), survey::generated_by());
    if args.json {
        let Folder { rows, skipped, missing_shards } = found;
        output::print_json(&Document {
            schema: "prairie-fleet",
            schema_version: 2,
            prairie_version: env!("CARGO_PKG_VERSION"),
            skipped,
            missing_shards,
            systems: view::summaries(&rows),
            rows,
        })?;
    } else {
        output::print_report(&report)?;
    }
    output::write_html(&report, args.html.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

/// Unreadable files that a report names; standard error has all.
const MAX_NAMED: usize = 10;

/// What the report does not cover.
fn warnings(found: &Folder) -> Vec<String> {
    let mut warnings = Vec::new();
    if !found.skipped.is_empty() {
        let named = found.skipped.iter().take(MAX_NAMED).map(|skipped| skipped.file.as_str());
        let names = named.collect::<Vec<_>>().join(", ");
        let more = if found.skipped.len() > MAX_NAMED { ", ..." } else { "" };
        warnings.push(format!("Unreadable and skipped: {} ({names}{more})", found.skipped.len()));
    }
    if !found.missing_shards.is_empty() {
        let shards: Vec<String> = found.missing_shards.iter().map(u64::to_string).collect();
        warnings.push(format!("Shards missing from the folder: {}", shards.join(", ")));
    }
    warnings
}
