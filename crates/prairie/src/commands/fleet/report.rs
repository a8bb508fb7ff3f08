//! `prairie fleet report`: what a fleet's servers have in common.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use prairie_fleet::row::{self, Row};
use prairie_host::Survey;
use serde::Serialize;

use crate::commands::survey;
use crate::files::Files;
use crate::output;
use crate::view::fleet as view;

/// Report on a directory of simulated servers or saved surveys
///
/// FOLDER holds what `prairie fleet run` wrote, or files of `prairie survey --save`, or both.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Directory with Parquet files
    folder: PathBuf,

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
  prairie fleet report surveys --json | jq '.systems[].without_free_2_mib'";

/// What `--json` prints.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    schema_version: u32,
    prairie_version: &'static str,
    systems: Vec<view::Summary>,
    rows: Vec<Row>,
}

/// Reads, prints and writes as asked.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let rows = read(&args.folder)?;
    let report = view::report(&args.folder, &rows, survey::generated_by());
    if args.json {
        output::print_json(&Document {
            schema: "prairie-fleet",
            schema_version: 1,
            prairie_version: env!("CARGO_PKG_VERSION"),
            systems: view::summaries(&rows),
            rows,
        })?;
    } else {
        output::print_report(&report)?;
    }
    output::write_html(&report, args.html.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

/// The servers of every Parquet file in a folder, by file name.
fn read(folder: &Path) -> anyhow::Result<Vec<Row>> {
    let cannot = || format!("cannot read the folder {}", folder.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        if path.extension().is_some_and(|ending| ending == "parquet") {
            paths.push(path);
        }
    }
    paths.sort();
    if paths.is_empty() {
        bail!(
            "{}: no .parquet file in it; `prairie fleet run` and `prairie survey --save` write them",
            folder.display()
        );
    }
    let mut rows = Vec::new();
    for path in paths {
        let part = row::from_parquet(&path).with_context(|| path.display().to_string())?;
        match part {
            Some(part) => rows.extend(part),
            None => rows.push(of_host(&path, rows.len() as u64)?),
        }
    }
    Ok(rows)
}

/// A real server, from its saved survey.
fn of_host(path: &Path, number: u64) -> anyhow::Result<Row> {
    let survey = Survey::of(&prairie_trace::snapshot::load(path)?)?;
    let Some(frames) = &survey.frames else {
        bail!("{}: a survey without frames; save it as root", path.display());
    };
    let free = |order: u8| {
        frames.available.iter().find(|found| found.order == order).map_or(0, |found| found.blocks)
    };
    let potential = |order: u8| {
        let found = frames.potential.iter().find(|found| found.order == order);
        found.map_or(0, |found| found.unknown_movable.blocks)
    };
    Ok(Row {
        workload: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        system: "host".to_owned(),
        uptime_s: survey.uptime_seconds.unwrap_or(f64::NAN),
        server: number,
        frames: frames.present_frames,
        free_frames: frames.by_mobility.free,
        free_2_mib: free(9),
        free_4_mib: free(10),
        free_32_mib: free(13),
        free_1_gib: free(18),
        potential_2_mib: potential(9),
        potential_32_mib: potential(13),
        potential_1_gib: potential(18),
        unmovable_frames: frames.by_mobility.unmovable,
        spoiled_blocks: frames.spoiled.spoiled_blocks,
        ..Row::default()
    })
}
