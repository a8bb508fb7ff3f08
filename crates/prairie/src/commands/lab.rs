//! `prairie lab`: simulated machines under the laboratory's systems, and containers under its
//! controllers.

mod bench;
mod explain;
mod run;
mod tmo;
mod translation;

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use clap::Subcommand;

use crate::files::Files;

/// Simulate machines and containers: models and paper experiments
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        match &self.what {
            What::Run(args) => args.files(),
            What::Bench(args) => args.files(),
            What::Explain(args) => args.files(),
            What::Tmo(args) => args.files(),
            What::Translation(_) => Files::default(),
        }
    }
}

#[derive(Subcommand)]
enum What {
    Run(run::Args),
    Bench(bench::Args),
    Explain(explain::Args),
    Tmo(tmo::Args),
    Translation(translation::Args),
}

/// Runs the subcommand.
pub fn run(args: &Args, interrupted: &'static AtomicBool) -> anyhow::Result<ExitCode> {
    match &args.what {
        What::Run(args) => run::run(args, interrupted),
        What::Bench(args) => bench::run(args, interrupted),
        What::Explain(args) => explain::run(args, interrupted),
        What::Tmo(args) => tmo::run(args, interrupted),
        What::Translation(args) => translation::run(args),
    }
}
