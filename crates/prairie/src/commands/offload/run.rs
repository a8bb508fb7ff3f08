//! `prairie offload run`: the daemon.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use prairie_daemon::Signals;
use prairie_daemon::log::{Log, Verbosity};
use prairie_daemon::notify::Notify;
use prairie_offload::config::Config;
use prairie_offload::daemon::run::run as drive;
use prairie_offload::daemon::{Daemon, Setting};
use prairie_offload::world::fault_alarm::FaultAlarm;
use prairie_offload::world::lease::Leases;
use prairie_offload::world::probe::{Host, Paths};

use crate::commands::daemon::LogFormat;
use crate::files::Files;

/// Run the daemon in the foreground; SIGHUP reloads its configuration
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    /// Log decisions, but write to no kernel file
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    format: LogFormat,

    /// Log only the daemon's own events, not decisions
    #[arg(long, conflicts_with = "verbose")]
    quiet: bool,

    /// Log every decision, including those to do nothing
    #[arg(long)]
    verbose: bool,
}

const EXAMPLES: &str = "\
Examples:
  prairie offload run --config offload.toml --dry-run
  sudo prairie offload run --config offload.toml --log json";

/// Runs until a signal.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let config = Config::load(&args.config)?;
    // Caught before anything starts that a signal must undo.
    let signals = Signals::catch().context("signals")?;
    let host = Host::probe(Paths::live());
    if !host.has_memory_controller {
        bail!(
            "{}: no cgroup v2 with the memory controller; `prairie offload check` shows the remedy",
            host.paths.cgroup.display()
        );
    }
    if !host.has_psi {
        bail!("no pressure stall information; boot with psi=1");
    }
    if !args.dry_run && !rustix::process::geteuid().is_root() {
        bail!("reclaim needs root; --dry-run does not");
    }
    let leases = if args.dry_run { Leases::default() } else { guarded(&config)? };
    if let Some(parent) = config.daemon.socket.parent() {
        fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
    }
    let setting = Setting {
        alarm: if args.dry_run { None } else { FaultAlarm::open(&host.paths.sys).ok() },
        host,
        dry_run: args.dry_run,
        workers: config.daemon.workers,
        log: args.log(),
    };
    let daemon = Daemon::new(config, setting, leases)?;
    drive(daemon, &args.config, &signals, &Notify::from_env())?;
    Ok(ExitCode::SUCCESS)
}

/// Restores the limits that an earlier daemon left, if none runs, then starts the guardian.
fn guarded(config: &Config) -> anyhow::Result<Leases> {
    let record = &config.daemon.leases;
    let context = || record.display().to_string();
    if let Some(parent) = record.parent() {
        fs::create_dir_all(parent).with_context(context)?;
    }
    let program = std::env::current_exe().context("this program's own path")?;
    Leases::guarded(&program, &["offload", "guard"], record).with_context(context)
}

impl Args {
    /// The files that it reads and writes, those that the configuration names included.
    pub fn files(&self) -> Files {
        let files = Files::default().input("--config", [&self.config]);
        match Config::load(&self.config) {
            Ok(config) => files
                .output_in_new("daemon.leases", [&config.daemon.leases])
                .output_in_new("daemon.series", &config.daemon.series),
            // Reported when the daemon starts.
            Err(_) => files,
        }
    }

    fn log(&self) -> Log {
        let verbosity = match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (_, true) => Verbosity::All,
            _ => Verbosity::Changes,
        };
        self.format.log(verbosity)
    }
}
