//! `prairie fleet`: fragmentation over many servers, simulated or real.

mod folder;
mod report;
mod rows;
mod run;
mod sources;
mod stores;

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use clap::Subcommand;

use crate::files::Files;
use crate::output::Answer;

/// Study fragmentation over many servers, simulated or surveyed
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: FleetCommand,
}

impl Args {
    /// Whether it leaves nothing half-written where a signal ends it.
    pub const fn handles_signals(&self) -> bool {
        matches!(self.command, FleetCommand::Report(_))
    }

    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        match &self.command {
            FleetCommand::Run(args) => args.files(),
            FleetCommand::Report(args) => args.files(),
        }
    }
}

#[derive(Subcommand)]
enum FleetCommand {
    Run(run::Args),
    Report(report::Args),
}

/// Simulates if asked to, then reads the folder.
pub fn ask(args: &Args, interrupted: &AtomicBool) -> anyhow::Result<Answer<String>> {
    match &args.command {
        FleetCommand::Report(args) => report::ask(args),
        FleetCommand::Run(args) => run::ask(args, interrupted),
    }
}

/// Runs the subcommand.
pub fn run(args: &Args, interrupted: &'static AtomicBool) -> anyhow::Result<ExitCode> {
    match &args.command {
        FleetCommand::Run(args) => run::run(args, interrupted),
        FleetCommand::Report(args) => report::run(args),
    }
}
