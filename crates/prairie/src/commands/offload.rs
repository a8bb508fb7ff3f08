//! `prairie offload`: cold memory of containers to swap, under measured pressure.

mod check;
mod profile;
mod run;
mod status;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use clap::Subcommand;
use prairie_offload::config::Config;
use prairie_report::number;

use crate::files::Files;
use crate::output;

/// Offload cold memory of containers to swap, under measured pressure
///
/// A daemon that checks each container once per period and lets the kernel reclaim a little of its
/// idle memory while its pressure stays low: the controller of TMO (ASPLOS 2022), with additional
/// guards.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(subcommand)]
    command: OffloadCommand,
}

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        match &self.command {
            OffloadCommand::Run(args) => args.files(),
            OffloadCommand::Check(args) => args.files(),
            OffloadCommand::Restore(args) => {
                Files::default().input("--leases", [&args.leases]).input("--config", &args.config)
            }
            OffloadCommand::Status(_) | OffloadCommand::Profile(_) | OffloadCommand::Guard => {
                Files::default()
            }
        }
    }
}

const AFTER_HELP: &str = "\
Examples:
  prairie offload check --config offload.toml          is this host ready for offloading?
  sudo prairie offload run --config offload.toml --dry-run
  sudo prairie offload run --config offload.toml
  prairie offload status
  sudo prairie offload profile workload.slice/web.service

Exit codes:
  0    done; `check`: the host is ready
  1    failure; one line on standard error: what, where, what was expected
  2    usage error
  130  interrupted";

#[derive(Subcommand)]
enum OffloadCommand {
    Run(run::Args),
    Status(status::Args),
    Check(check::Args),
    Profile(profile::Args),
    Restore(RestoreArgs),
    /// Wait for the daemon to end, then restore its limits (started by the daemon)
    #[command(hide = true)]
    Guard,
}

/// Restore the limits that a killed daemon left leased
///
/// The daemon's guardian does so automatically; use this if both were killed. The systemd unit runs
/// it after each stop.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
struct RestoreArgs {
    /// Record of leased limits
    #[arg(long, value_name = "FILE", default_value = "/run/prairie/offload.leases")]
    leases: PathBuf,

    /// Configuration file (TOML) of the daemon, for its record
    #[arg(long, value_name = "FILE", conflicts_with = "leases")]
    config: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  sudo prairie offload restore
  sudo prairie offload restore --config offload.toml";

/// Does what was requested.
pub fn run(args: &Args, interrupted: &'static AtomicBool) -> anyhow::Result<ExitCode> {
    match &args.command {
        OffloadCommand::Run(args) => run::run(args),
        OffloadCommand::Status(args) => status::run(args),
        OffloadCommand::Check(args) => check::run(args),
        OffloadCommand::Profile(args) => profile::run(args, interrupted),
        OffloadCommand::Restore(args) => restore(args),
        OffloadCommand::Guard => guard(),
    }
}

impl Args {
    /// Whether the command handles signals itself.
    pub fn handles_signals(&self) -> bool {
        matches!(self.command, OffloadCommand::Run(_) | OffloadCommand::Guard)
    }
}

fn restore(args: &RestoreArgs) -> anyhow::Result<ExitCode> {
    use anyhow::Context;
    let leases = match &args.config {
        Some(config) => Config::load(config)?.daemon.leases,
        None => args.leases.clone(),
    };
    let restored = prairie_offload::world::guardian::restore_record(&leases)
        .with_context(|| leases.display().to_string())?;
    if restored.restored > 0 {
        output::say(format_args!(
            "restored {}",
            number::counted(restored.restored as u64, "limit")
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// The guardian: the daemon starts it with a pipe as its standard input.
fn guard() -> anyhow::Result<ExitCode> {
    prairie_offload::world::guardian::watch(std::io::stdin().lock());
    Ok(ExitCode::SUCCESS)
}
