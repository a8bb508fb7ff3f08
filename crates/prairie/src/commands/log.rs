//! `prairie log`: a row of figures at each interval, kept in Parquet files.

mod run;
mod show;

pub use show::row;

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use clap::Subcommand;
use prairie_observe::journal::JournalError;

use crate::files::Files;
use crate::output;

/// Keep fragmentation figures in daily Parquet files, and show them
///
/// `prairie top --at` shows the same log interactively.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(subcommand)]
    command: LogCommand,
}

const AFTER_HELP: &str = "\
Examples:
  sudo prairie log run /var/log/prairie
  prairie log show /var/log/prairie --html log.html
  prairie top --at 2h --log /var/log/prairie

Exit codes:
  0    success; stopped by a signal
  1    failure; one line on standard error: what, where, what was expected
  2    usage error
  130  interrupted; no partial files are left";

#[derive(Subcommand)]
enum LogCommand {
    Run(run::Args),
    Show(show::Args),
}

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        match &self.command {
            LogCommand::Run(args) => args.files(),
            LogCommand::Show(args) => args.files(),
        }
    }
}

/// Does what was requested.
pub fn run(args: &Args, interrupted: &'static AtomicBool) -> anyhow::Result<ExitCode> {
    match &args.command {
        LogCommand::Run(args) => run::run(args, interrupted),
        LogCommand::Show(args) => show::run(args),
    }
}

/// Names the files of a log that were left out.
pub fn say_damaged(damaged: &[JournalError]) {
    for error in damaged {
        output::say(format_args!("skipped {error}"));
    }
}
