//! `prairie fleet report`: contiguity over the servers of a fleet.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use prairie_fleet::hosts::{Day, Group, Hosts, JUDGED, Judged, Worst};
use prairie_fleet::row::Row;
use prairie_report::number;
use serde::Serialize;

use super::folder::{Folder, Skipped};
use super::{rows, sources};
use crate::commands::survey;
use crate::files::Files;
use crate::output;
use crate::view::{fleet as view, hosts as hosts_view};

/// Report on rows of hosts, simulated servers, or saved surveys
///
/// SOURCE is a file, a directory with all below it, or a pattern in quotes: rows of
/// `prairie survey --summary` (lines of JSON, Parquet), or parts of one study of `prairie fleet run`
/// and files of `prairie survey --save`.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Files, directories, or patterns
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<String>,

    /// Group rows of hosts by these labels, or kernel
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "kernel")]
    by: Vec<String>,

    /// Rank the worst hosts by unusable, polluted, potential, or coverage
    #[arg(long, value_name = "MEASURE", default_value = "polluted", value_parser = judged)]
    rank: Judged,

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
        // A source that names nothing is reported when it is read.
        let inputs = sources::files(&self.sources).unwrap_or_default();
        Files::default().input("SOURCE", &inputs).output("--html", &self.html)
    }
}

const AFTER_HELP: &str = "\
Examples:
  prairie fleet report study --html fleet.html
  prairie fleet report surveys --json | jq '.systems[].potential'
  prairie fleet report 'rows/date=*/*.jsonl' --by kernel,rack --html fleet.html
  prairie fleet report rows --rank coverage";

/// A measure of rows by the beginning of its name.
fn judged(text: &str) -> Result<Judged, String> {
    let found = JUDGED.into_iter().find(|judged| !text.is_empty() && judged.name.starts_with(text));
    found.ok_or_else(|| "expected unusable, polluted, potential, or coverage".to_owned())
}

/// What `--json` prints of simulated servers and saved surveys.
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

/// What `--json` prints of rows of hosts.
#[derive(Serialize)]
struct HostsDocument<'a> {
    schema: &'static str,
    schema_version: u32,
    prairie_version: &'static str,
    skipped: Vec<Skipped>,
    rows: usize,
    hosts: usize,
    by: &'a [String],
    groups: Vec<Group>,
    ranked_by: &'static str,
    worst: Vec<Worst>,
    days: Vec<Day>,
}

/// Reads, prints, and writes.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let files = sources::files(&args.sources)?;
    let mut skipped = Vec::new();
    let (hosts, others) = rows::read(&files, &args.by, args.strict, &mut skipped)?;
    let name = args.sources.join(" ");
    match (hosts.is_empty(), others.is_empty()) {
        (false, true) => report_hosts(args, &hosts, skipped),
        (true, false) => report_servers(args, &name, &others, skipped),
        (false, false) => bail!(
            "{name}: rows of hosts beside other files ({}), expected files of one kind",
            others[0].display()
        ),
        (true, true) => {
            let first =
                skipped.first().map_or(String::new(), |skipped| format!(": {}", skipped.reason));
            bail!("{name}: no file of {} can be read{first}", files.len())
        }
    }
}

fn say_skipped(skipped: &[Skipped]) {
    for Skipped { file, reason } in skipped {
        eprintln!("prairie: skipped {file}: {reason}");
    }
}

fn report_hosts(args: &Args, hosts: &Hosts, skipped: Vec<Skipped>) -> anyhow::Result<ExitCode> {
    say_skipped(&skipped);
    let warnings = skipped_warning(&skipped);
    if args.json {
        output::print_json(&HostsDocument {
            schema: "prairie-fleet-hosts",
            schema_version: 1,
            prairie_version: env!("CARGO_PKG_VERSION"),
            skipped,
            rows: hosts.len(),
            hosts: hosts.hosts(),
            by: &args.by,
            groups: hosts.groups(),
            ranked_by: args.rank.name,
            worst: hosts.worst(&args.rank, hosts_view::WORST),
            days: hosts.days(),
        })?;
        if args.html.is_none() {
            return Ok(ExitCode::SUCCESS);
        }
    }
    let by = survey::generated_by();
    let report = hosts_view::report(hosts, &args.by, &args.rank, warnings, by);
    if !args.json {
        output::print_report(&report)?;
    }
    output::write_html(&report, args.html.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

fn report_servers(
    args: &Args,
    name: &str,
    files: &[&Path],
    mut skipped: Vec<Skipped>,
) -> anyhow::Result<ExitCode> {
    let mut found = Folder::read(name, files, args.strict)?;
    skipped.append(&mut found.skipped);
    found.skipped = skipped;
    say_skipped(&found.skipped);
    let report = view::report(name, &found.rows, warnings(&found), survey::generated_by());
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

fn skipped_warning(skipped: &[Skipped]) -> Vec<String> {
    if skipped.is_empty() {
        return Vec::new();
    }
    let named = skipped.iter().take(MAX_NAMED).map(|skipped| skipped.file.as_str());
    let names = named.collect::<Vec<_>>().join(", ");
    let more = if skipped.len() > MAX_NAMED { ", ..." } else { "" };
    vec![format!("Unreadable and skipped: {} ({names}{more})", number::count(skipped.len() as u64))]
}

/// What the report does not cover.
fn warnings(found: &Folder) -> Vec<String> {
    let mut warnings = skipped_warning(&found.skipped);
    if !found.missing_shards.is_empty() {
        let shards: Vec<String> = found.missing_shards.iter().map(u64::to_string).collect();
        warnings.push(format!("Shards missing from the folder: {}", shards.join(", ")));
    }
    warnings
}
