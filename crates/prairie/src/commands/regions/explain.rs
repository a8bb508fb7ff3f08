//! `prairie regions explain`: a picture of what the daemon, or a kernel with a border, saw and did.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use prairie_observe::Summary;
use prairie_observe::journal::{self, JournalError};
use prairie_regions::series::{self, Row};

use crate::called_as::generated_by;
use crate::commands::log::say_damaged;
use crate::commands::value;
use crate::files::Files;
use crate::output;
use crate::view::log::regions as border;
use crate::view::regions as view;

/// Show region sizes, free memory, pressures, and operations over time
///
/// INPUT is a time series that the daemon wrote (daemon.series), or the folder of all of them. On a
/// kernel with a movable border (kernel/) it is a log of `prairie log run`, or a file of one.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Time series or file of a log (Parquet), or a folder of them
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
  prairie regions explain regions-1790000000000.parquet --html regions.html
  prairie regions explain /var/log/prairie --picture border.svg";

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

/// What a recording holds.
enum Recorded {
    /// Rows of the daemon.
    Daemon(Vec<Row>),
    /// Rows of a log.
    Log(Vec<Summary>),
}

/// The most rows of a log that are drawn; a longer log is thinned evenly.
const MAX_ROWS: u64 = 5000;

/// Reads, prints, draws.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (report, timeline) = match read(&args.input)? {
        Recorded::Daemon(rows) if rows.is_empty() => {
            bail!("{}: expected at least one row", args.input.display())
        }
        Recorded::Daemon(rows) => {
            (view::explain(&args.input, &rows), view::timeline(&args.input, &rows))
        }
        Recorded::Log(rows) => {
            let Some(timeline) = border::timeline(&args.input, &rows) else {
                bail!(
                    "{}: a log without regions, expected one of a kernel with a movable border",
                    args.input.display()
                );
            };
            (border::explain(&args.input, &rows, generated_by()), timeline)
        }
    };
    output::print_report(&report)?;
    output::write_html(&report, args.html.as_deref())?;
    if let Some(path) = &args.picture {
        output::write_timeline(&timeline, path)?;
        output::wrote(path);
    }
    Ok(ExitCode::SUCCESS)
}

fn read(input: &Path) -> anyhow::Result<Recorded> {
    if !input.is_dir() {
        return match journal::read_file(input) {
            Ok(Some(rows)) => Ok(Recorded::Log(rows)),
            Err(error @ JournalError::Version { .. }) => Err(error.into()),
            // Another kind of file, or none that can be read: the reader of series says so.
            _ => Ok(Recorded::Daemon(series::read(input)?)),
        };
    }
    if journal::days(input)?.is_some() {
        let found = journal::read_thinned(input, MAX_ROWS)?;
        say_damaged(&found.damaged);
        return Ok(Recorded::Log(found.rows));
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
    Ok(Recorded::Daemon(rows))
}
