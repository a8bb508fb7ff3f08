//! `prairie lab bench`: the 2006 paper's benchmarks on simulated machines.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use prairie_model::allocator::{Allocator, World};
use prairie_sim::bench::{self, Load, Outcome, Preset};
use prairie_sim::machine::scenario;
use serde::Serialize;

use crate::commands::allocators::{self, Allocators};
use crate::commands::seeds::{self, Seeds};
use crate::commands::survey;
use crate::files::Files;
use crate::output::{Answer, Done, Header, Wanted, no_files};
use crate::progress;
use crate::view::lab as view;

/// Run the 2006 anti-fragmentation paper's benchmarks
///
/// kbuild, AIM9, HugeTLB-Capability, Highalloc-Stress, and HotRemove-Capability run one after the
/// other on a machine that boots once for each allocator. AIM9 only runs as load: its rates are not
/// measured. Each allocator with `+linear` also runs with `+drain`, because linear reclaim drains
/// per-CPU lists.
#[derive(clap::Args)]
#[command(after_help = after_help())]
pub struct Args {
    /// Machine: x86, ppc64 (the paper's), modern (64 GiB), or small
    #[arg(long, value_name = "NAME", default_value = "x86")]
    machine: Preset,

    /// Allocators, or `all`; the first is the baseline [default: paper's]
    #[arg(long, visible_alias = "allocators", value_name = "NAMES", value_parser = allocators::simulated)]
    systems: Option<Allocators>,

    /// Run one kernel compile at a time, not one per 250 MiB
    #[arg(long)]
    light: bool,

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

    fn load(&self) -> Load {
        if self.light { Load::Light } else { Load::Heavy }
    }
}

const EXAMPLES: &str = "\
Examples:
  prairie lab bench                                    the paper's 32-bit machine
  prairie lab bench --machine small --systems buddy,lists
  prairie lab bench --systems buddy,zones+kernelcore=1024M,zones+kernelcore=1024M+linear
  prairie lab bench --systems lists --light            as configuration 1 of section 7";

fn after_help() -> String {
    format!("{EXAMPLES}\n\n{}", allocators::help(World::Machine))
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    header: Header,
    machine: &'static str,
    load: &'static str,
    seed: u64,
    systems: &'a [Outcome],
}

/// Runs the allocators one after another, prints and writes.
pub fn run(args: &Args, interrupted: &AtomicBool) -> anyhow::Result<ExitCode> {
    let systems = match &args.systems {
        Some(named) => named.clone(),
        None => allocators::simulated(args.machine.systems()).map_err(anyhow::Error::msg)?,
    };
    let systems = with_drain_only(fitting(&systems, args.machine.scenario(1).machine.memory.0)?);
    let wanted = Wanted { json: args.json, html: args.html.as_deref() };
    if let Some(seeds) = args.seeds.from(args.seed) {
        return seeds::repeat(seeds, wanted, |seed| {
            let outcomes = simulated(args, seed, &systems, interrupted)?;
            let whole = !interrupted.load(Ordering::Relaxed);
            Ok(whole.then(|| serde_json::to_value(document(args, seed, &outcomes))).transpose()?)
        });
    }
    let outcomes = simulated(args, args.seed, &systems, interrupted)?;
    let load = args.load();
    let report =
        view::bench::report(args.machine, load, args.seed, &outcomes, survey::generated_by());
    let stopped = interrupted.load(Ordering::Relaxed);
    let done = Done { count: outcomes.len() as u64, part: "allocator" };
    let document = document(args, args.seed, &outcomes);
    Answer { document, report, stopped_after: stopped.then_some(done) }.finish(&wanted, no_files)
}

/// Each allocator with one seed, as far as it was not interrupted.
fn simulated(
    args: &Args,
    seed: u64,
    systems: &[Allocator],
    interrupted: &AtomicBool,
) -> anyhow::Result<Vec<Outcome>> {
    let bar = progress::bar(Some(systems.len() as u64 * 5), "Simulating");
    let mut outcomes = Vec::new();
    for system in systems {
        let mut tell = |what: &str| {
            bar.set_message(format!("{system}: {what}"));
            bar.inc(1);
        };
        let load = args.load();
        let outcome = bench::run(args.machine, load, seed, system, &mut tell, interrupted)?;
        let Some(outcome) = outcome else { break };
        outcomes.push(outcome);
    }
    bar.finish_and_clear();
    Ok(outcomes)
}

fn document<'a>(args: &Args, seed: u64, outcomes: &'a [Outcome]) -> Document<'a> {
    Document {
        header: Header::new("prairie-lab-bench", 2),
        machine: args.machine.name(),
        load: if args.light { "light" } else { "heavy" },
        seed,
        systems: outcomes,
    }
}

/// The allocators, each with linear reclaim preceded by the same with drained per-CPU lists only.
fn with_drain_only(allocators: &[Allocator]) -> Vec<Allocator> {
    let mut all: Vec<Allocator> = Vec::new();
    for allocator in allocators {
        let drained = allocator.name().replace("+linear", "+drain");
        if drained != allocator.name()
            && allocators.iter().chain(&all).all(|other| other.name() != drained)
        {
            all.extend(drained.parse());
        }
        all.push(allocator.clone());
    }
    all
}

/// The allocators, if their options fit a machine with `memory` bytes.
pub fn fitting(allocators: &Allocators, memory: u64) -> anyhow::Result<&[Allocator]> {
    for allocator in &allocators.0 {
        scenario::check_allocator(allocator, memory)?;
    }
    Ok(&allocators.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_reclaim_is_compared_with_draining_alone() {
        let names = |text: &str| -> Vec<String> {
            let allocators = allocators::simulated(text).unwrap();
            with_drain_only(&allocators.0).iter().map(|found| found.name().to_owned()).collect()
        };
        assert_eq!(names("buddy,buddy+linear"), ["buddy", "buddy+drain", "buddy+linear"]);
        assert_eq!(names("buddy+linear,buddy+drain"), ["buddy+linear", "buddy+drain"]);
        assert_eq!(names("buddy,linux"), ["buddy", "linux"]);
    }
}
