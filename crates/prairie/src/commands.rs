//! The subcommands, one file each.

mod against;
mod allocators;
mod completions;
mod daemon;
mod diff;
mod explain;
mod export;
mod fleet;
mod guests;
mod heap;
mod import;
mod lab;
mod linux_rules;
mod log;
mod man;
pub mod migrate;
mod offload;
mod policies;
mod psi;
mod record;
mod regions;
mod replay;
mod seeds;
mod sources;
mod stalls;
mod survey;
mod top;
mod value;
mod watched;
mod wrong_kind;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::bail;
use clap::Subcommand;
use prairie_replay::run::Guest;

use crate::files::Files;
use crate::output::Answer;

/// The subcommands.
#[derive(Subcommand)]
pub enum Command {
    Survey(survey::Args),
    Record(record::Args),
    Replay(replay::Args),
    Sources(sources::Args),
    Diff(diff::Args),
    Stalls(stalls::Args),
    Explain(explain::Args),
    Import(import::Args),
    Lab(lab::Args),
    Fleet(fleet::Args),
    Migrate(migrate::Args),
    Offload(offload::Args),
    Regions(regions::Args),
    Psi(psi::Args),
    Export(export::Args),
    Log(log::Args),
    Top(top::Args),
    Heap(heap::Args),
    Allocators(policies::Args),
    Completions(completions::Args),
    Man(man::Args),
}

impl Command {
    /// Whether it handles signals itself, as a daemon does, or leaves nothing half-written where one
    /// ends it.
    pub fn handles_signals(&self) -> bool {
        match self {
            Command::Offload(args) => args.handles_signals(),
            Command::Regions(args) => args.handles_signals(),
            Command::Fleet(args) => args.handles_signals(),
            Command::Diff(_) => true,
            _ => false,
        }
    }

    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        match self {
            Command::Survey(args) => args.files(),
            Command::Record(args) => args.files(),
            Command::Replay(args) => args.files(),
            Command::Sources(args) => args.files(),
            Command::Diff(args) => args.files(),
            Command::Stalls(args) => args.files(),
            Command::Explain(args) => args.files(),
            Command::Import(args) => args.files(),
            Command::Lab(args) => args.files(),
            Command::Fleet(args) => args.files(),
            Command::Migrate(args) => args.files(),
            Command::Offload(args) => args.files(),
            Command::Regions(args) => args.files(),
            Command::Heap(args) => args.files(),
            Command::Man(args) => args.files(),
            Command::Psi(_) | Command::Completions(_) | Command::Allocators(_) => Files::default(),
            Command::Export(args) => args.files(),
            Command::Log(args) => args.files(),
            Command::Top(args) => args.files(),
        }
    }

    /// Runs it. `interrupted` asks it to stop; `whole` makes the command line that it is part of.
    pub fn run(
        self,
        interrupted: &'static AtomicBool,
        whole: impl FnOnce() -> clap::Command,
    ) -> anyhow::Result<ExitCode> {
        self.files().check()?;
        match self {
            Command::Survey(args) => survey::run(&args, interrupted),
            Command::Record(args) => record::run(&args, interrupted),
            Command::Sources(args) => sources::run(&args, interrupted),
            Command::Stalls(args) => stalls::run(&args, interrupted),
            Command::Explain(args) => explain::run(&args, interrupted),
            Command::Heap(args) => heap::run(&args, interrupted),
            Command::Diff(args) => diff::run(&args),
            Command::Import(args) => import::run(&args, interrupted),
            Command::Lab(args) => lab::run(&args, interrupted),
            Command::Fleet(args) => fleet::run(&args, interrupted),
            Command::Migrate(args) => migrate::run(&args, interrupted),
            Command::Offload(args) => offload::run(&args, interrupted),
            Command::Regions(args) => regions::run(&args),
            Command::Psi(args) => psi::run(&args, interrupted),
            Command::Completions(args) => completions::run(&args, whole()),
            Command::Man(args) => man::run(&args, whole()),
            Command::Export(args) => export::run(&args, interrupted),
            Command::Log(args) => log::run(&args, interrupted),
            Command::Top(args) => top::run(&args, interrupted),
            Command::Replay(args) => replay::run(&args, interrupted),
            Command::Allocators(args) => policies::run(&args),
        }
    }

    /// Does the work of a command that reports, and returns what it would print.
    pub fn ask(
        self,
        guests: Vec<Guest>,
        interrupted: &AtomicBool,
    ) -> anyhow::Result<Answer<String>> {
        self.files().check()?;
        match self {
            Command::Survey(args) => survey::ask(&args, interrupted)?.0.into_text(),
            Command::Replay(args) => replay::ask(&args, guests, interrupted)?.into_text(),
            Command::Lab(args) => lab::ask(&args, interrupted),
            Command::Fleet(args) => fleet::ask(&args, interrupted),
            Command::Heap(args) => heap::ask(&args, interrupted),
            _ => bail!("the command has no report to return"),
        }
    }
}

/// The file of the program to run, if the command line names it by its path.
fn program(command: &[OsString]) -> Option<&Path> {
    command.first().map(Path::new).filter(|program| program.components().count() > 1)
}
