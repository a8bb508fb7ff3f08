//! `prairie offload check`: whether this host is ready.

use std::path::PathBuf;
use std::process::ExitCode;

use prairie_daemon::finding::{Finding, Verdict, is_ready};
use prairie_offload::check::check;
use prairie_offload::config::Config;
use prairie_offload::world::probe::{Host, Paths};
use prairie_report::Terminal;
use serde::Serialize;

use crate::files::Files;
use crate::output::{self, Header};
use crate::view::findings;

/// Check whether this host is ready for offloading
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Also check the cgroups of this configuration
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  prairie offload check
  prairie offload check --config offload.toml

Exit codes:
  0    the host is ready
  1    it is not, or the check failed
  2    usage error";

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        Files::default().input("--config", &self.config)
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    header: Header,
    /// Nothing is missing.
    ready: bool,
    findings: Vec<Row<'a>>,
}

/// A finding under the keys of this document.
#[derive(Serialize)]
struct Row<'a> {
    about: &'a str,
    verdict: Verdict,
    found: &'a str,
    /// What to do about it; empty if nothing is to be done.
    cure: &'a str,
}

impl Row<'_> {
    fn of(finding: &Finding) -> Row<'_> {
        let Finding { about, verdict, found, remedy } = finding;
        Row { about, verdict: *verdict, found, cure: remedy }
    }
}

/// Checks and prints; exit code 1 if offloading would not work.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let config = args.config.as_deref().map(Config::load).transpose()?;
    let findings = check(&Host::probe(Paths::live()), config.as_ref());
    let ready = is_ready(&findings);
    if args.json {
        output::print_json(&Document {
            header: Header::new("prairie-offload-check", 1),
            ready,
            findings: findings.iter().map(Row::of).collect(),
        })?;
    } else {
        output::print_text(&findings::text(&findings, Terminal::of_stdout().width))?;
    }
    Ok(if ready { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
