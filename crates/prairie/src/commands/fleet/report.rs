//! `prairie fleet report`: contiguity over the servers of a fleet.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use prairie_fleet::hosts::{Day, Group, Hosts, JUDGED, Judged, Worst};
use prairie_fleet::row::Row;
use prairie_report::{Report, number};
use serde::Serialize;
use serde_json::{Value, json};

use super::folder::{Folder, Skipped, nothing_read};
use super::{rows, sources, stores};
use crate::called_as::generated_by;
use crate::commands::value;
use crate::files::Files;
use crate::output::{self, Answer, Header, Wanted, no_files};
use crate::view::{fleet as view, hosts as hosts_view};

/// Report on rows of hosts, simulated servers, or saved surveys
///
/// SOURCE is a file, a directory with all below it, or a pattern in quotes: rows of
/// `prairie survey --summary` (lines of JSON, Parquet), or parts of one study of `prairie fleet run`
/// and files of `prairie survey --save`. Rows may also be the files of an object store, such as
/// s3://bucket/rows/*.jsonl, which the program `duckdb` reads with its own credentials.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Files, directories, patterns, or addresses of object stores
    #[arg(required = true, value_name = "SOURCE", value_parser = value::utf8())]
    sources: Vec<String>,

    /// Group rows of hosts by these labels, or kernel
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "kernel")]
    by: Vec<String>,

    /// Rank the worst hosts by unusable, polluted, potential, or coverage
    #[arg(long, value_name = "NAME", default_value = RANK, value_parser = judged)]
    rank: Judged,

    /// Fail if a file or a line is bad [default: skip it and name it]
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
    /// Arguments of a report on a directory whose files must all be readable.
    pub fn of_folder(folder: &Path) -> Args {
        Args {
            sources: vec![folder.to_string_lossy().into_owned()],
            by: vec!["kernel".to_owned()],
            rank: judged(RANK).expect("the default is a measure"),
            strict: true,
            json: false,
            html: None,
        }
    }

    /// The sources in one line.
    fn name(&self) -> String {
        self.sources.join(" ")
    }

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
  prairie fleet report rows --rank coverage
  prairie fleet report 's3://bucket/date=2026-11-22/*.jsonl'";

/// What the worst hosts are ranked by.
const RANK: &str = "polluted";

/// A measure of rows by the beginning of its name.
fn judged(text: &str) -> Result<Judged, String> {
    let found = JUDGED.into_iter().find(|judged| !text.is_empty() && judged.name.starts_with(text));
    found.ok_or_else(|| "expected unusable, polluted, potential, or coverage".to_owned())
}

/// What `--json` prints of simulated servers and saved surveys.
#[derive(Serialize)]
pub struct Document {
    #[serde(flatten)]
    header: Header,
    skipped: Vec<Skipped>,
    missing_shards: Vec<u64>,
    systems: Vec<view::Summary>,
    rows: Vec<Row>,
}

/// What `--json` prints of rows of hosts.
#[derive(Serialize)]
struct HostsDocument<'a> {
    #[serde(flatten)]
    header: Header,
    skipped: &'a [Skipped],
    rows: usize,
    hosts: usize,
    by: &'a [String],
    groups: Vec<Group>,
    ranked_by: &'static str,
    worst: Vec<Worst>,
    days: Vec<Day>,
}

/// What the sources hold.
enum Contents {
    Hosts(Hosts, Vec<Skipped>),
    Servers(Folder),
}

/// Reads and reports.
pub fn ask(args: &Args) -> anyhow::Result<Answer<String>> {
    match read(args)? {
        Contents::Hosts(hosts, skipped) => {
            let document = hosts_document(args, &hosts, &skipped);
            let report = hosts_report(args, &hosts, &skipped);
            Answer::whole(document, report).into_text()
        }
        Contents::Servers(folder) => servers(args, folder).into_text(),
    }
}

/// What the report finds on one simulated study, as the document of a run with one seed: a figure
/// for each allocator and size, without the servers.
pub fn figures(args: &Args) -> anyhow::Result<Value> {
    let found = match read(args)? {
        Contents::Servers(folder) => folder,
        Contents::Hosts(..) => bail!("{}: rows of hosts, expected simulated servers", args.name()),
    };
    let systems: Vec<Value> = view::summaries(&found.rows).iter().map(view::named).collect();
    Ok(json!({ "schema": "prairie-fleet", "systems": systems }))
}

