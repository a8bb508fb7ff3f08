//! `prairie regions run`: the daemon, and the guardian that outlives it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use prairie_daemon::Signals;
use prairie_daemon::log::{Format, Log, Verbosity};
use prairie_daemon::notify::Notify;
use prairie_host::Roots;
use prairie_regions::check;
use prairie_regions::config::Config;
use prairie_regions::daemon::{Daemon, Start};
use prairie_regions::guardian::{self, Acted};
use prairie_regions::host::Host;
use prairie_regions::lock::Lock;
use prairie_regions::operation::Sysfs;
use prairie_regions::record::{Record, boot_id};
use prairie_regions::request;
use prairie_regions::run::{lock_memory, protect, run as drive};
use prairie_regions::undo::{Undo, make_whole};

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

    /// Log only the daemon's own events, not operations
    #[arg(long)]
    quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  sudo prairie regions run --config regions.toml --dry-run
  sudo prairie regions run --config regions.toml --log json";

/// How long a guardian or a command may take to make way.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs until a signal.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let config = Config::load(&args.config)?;
    // Caught before anything is begun that a signal should undo.
    let signals = Signals::catch().context("signals")?;
    let roots = Roots::live();
    if !rustix::process::geteuid().is_root() && !args.dry_run {
        bail!("memory blocks: moving them needs root; --dry-run needs it for kpageflags only");
    }
    Host::open(&roots)?.require_flags()?;
    if let Some(parent) = config.daemon.socket.parent() {
        fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
    }
    let log = args.log();
    for warning in check::warnings(&roots) {
        log.note("warning", format_args!("{}; {}", warning.found, warning.remedy));
    }
    let boot = boot_id(&roots);
    let path = &config.daemon.record;
    let (lock, record, requests) = match args.dry_run {
        true => (None, Record::load(path, &boot)?, None),
        false => {
            let lock = Lock::take_over(&roots, "daemon", PATIENCE)?;
            let mut record = Record::load(path, &boot)?;
            record.begin().with_context(|| path.display().to_string())?;
            adopt(&mut record, &config, &roots, &log)?;
            start_guardian(&mut record, &args.config)?;
            protect(&log);
            let requests =
                request::serve(path).with_context(|| request::path(path).display().to_string())?;
            (Some(lock), record, Some(requests))
        }
    };
    let (dry_run, socket) = (args.dry_run, request::path(path));
    let start = Start { config, roots: roots.clone(), record, log, dry_run, grow_only: false };
    let mut daemon = Daemon::new(start)?;
    if let Some(requests) = requests {
        daemon.listen(requests);
    }
    if lock.is_some() {
        lock_memory(daemon.log());
    }
    drive(daemon, &args.config, &roots, &signals, &Notify::from_env())?;
    if lock.is_some() {
        let _ = fs::remove_file(socket);
    }
    drop(lock);
    Ok(ExitCode::SUCCESS)
}

/// Starts the guardian, which outlives the daemon.
fn start_guardian(record: &mut Record, config: &Path) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("this program's own path")?;
    let config = config.canonicalize().with_context(|| config.display().to_string())?;
    let arguments = guardian::arguments(&config)
        .with_context(|| format!("{}: expected a path in UTF-8", config.display()))?;
    record.guard(&program, &arguments).context("the guardian")
}

/// Makes whole what an earlier daemon left, and goes on with its record.
fn adopt(record: &mut Record, config: &Config, roots: &Roots, log: &Log) -> io::Result<()> {
    let work = Undo {
        roots,
        files: Arc::new(Sysfs::new(roots.clone())),
        log,
        operation_time: config.limits.operation_time,
        until: std::time::Instant::now(),
        stop: &|| false,
    };
    make_whole(record, &work)
}

/// The guardian: the daemon starts it with a pipe as its standard input.
pub fn guard(config: &Path) -> anyhow::Result<ExitCode> {
    let config = Config::load(config)?;
    let log = Log::new(Format::Text, Verbosity::Quiet, Box::new(io::stderr()));
    // It has to work when memory is at its shortest.
    protect(&log);
    lock_memory(&log);
    let state = guardian::watch(io::stdin().lock())?;
    let roots = Roots::live();
    let files = Arc::new(Sysfs::new(roots.clone()));
    match guardian::act(&state, &config, &roots, files, log)? {
        Acted::Not | Acted::Relieved | Acted::Undone => Ok(ExitCode::SUCCESS),
    }
}

impl Args {
    /// The files that it reads and writes, those that the configuration names included.
    pub fn files(&self) -> Files {
        let files = Files::default().input("--config", [&self.config]);
        match Config::load(&self.config) {
            Ok(config) => files.output_in_new("daemon.record", [&config.daemon.record]),
            // Reported when the daemon starts.
            Err(_) => files,
        }
    }

    fn log(&self) -> Log {
        let verbosity = if self.quiet { Verbosity::Quiet } else { Verbosity::Changes };
        self.format.log(verbosity)
    }
}
