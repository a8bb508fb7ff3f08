//! `prairie lab run`: a scenario under several allocators.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use prairie_model::allocator::{Allocator, World};
use prairie_report::write_atomically;
use prairie_sim::machine::scenario::{self, Scenario};
use prairie_sim::simulate::{self, Results};
use serde::Serialize;
use serde_json::Value;

use super::bench::fitting;
use crate::called_as::generated_by;
use crate::commands::allocators::{self, Allocators};
use crate::commands::seeds::{self, Seeds};
use crate::files::Files;
use crate::output::{Answer, Done, Header, Wanted};
use crate::usage_error::refuse;
use crate::view::lab as view;
use crate::{output, progress};

/// Run a workload model under several allocators
///
/// FILE.toml is a scenario: a machine, kinds of processes, files, kernel memory, phases.
#[derive(clap::Args)]
#[command(after_help = after_help())]
pub struct Args {
    /// Scenario (TOML)
    #[arg(value_name = "FILE.toml")]
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
    #[arg(long, value_name = "N")]
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
            .input("FILE", [&self.scenario])
            .output("--out", &self.out)
            .output("--html", &self.html)
    }
}

const EXAMPLES: &str = "\
Examples:
  prairie lab run server.toml
  prairie lab run server.toml --systems linux,linux+no-boost,linux+no-compaction
  prairie lab run server.toml --json | jq '.systems[].counters'";

fn after_help() -> String {
    format!("{EXAMPLES}\n\n{}", allocators::help(World::Machine))
}

/// What `--json` prints.
#[derive(Serialize)]
pub struct Document {
    #[serde(flatten)]
    header: Header,
    #[serde(flatten)]
    results: Results,
}

/// Runs, prints and writes as asked.
pub fn run(args: &Args, interrupted: &AtomicBool) -> anyhow::Result<ExitCode> {
    let subject = Subject::read(args)?;
    let wanted = Wanted { json: args.json, html: args.html.as_deref() };
    if let Some(seeds) = args.seeds.from(subject.seed) {
        if args.out.is_some() {
            refuse!("--out: samples are those of one run, expected no --seeds");
        }
        return seeds::repeat(seeds, wanted, |seed| subject.document(seed, interrupted));
    }
    subject.answer(interrupted)?.finish(&wanted, |answer| {
        let Some(path) = &args.out else { return Ok(()) };
        let results = &answer.document.results;
        let rows = simulate::to_parquet(results).context("the samples as Parquet")?;
        write_atomically(path, &rows)?;
        output::wrote(path);
        Ok(())
    })
}

/// Runs with one seed or several.
pub fn ask(args: &Args, interrupted: &AtomicBool) -> anyhow::Result<Answer<String>> {
    let subject = Subject::read(args)?;
    match args.seeds.from(subject.seed) {
        None => subject.answer(interrupted)?.into_text(),
        Some(seeds) => seeds::answer(seeds, |seed| subject.document(seed, interrupted))?
            .context("interrupted")?
            .into_text(),
    }
}

/// What is simulated.
struct Subject<'a> {
    path: &'a Path,
    scenario: Scenario,
    systems: &'a [Allocator],
    /// The first seed.
    seed: u64,
}

impl Subject<'_> {
    fn read(args: &Args) -> anyhow::Result<Subject<'_>> {
        let path = &args.scenario;
        let name = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        let scenario = scenario::parse(&text).with_context(|| name.to_string())?;
        let seed = args.seed.unwrap_or(scenario.seed);
        prairie_provenance::set_seed(seed);
        let systems = fitting(&args.systems, scenario.machine.memory.0)?;
        Ok(Subject { path, scenario, systems, seed })
    }

    fn simulate(&self, seed: u64, interrupted: &AtomicBool) -> anyhow::Result<Results> {
        let bar = progress::bar(Some(self.systems.len() as u64 * 1000), "Simulating");
        let results = simulate::run(
            &Scenario { seed, ..self.scenario.clone() },
            self.systems,
            &mut |system, done| bar.set_position(system as u64 * 1000 + (done * 1000.0) as u64),
            interrupted,
        );
        bar.finish_and_clear();
        results.with_context(|| self.path.display().to_string())
    }

    /// What `--json` prints of one run; `None` if it was interrupted.
    fn document(&self, seed: u64, interrupted: &AtomicBool) -> anyhow::Result<Option<Value>> {
        let results = self.simulate(seed, interrupted)?;
        let whole = !results.interrupted;
        Ok(whole.then(|| serde_json::to_value(document(results))).transpose()?)
    }

    fn answer(&self, interrupted: &AtomicBool) -> anyhow::Result<Answer<Document>> {
        let results = self.simulate(self.seed, interrupted)?;
        let report = view::run::report(self.path, &results, generated_by());
        let done = Done { count: results.systems.len() as u64, part: "allocator" };
        let stopped_after = results.interrupted.then_some(done);
        Ok(Answer { document: document(results), report, stopped_after })
    }
}

fn document(results: Results) -> Document {
    Document { header: Header::new("prairie-lab-run", 1), results }
}
