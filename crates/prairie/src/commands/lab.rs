//! `prairie lab`: simulated machines under the laboratory's systems.

mod bench;
mod run;

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use clap::Subcommand;

/// Simulate machines under other systems: workload models and the 2006 paper's benchmarks
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Run(run::Args),
    Bench(bench::Args),
}

/// Runs the subcommand.
pub fn run(args: &Args, interrupted: &'static AtomicBool) -> anyhow::Result<ExitCode> {
    match &args.what {
        What::Run(args) => run::run(args, interrupted),
        What::Bench(args) => bench::run(args, interrupted),
    }
}