/// Reads, prints, and writes.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let wanted = Wanted { json: args.json, html: args.html.as_deref() };
    match read(args)? {
        Contents::Hosts(hosts, skipped) => {
            say_skipped(&skipped);
            let report = hosts_report(args, &hosts, &skipped);
            // The document of a million rows only where it is printed.
            output::publish(&report, wanted.json, wanted.html, || {
                hosts_document(args, &hosts, &skipped)
            })?;
            Ok(ExitCode::SUCCESS)
        }
        Contents::Servers(folder) => {
            say_skipped(&folder.skipped);
            servers(args, folder).finish(&wanted, no_files)
        }
    }
}

fn read(args: &Args) -> anyhow::Result<Contents> {
    let mut files = sources::files(&args.sources)?;
    let fetched = tempfile::tempdir().context("no folder for rows of object stores")?;
    let addresses = args.sources.iter().filter(|source| stores::is_address(source));
    for (number, address) in addresses.enumerate() {
        files.push(stores::fetch(address, fetched.path(), number)?);
    }
    let mut skipped = Vec::new();
    let (hosts, others) = rows::read(&files, &args.by, args.strict, &mut skipped)?;
    let name = args.name();
    match (hosts.is_empty(), others.is_empty()) {
        (false, true) => match hosts.unknown_label() {
            Some(label) => bail!(no_label(&name, label, &hosts)),
            None => Ok(Contents::Hosts(hosts, skipped)),
        },
        (true, false) => {
            let mut folder = Folder::read(&name, &others, args.strict)?;
            skipped.append(&mut folder.skipped);
            Ok(Contents::Servers(Folder { skipped, ..folder }))
        }
        (false, false) => bail!(
            "{name}: rows of hosts beside other files ({}), expected files of one kind",
            others[0].display()
        ),
        (true, true) => bail!(nothing_read(&name, files.len(), &skipped)),
    }
}

/// Why rows cannot be grouped by a label.
fn no_label(name: &str, label: &str, hosts: &Hosts) -> String {
    let mut expected = String::from("kernel");
    for label in hosts.labels() {
        expected += ", ";
        expected += label;
    }
    format!("{name}: no row has the label {label}, expected --by with any of: {expected}")
}

fn say_skipped(skipped: &[Skipped]) {
    for Skipped { file, lines, reason } in skipped {
        match lines {
            None => output::say(format_args!("skipped {file}: {reason}")),
            Some(_) => output::say(format_args!("{file}: skipped {reason}")),
        }
    }
}

fn hosts_document<'a>(args: &'a Args, hosts: &Hosts, skipped: &'a [Skipped]) -> HostsDocument<'a> {
    HostsDocument {
        header: Header::new("prairie-fleet-hosts", 1),
        skipped,
        rows: hosts.len(),
        hosts: hosts.hosts(),
        by: &args.by,
        groups: hosts.groups(),
        ranked_by: args.rank.name,
        worst: hosts.worst(&args.rank, hosts_view::WORST),
        days: hosts.days(),
    }
}

fn hosts_report(args: &Args, hosts: &Hosts, skipped: &[Skipped]) -> Report {
    hosts_view::report(hosts, &args.by, &args.rank, skipped_warning(skipped), generated_by())
}

fn servers(args: &Args, found: Folder) -> Answer<Document> {
    let report = view::report(&args.name(), &found.rows, warnings(&found), generated_by());
    let Folder { rows, skipped, missing_shards } = found;
    let document = Document {
        header: Header::new("prairie-fleet", 2),
        skipped,
        missing_shards,
        systems: view::summaries(&rows),
        rows,
    };
    Answer::whole(document, report)
}

/// Unreadable files that a report names; standard error has all.
const MAX_NAMED: usize = 10;

fn skipped_warning(skipped: &[Skipped]) -> Vec<String> {
    let (lines, files): (Vec<_>, Vec<_>) =
        skipped.iter().partition(|skipped| skipped.lines.is_some());
    let bad_lines: u64 = lines.iter().filter_map(|skipped| skipped.lines).sum();
    [
        ("Unreadable and skipped", files.len() as u64, files),
        ("Lines that are no row, skipped", bad_lines, lines),
    ]
    .into_iter()
    .filter(|(_, count, _)| *count > 0)
    .map(|(what, count, of)| format!("{what}: {} ({})", number::count(count), names(&of)))
    .collect()
}

/// The files of a warning.
fn names(skipped: &[&Skipped]) -> String {
    let named = skipped.iter().take(MAX_NAMED).map(|skipped| skipped.file.as_str());
    let names = named.collect::<Vec<_>>().join(", ");
    let more = if skipped.len() > MAX_NAMED { ", ..." } else { "" };
    format!("{names}{more}")
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
