//! `prairie regions check`: whether this host qualifies, and what would be gained.

use std::process::ExitCode;

use anyhow::Context;
use prairie_host::Roots;
use prairie_regions::check::{Report, check};
use prairie_report::Terminal;
use serde::Serialize;

use crate::output::{self, Header};
use crate::view::regions as view;

/// Check whether this host qualifies, and what confinement would gain
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  sudo prairie regions check
  sudo prairie regions check --json | jq '.stuck[] | {number, why}'

Exit codes:
  0    the host qualifies
  1    it does not, or the check failed
  2    usage error";

/// What `--json` prints.
#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    header: Header,
    #[serde(flatten)]
    report: Report,
}

/// Looks and prints; exit code 1 where the daemon would not work.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let report = check(&Roots::live()).context("cannot check this host")?;
    let qualifies = report.qualifies;
    match args.json {
        true => output::print_json(&Document {
            header: Header::new("prairie-regions-check", 1),
            report,
        })?,
        false => output::print_text(&view::check(&report, Terminal::of_stdout().width))?,
    }
    Ok(if qualifies { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
