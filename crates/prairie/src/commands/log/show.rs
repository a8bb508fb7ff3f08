//! `prairie log show`: the log as a report.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use prairie_observe::journal::{self, ReadRows};
use prairie_observe::{Summary, summary};
use serde::Serialize;
use serde_json::{Map, Value};

use super::say_damaged;
use crate::commands::survey::generated_by;
use crate::files::Files;
use crate::output::{self, Header};
use crate::view::log as view;

/// Show a log as charts
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Directory of the log
    #[arg(value_name = "DIR", default_value = "/var/log/prairie")]
    dir: PathBuf,

    /// Print JSON instead of the report
    #[arg(long)]
    json: bool,

    /// Write the report as a self-contained HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Rows to show at most; a longer log is thinned evenly
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(2..))]
    rows: u64,
}

const EXAMPLES: &str = "\
Examples:
  prairie log show /var/log/prairie
  prairie log show /var/log/prairie --html log.html
  prairie log show /var/log/prairie --json | jq '.rows[-1].polluted_pageblocks'";

/// What `--json` prints.
#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    header: Header,
    host: String,
    kernel_release: String,
    rows: Vec<Value>,
}

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        Files::default().input_tree("DIR", [&self.dir]).output("--html", &self.html)
    }
}

/// Reads, prints and writes as asked.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let ReadRows { rows, damaged } = journal::read_thinned(&args.dir, args.rows)?;
    say_damaged(&damaged);
    let set_aside = journal::set_aside(&args.dir)?;
    if let Some((_, first)) = set_aside.first() {
        let others = match set_aside.len() - 1 {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        output::say(format_args!("{}: damaged, set aside by `log run`{others}", first.display()));
    }
    let (Some(origin), false) = (journal::origin(&args.dir)?, rows.is_empty()) else {
        bail!("{}: no log in it, expected files of `prairie log run`", args.dir.display());
    };
    let report = view::report(&rows, &origin.host, &origin.kernel_release, generated_by());
    output::publish(&report, args.json, args.html.as_deref(), || Document {
        header: Header::new(journal::KIND, 1),
        host: origin.host,
        kernel_release: origin.kernel_release,
        rows: rows.iter().map(row).collect(),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A row by the names of its columns; what is missing is null.
pub fn row(row: &Summary) -> Value {
    let integers = summary::integer_columns().iter();
    let integers = integers.map(|name| (name.clone(), row.integer(name).into()));
    let shares = summary::share_columns().iter().zip(row.all_unusable());
    let shares = shares.map(|(name, share)| (name.clone(), share.into()));
    let time = ("at_unix_ns".to_owned(), Value::from(row.at_unix_ns));
    Value::Object([time].into_iter().chain(integers).chain(shares).collect::<Map<_, _>>())
}
