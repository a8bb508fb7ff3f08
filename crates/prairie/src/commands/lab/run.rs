//! `prairie lab run`: a scenario under several allocators.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, bail};
use prairie_report::write_atomically;
use prairie_sim::machine::scenario;
use prairie_sim::simulate::{self, Results};
use serde::Serialize;

use super::bench::fitting;
use crate::commands::allocators::{self, Allocators};
use crate::commands::seeds::{self, Seeds, Wanted};
use crate::commands::survey;
use crate::files::Files;
use crate::view::lab as view;
use crate::{output, progress};

/// Run a workload model under several allocators
///
/// SCENARIO is a TOML file: a machine, kinds of processes, files, kernel memory, phases.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Scenario (TOML)
    scenario: PathBuf,

    /// Allocators, separated by commas, or `all`; first is the baseline
    #[arg(
        long,
        visible_alias = "allocators",
        value_name = "NAMES",
        value_parser = allocators::simulated,
        default_value = "buddy,linux,contiguitas"
    )]
    systems: Allocators,

    /// Random seed [default: the scenario's]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,

    #[command(flatten)]
    seeds: Seeds,

    /// Print JSON instead of the report
    #[arg(long)]
    json: bool,

    /// Write the samples as Parquet
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Write the report as a self-contained HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        Files::default()
            .input("SCENARIO", [&self.scenario])
            .output("--out", &self.out)
            .output("--html", &self.html)
    }
}

const AFTER_HELP: &str = "\
Examples:
  prairie lab run server.toml
  prairie lab run server.toml --systems linux,linux+no-boost,linux+no-compaction
  prairie lab run server.toml --json | jq '.systems[].counters'";

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    schema_version: u32,
    prairie_version: &'static str,
    #[serde(flatten)]
    results: &'a Results,
}

/// Runs, prints and writes as asked.
pub fn run(args: &Args, interrupted: &AtomicBool) -> anyhow::Result<ExitCode> {
    let path = args.scenario.display();
    let text =
        std::fs::read_to_string(&args.scenario).with_context(|| format!("cannot read {path}"))?;
    let mut scenario = scenario::parse(&text).with_context(|| path.to_string())?;
    let first = args.seed.unwrap_or(scenario.seed);
    prairie_provenance::set_seed(first);
    let systems = fitting(&args.systems, scenario.machine.memory.0)?;
    let mut simulated = |seed: u64| {
        let bar = progress::bar(Some(systems.len() as u64 * 1000), "Simulating");
        scenario.seed = seed;
        let results = simulate::run(
            &scenario,
            systems,
            &mut |system, done| bar.set_position(system as u64 * 1000 + (done * 1000.0) as u64),
            interrupted,
        );
        bar.finish_and_clear();
        results.with_context(|| path.to_string())
    };
    if let Some(seeds) = args.seeds.from(first) {
        if args.out.is_some() {
            bail!("--out: samples are those of one run, expected no --seeds");
        }
        let wanted = Wanted { json: args.json, html: args.html.as_deref() };
        return seeds::repeat(seeds, wanted, |seed| {
            let results = simulated(seed)?;
            let whole = !results.interrupted;
            Ok(whole.then(|| serde_json::to_value(document(&results))).transpose()?)
        });
    }
    let results = simulated(first)?;
    let report = view::run::report(&args.scenario, &results, survey::generated_by());
    if args.json {
        output::print_json(&document(&results))?;
    } else {
        output::print_report(&report)?;
    }
    if results.interrupted {
        return Ok(output::interrupted());
    }
    if let Some(path) = &args.out {
        let rows = simulate::to_parquet(&results).context("the samples as Parquet")?;
        write_atomically(path, &rows)?;
        output::wrote(path);
    }
    output::write_html(&report, args.html.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

fn document(results: &Results) -> Document<'_> {
    Document {
        schema: "prairie-lab-run",
        schema_version: 1,
        prairie_version: env!("CARGO_PKG_VERSION"),
        results,
    }
}
