//! `prairie lab`: simulated machines under allocators, and simulated containers under controllers.

mod bench;
mod explain;
mod run;
mod tmo;
mod translation;

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::bail;
use clap::Subcommand;

use crate::files::Files;
use crate::output::Answer;

/// Simulate machines and containers: models and paper experiments
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: LabCommand,
}

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        match &self.command {
            LabCommand::Run(args) => args.files(),
            LabCommand::Bench(args) => args.files(),
            LabCommand::Explain(args) => args.files(),
            LabCommand::Tmo(args) => args.files(),
            LabCommand::Translation(_) => Files::default(),
        }
    }
}

#[derive(Subcommand)]
enum LabCommand {
    Run(run::Args),
    Bench(bench::Args),
    Explain(explain::Args),
    Tmo(tmo::Args),
    Translation(translation::Args),
}

/// Does the work of a subcommand that Python calls.
pub fn ask(args: &Args, interrupted: &AtomicBool) -> anyhow::Result<Answer<String>> {
    match &args.command {
        LabCommand::Run(args) => run::ask(args, interrupted),
        _ => bail!("the command has no report to return"),
    }
}

/// Runs the subcommand.
pub fn run(args: &Args, interrupted: &'static AtomicBool) -> anyhow::Result<ExitCode> {
    match &args.command {
        LabCommand::Run(args) => run::run(args, interrupted),
        LabCommand::Bench(args) => bench::run(args, interrupted),
        LabCommand::Explain(args) => explain::run(args, interrupted),
        LabCommand::Tmo(args) => tmo::run(args, interrupted),
        LabCommand::Translation(args) => translation::run(args),
    }
}
