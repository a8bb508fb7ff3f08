//! `prairie lab tmo`: TMO's experiments on simulated containers.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use prairie_tmo::experiment;
use prairie_tmo::findings::Findings;
use serde::Serialize;

use crate::commands::seeds::{self, Seeds};
use crate::commands::survey;
use crate::files::Files;
use crate::output::{Answer, Done, Header, Wanted, no_files};
use crate::progress;
use crate::view::lab as view;

/// Run TMO's experiments on simulated containers
///
/// Coldness of applications, savings by back end, the memory tax, a memory-bound server, fast
/// against slow devices, and the controllers side by side.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Experiments [default: all]
    #[arg(value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(experiment::names()))]
    experiments: Vec<String>,

    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    #[command(flatten)]
    seeds: Seeds,

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
        Files::default().output("--html", &self.html)
    }
}

const AFTER_HELP: &str = "\
Examples:
  prairie lab tmo figure-2                     how cold the simulated applications are
  prairie lab tmo figure-12 --html tmo.html    PSI and promotion rate on two devices
  prairie lab tmo agents phase-change          prairie, the formula, g-swap, senpai.py, oomd";

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    header: Header,
    seed: u64,
    experiments: &'a [Findings],
}

/// Runs the experiments one after another, prints and writes.
pub fn run(args: &Args, interrupted: &AtomicBool) -> anyhow::Result<ExitCode> {
    let named: Vec<&str> = match args.experiments.as_slice() {
        [] => experiment::names().collect(),
        named => named.iter().map(String::as_str).collect(),
    };
    let wanted = Wanted { json: args.json, html: args.html.as_deref() };
    if let Some(seeds) = args.seeds.from(args.seed) {
        return seeds::repeat(seeds, wanted, |seed| {
            let all = simulated(&named, seed, interrupted);
            let whole = !interrupted.load(Ordering::Relaxed);
            Ok(whole.then(|| serde_json::to_value(document(seed, &all))).transpose()?)
        });
    }
    let all = simulated(&named, args.seed, interrupted);
    let report = view::tmo::report(&all, args.seed, survey::generated_by());
    let stopped = interrupted.load(Ordering::Relaxed);
    let done = Done { count: all.len() as u64, part: "experiment" };
    let document = document(args.seed, &all);
    Answer { document, report, stopped_after: stopped.then_some(done) }.finish(&wanted, no_files)
}

/// The experiments with one seed, as far as they were not interrupted.
fn simulated(named: &[&str], seed: u64, interrupted: &AtomicBool) -> Vec<Findings> {
    let bar = progress::bar(Some(named.len() as u64), "Simulating");
    let mut all = Vec::new();
    for name in named {
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
        bar.set_message((*name).to_owned());
        all.extend(experiment::run(name, seed));
        bar.inc(1);
    }
    bar.finish_and_clear();
    all
}

fn document(seed: u64, all: &[Findings]) -> Document<'_> {
    Document { header: Header::new("prairie-lab-tmo", 1), seed, experiments: all }
}
