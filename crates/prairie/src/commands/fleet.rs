//! `prairie fleet`: fragmentation over many servers, simulated or real.

mod folder;
mod report;
mod rows;
mod run;
mod sources;

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::bail;
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
        FleetCommand::Run(args) => match run::write(args, interrupted)? {
            run::Outcome::Identity(_) => bail!("--identity: returns no report"),
            run::Outcome::Interrupted => bail!("interrupted"),
            run::Outcome::Exists(_) | run::Outcome::Wrote(_) => {
                report::ask(&report::Args::of_folder(args.folder()))
            }
        },
    }
}

/// Runs the subcommand.
pub fn run(args: &Args, interrupted: &'static AtomicBool) -> anyhow::Result<ExitCode> {
    match &args.command {
        FleetCommand::Run(args) => run::run(args, interrupted),
        FleetCommand::Report(args) => report::run(args),
    }
}
