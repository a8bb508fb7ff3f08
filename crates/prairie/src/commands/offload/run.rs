//! `prairie offload run`: the daemon.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::ValueEnum;
use prairie_offload::config::Config;
use prairie_offload::daemon::run::{Signals, run as drive};
use prairie_offload::daemon::{Daemon, Setting};
use prairie_offload::log::{Format, Log, Verbosity};
use prairie_offload::notify::Notify;
use prairie_offload::world::fault_alarm::FaultAlarm;
use prairie_offload::world::guardian::restore_record;
use prairie_offload::world::lease::Leases;
use prairie_offload::world::probe::{Host, Paths};

use crate::files::Files;

/// Run the daemon, in the foreground, until SIGTERM or Ctrl-C; SIGHUP reads the configuration anew
#[derive(clap::Args)]
pub struct Args {
    /// The configuration (TOML)
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    /// Decide and tell, but write to no file of the kernel
    #[arg(long)]
    dry_run: bool,

    /// How lines on standard output are written
    #[arg(long, value_enum, default_value_t = Lines::Text)]
    log: Lines,

    /// Tell only of the daemon itself, not of decisions
    #[arg(long, conflicts_with = "verbose")]
    quiet: bool,

    /// Tell every decision, also those to do nothing
    #[arg(long)]
    verbose: bool,
}

/// How lines are written.
#[derive(Clone, Copy, ValueEnum)]
enum Lines {
    Text,
    Json,
}

/// Runs until a signal.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let config = Config::load(&args.config)?;
    // Caught before anything is begun that a signal should undo.
    let signals = Signals::catch().context("signals")?;
    let host = Host::probe(Paths::live());
    if !host.has_memory_controller {
        bail!(
            "{}: no cgroup v2 with the memory controller; `prairie offload check` says what to do",
            host.paths.cgroup.display()
        );
    }
    if !host.has_psi {
        bail!("no pressure stall information; boot with psi=1");
    }
    if !args.dry_run && !rustix::process::geteuid().is_root() {
        bail!("taking memory needs root; --dry-run does not");
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

/// Puts back what an earlier daemon has left, then starts the guardian.
fn guarded(config: &Config) -> anyhow::Result<Leases> {
    let record = &config.daemon.leases;
    let context = || record.display().to_string();
    if let Some(parent) = record.parent() {
        fs::create_dir_all(parent).with_context(context)?;
    }
    restore_record(record).with_context(context)?;
    let program = std::env::current_exe().context("this program's own path")?;
    Leases::guarded(&program, &["offload", "guard"], record).context("the guardian")
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
        let format = match self.log {
            Lines::Text => Format::Text,
            Lines::Json => Format::Json,
        };
        let verbosity = match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (_, true) => Verbosity::All,
            _ => Verbosity::Changes,
        };
        Log::new(format, verbosity, Box::new(io::stdout()))
    }
}
