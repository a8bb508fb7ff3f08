//! `prairie heap`: the hugepage-aware heap and its bench.

mod driver;
pub mod experiment;
mod lifetimes;
mod playback;
mod played;
mod profile;
mod recording;
mod run;
mod stats;

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::bail;
use clap::Subcommand;

use crate::files::Files;
use crate::output::Answer;

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
            HeapCommand::Lifetimes(args) => args.files(),
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
    Lifetimes(lifetimes::Args),
    Experiment(experiment::Args),
    Driver(driver::Args),
    Playback(playback::Args),
}

/// Does the work of a subcommand that Python calls.
pub fn ask(args: &Args, interrupted: &AtomicBool) -> anyhow::Result<Answer<String>> {
    match &args.command {
        HeapCommand::Playback(args) => playback::ask(args, interrupted)?.into_text(),
        _ => bail!("the command has no report to return"),
    }
}

/// Runs the subcommand. `interrupted` asks it to stop.
pub fn run(args: &Args, interrupted: &'static AtomicBool) -> anyhow::Result<ExitCode> {
    match &args.command {
        HeapCommand::Run(args) => run::run(args),
        HeapCommand::Stats(args) => stats::run(args),
        HeapCommand::Profile(args) => profile::run(args),
        HeapCommand::Lifetimes(args) => lifetimes::run(args),
        HeapCommand::Experiment(args) => experiment::run(args, interrupted),
        HeapCommand::Driver(args) => driver::run(args, interrupted),
        HeapCommand::Playback(args) => playback::run(args, interrupted),
    }
}
