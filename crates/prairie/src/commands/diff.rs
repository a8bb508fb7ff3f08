//! `prairie diff`: what changed between measurements, and whether it exceeds their spread.

mod log;
mod side;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use prairie_compare::{Comparison, Condition, rows};
use prairie_observe::journal::KIND;
use serde::Serialize;

use self::side::Side;
use super::survey;
use crate::files::Files;
use crate::output::{self, Header};
use crate::view::diff as view;

/// Compare surveys, replays, simulations, or logs before and after
///
/// BEFORE and AFTER are JSON documents of one command (`--json`), saved surveys, or directories of
/// such files. Several files on a side are repeated measurements: changes are then given with a 95 %
/// interval. A document of `--seeds` counts as one measurement for each seed.
///
/// Of a log (a directory or files of `prairie log`), each row is a measurement, and counters are
/// compared by their rate. As neighboring rows resemble each other, their correlation widens the
/// interval. A directory of more than 5000 rows is thinned evenly.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// File or directory; several separated by commas
    before: OsString,

    /// File or directory; several separated by commas
    after: OsString,

    /// Exit with 3 if the condition holds, such as 'polluted > 5 %'
    #[arg(long, value_name = "CONDITION", value_parser = condition)]
    fail_if: Vec<Named>,

    /// Leave out changes of less than this, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = threshold)]
    threshold: f64,

    /// Show all rows, also those that did not change
    #[arg(long)]
    all: bool,

    /// Print JSON instead of the report
    #[arg(long)]
    json: bool,

    /// Write the report as a self-contained HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Examples:
  prairie diff before.parquet after.parquet         two saved surveys
  prairie diff old.json new.json --fail-if 'polluted > 5 %'
  prairie diff a1.json,a2.json,a3.json b/           repeated runs, with intervals
  prairie diff log/prairie-2026-11-2{1,2}.parquet   two days of a log
  prairie diff old.json new.json --format md        for a mail

Conditions:
  NAME > 5 %           the change relative to before; > >= < <= == !=
  NAME > 10            the change, absolute
  after(NAME) < 50 %   the value after, before(NAME) the value before
  A and B, A or B, not A, (A)
  Names: unusable, polluted, potential, coverage, unmovable, free, or the end of
  a row's name; in double quotes if it has characters other than letters and _.[]:/#+

Exit codes:
  0    success
  1    failure; one line on standard error: what, where, what was expected
  2    usage error
  3    a condition of --fail-if holds
  130  interrupted; no partial files are left";

/// Exit code where a condition holds.
const CONDITION_HOLDS: u8 = 3;

/// A condition with its text.
#[derive(Clone)]
struct Named {
    text: String,
    condition: Condition,
}

fn condition(text: &str) -> Result<Named, String> {
    let condition = Condition::parse(text).map_err(|error| error.to_string())?;
    Ok(Named { text: text.to_owned(), condition })
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    header: Header,
    /// The kind of the documents that were compared.
    of: &'a str,
    conditions: Vec<Judged>,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

/// A condition and whether it holds.
#[derive(Serialize)]
struct Judged {
    condition: String,
    holds: bool,
    because: Vec<String>,
}

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        let mut files = Files::default().output("--html", &self.html);
        for (argument, paths) in [("BEFORE", &self.before), ("AFTER", &self.after)] {
            for path in listed(paths) {
                files = match path.is_dir() {
                    true => files.input_files_in(argument, &path, &side::ENDINGS),
                    false => files.input(argument, [&path]),
                };
            }
        }
        files
    }
}

/// A change in percent.
fn threshold(text: &str) -> Result<f64, String> {
    let percent = text.trim().trim_end_matches('%').trim().parse().ok();
    percent
        .filter(|percent: &f64| percent.is_finite() && *percent >= 0.0)
        .ok_or_else(|| "a number of percent, such as 1".to_owned())
}

/// The paths of one side.
fn listed(argument: &OsStr) -> Vec<PathBuf> {
    let paths = argument.as_bytes().split(|&byte| byte == b',').filter(|path| !path.is_empty());
    paths.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect()
}

/// Compares, prints, and judges.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let side = |argument: &OsStr| match listed(argument) {
        paths if paths.is_empty() => bail!("{}: no file named", argument.display()),
        paths => Side::read(&paths),
    };
    let (before, after) = (side(&args.before)?, side(&args.after)?);
    if before.kind != after.kind {
        let (one, two) = (&before.kind, &after.kind);
        bail!("documents of different kinds: {one} before and {two} after, expected one kind");
    }
    let numbers = |side: &Side| side.documents.iter().map(rows).collect::<Vec<_>>();
    let compare = match before.kind.as_str() {
        KIND => Comparison::of_series,
        _ => Comparison::new,
    };
    let comparison = compare(&numbers(&before), &numbers(&after));
    let conditions = judged(args, &comparison)?;
    let holding: Vec<&Judged> = conditions.iter().filter(|judged| judged.holds).collect();
    let code = if holding.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(CONDITION_HOLDS) };
    for judged in &holding {
        output::say(format_args!("{}: {}", judged.condition, judged.because.join("; ")));
    }
    let subject = view::Subject {
        kind: &before.kind,
        names: [&before.name, &after.name],
        threshold: args.threshold / 100.0,
        all: args.all,
        generated_by: survey::generated_by(),
    };
    let report = view::report(&comparison, subject);
    output::publish(&report, args.json, args.html.as_deref(), || Document {
        header: Header::new("prairie-diff", 1),
        of: &before.kind,
        conditions,
        comparison: &comparison,
    })?;
    Ok(code)
}

fn judged(args: &Args, comparison: &Comparison) -> anyhow::Result<Vec<Judged>> {
    let judge = |named: &Named| {
        let finding = named.condition.judge(comparison).map_err(|name| {
            anyhow!("--fail-if {:?}: no row is named {name:?}; --all lists the names", named.text)
        })?;
        let (holds, because) = (finding.holds, finding.because);
        Ok(Judged { condition: named.text.clone(), holds, because })
    };
    args.fail_if.iter().map(judge).collect()
}
