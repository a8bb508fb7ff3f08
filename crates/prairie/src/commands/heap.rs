//! `prairie heap`: the hugepage-aware heap and its bench.

mod run;
mod stats;

use std::process::ExitCode;

use clap::Subcommand;

/// Run programs on the hugepage-aware heap, and look at it
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: HeapCommand,
}

#[derive(Subcommand)]
enum HeapCommand {
    Run(run::Args),
    Stats(stats::Args),
}

/// Does it.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        HeapCommand::Run(args) => run::run(args),
        HeapCommand::Stats(args) => stats::run(args),
    }
}
