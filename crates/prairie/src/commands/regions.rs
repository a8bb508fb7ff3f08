//! `prairie regions`: unmovable memory of the running kernel confined to a region.

mod check;
mod explain;
mod reserve;
mod run;
mod status;
mod undo;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

use crate::files::Files;

/// Confine unmovable kernel memory to a region that follows demand
///
/// A daemon that moves memory blocks between the kernel zones and ZONE_MOVABLE with memory
/// hotplug: the operating-system half of Contiguitas (ISCA 2023) on an unmodified kernel. Kernel
/// memory then stays in few places, and whole gigabytes of the rest can be emptied.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  prairie regions check                                  what would confinement gain here?
  sudo prairie regions run --config regions.toml --dry-run
  sudo prairie regions run --config regions.toml
  prairie regions status
  sudo prairie regions reserve --size 1G --count 2 --node 0
  sudo prairie regions undo

Exit codes:
  0    done; `check`: the host qualifies
  1    failure; one line on standard error: what, where, what was expected
  2    usage error
  130  interrupted";

#[derive(Subcommand)]
enum Command {
    Check(check::Args),
    Run(run::Args),
    Status(status::Args),
    Undo(undo::Args),
    Reserve(reserve::Args),
    Explain(explain::Args),
    /// Wait for the daemon to end, then restore what it changed (the daemon starts this itself)
    #[command(hide = true)]
    Guard(GuardArgs),
}

#[derive(clap::Args)]
struct GuardArgs {
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        match &self.command {
            Command::Run(args) => args.files(),
            Command::Undo(args) => args.files(),
            Command::Reserve(args) => args.files(),
            Command::Explain(args) => args.files(),
            Command::Guard(args) => Files::default().input("--config", [&args.config]),
            Command::Check(_) | Command::Status(_) => Files::default(),
        }
    }

    /// Whether the command sees to signals itself.
    pub fn handles_signals(&self) -> bool {
        // One that ends the program at once could leave a block offline.
        let changes_blocks = matches!(self.command, Command::Undo(_) | Command::Reserve(_));
        changes_blocks
            || matches!(self.command, Command::Run(_) | Command::Guard(_) | Command::Check(_))
    }
}

/// Does what was asked for.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Check(args) => check::run(args),
        Command::Run(args) => run::run(args),
        Command::Status(args) => status::run(args),
        Command::Undo(args) => undo::run(args),
        Command::Reserve(args) => reserve::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Guard(args) => run::guard(&args.config),
    }
}
