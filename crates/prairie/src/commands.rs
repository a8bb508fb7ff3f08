//! The subcommands, one file each.

mod import;
mod record;
mod replay;
mod sources;
mod survey;

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use clap::Subcommand;

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    Survey(survey::Args),
    Record(record::Args),
    Replay(replay::Args),
    Sources(sources::Args),
    Import(import::Args),
}

impl Command {
    /// Does it. `interrupted` asks it to stop.
    pub fn run(self, interrupted: &'static AtomicBool) -> anyhow::Result<ExitCode> {
        match self {
            Command::Survey(args) => survey::run(&args, interrupted),
            Command::Record(args) => record::run(&args, interrupted),
            Command::Sources(args) => sources::run(&args, interrupted),
            Command::Import(args) => import::run(&args, interrupted),
            Command::Replay(args) => replay::run(&args, interrupted),
        }
    }
}
