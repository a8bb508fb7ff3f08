//! `prairie heap`: the hugepage-aware heap and its bench.

mod driver;
pub mod experiment;
mod playback;
mod played;
mod profile;
mod recording;
mod run;
mod stats;

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use clap::Subcommand;

use crate::files::Files;

/// Run programs on the hugepage-aware heap and evaluate page heaps
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: HeapCommand,
}

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        match &self.command {
            HeapCommand::Run(args) => args.files(),
            HeapCommand::Stats(_) => Files::default(),
            HeapCommand::Profile(args) => args.files(),
            HeapCommand::Experiment(args) => args.files(),
            HeapCommand::Driver(args) => args.files(),
            HeapCommand::Playback(args) => args.files(),
        }
    }
}

#[derive(Subcommand)]
enum HeapCommand {
    Run(run::Args),
    Stats(stats::Args),
    Profile(profile::Args),
    Experiment(experiment::Args),
    Driver(driver::Args),
    Playback(playback::Args),
}

/// Runs the subcommand. `interrupted` asks it to stop.
pub fn run(args: &Args, interrupted: &'static AtomicBool) -> anyhow::Result<ExitCode> {
    match &args.command {
        HeapCommand::Run(args) => run::run(args),
        HeapCommand::Stats(args) => stats::run(args),
        HeapCommand::Profile(args) => profile::run(args),
        HeapCommand::Experiment(args) => experiment::run(args, interrupted),
        HeapCommand::Driver(args) => driver::run(args, interrupted),
        HeapCommand::Playback(args) => playback::run(args, interrupted),
    }
}
