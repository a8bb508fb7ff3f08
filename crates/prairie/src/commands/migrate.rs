//! `prairie migrate`: hardware that moves pages while they are in use.

mod check;
mod paper;
mod profile;
mod sim;

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use clap::Subcommand;

use crate::files::Files;

/// Check and simulate hardware migration of pages in use
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        match &self.command {
            Command::Check(args) => args.files(),
            Command::Sim(args) => args.files(),
            Command::Paper(args) => args.files(),
            Command::Profile(args) => args.files(),
        }
    }
}

/// The subcommands.
#[derive(Subcommand)]
enum Command {
    Check(check::Args),
    Sim(sim::Args),
    Paper(paper::Args),
    Profile(profile::Args),
}

/// Runs the subcommand.
pub fn run(args: &Args, interrupted: &'static AtomicBool) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Check(args) => check::run(args, interrupted),
        Command::Sim(args) => sim::run(args, interrupted),
        Command::Paper(args) => paper::run(args, interrupted),
        Command::Profile(args) => profile::run(args),
    }
}
