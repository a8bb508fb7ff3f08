//! `prairie regions undo`: blocks and settings as they were before the daemon.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use prairie_daemon::Signals;
use prairie_daemon::log::{Format, Log, Verbosity};
use prairie_host::Roots;
use prairie_regions::config::LimitsConfig;
use prairie_regions::lock::Lock;
use prairie_regions::operation::Sysfs;
use prairie_regions::record::{Record, State, boot_id};
use prairie_regions::undo::{Undo, undo};
use prairie_report::number;

use crate::files::Files;
use crate::{interrupt, output};

/// Undo the daemon's changes: converted blocks and leased settings
///
/// Stop the daemon first; by default it undoes its changes when it stops. A block with pages that
/// cannot be migrated remains converted, and is listed with the reason.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Record of changes
    #[arg(long, value_name = "FILE", default_value = "/run/prairie/regions.record")]
    record: PathBuf,

    /// Undo only what a killed daemon left (for the systemd unit)
    #[arg(long, hide = true)]
    if_killed: bool,

    /// Time limit in seconds
    #[arg(long, value_name = "N", default_value_t = 600)]
    seconds: u64,
}

const EXAMPLES: &str = "\
Examples:
  sudo systemctl stop prairie-regions
  sudo prairie regions undo

Exit codes:
  0    all changes undone
  1    some blocks remain converted, or failure
  2    usage error";

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        Files::default().input("--record", [&self.record])
    }
}

/// A guardian notices at once that its daemon has ended, and takes the lock within this time.
const GUARDIAN_ACTS: Duration = Duration::from_secs(1);

/// The lock, if neither a daemon nor a guardian is there, and the daemon that there was did not end by
/// itself; otherwise why not.
fn take_unguarded(args: &Args, roots: &Roots) -> anyhow::Result<Result<Lock, String>> {
    thread::sleep(GUARDIAN_ACTS);
    let lock = match Lock::take(roots, "command")? {
        Ok(lock) => lock,
        Err(holder) => return Ok(Err(format!("the {} is at work", holder.role))),
    };
    Ok(match State::is_kept(&args.record, &boot_id(roots))? {
        true => Err("the daemon ended by itself".to_owned()),
        false => Ok(lock),
    })
}

/// Undoes and reports.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let roots = Roots::live();
    // A block that is being emptied comes back online before the program ends.
    let signals = Signals::catch().context("signals")?;
    let _lock = match args.if_killed {
        false => Lock::take_over(&roots, "command", Duration::from_secs(20))?,
        true => match take_unguarded(args, &roots)? {
            Ok(lock) => lock,
            Err(why) => {
                output::say(format_args!("nothing is undone: {why}"));
                return Ok(ExitCode::SUCCESS);
            }
        },
    };
    let context = || args.record.display().to_string();
    let mut record = Record::load(&args.record, &boot_id(&roots)).with_context(context)?;
    if record.state().is_clean() {
        output::say("nothing to undo");
        return Ok(ExitCode::SUCCESS);
    }
    record.begin().with_context(context)?;
    let log = Log::new(Format::Text, Verbosity::Quiet, Box::new(io::stdout()));
    let work = Undo {
        roots: &roots,
        files: Arc::new(Sysfs::new(roots.clone())),
        log: &log,
        operation_time: LimitsConfig::default().operation_time,
        until: Instant::now() + Duration::from_secs(args.seconds),
        stop: &|| signals.is_stopped(),
    };
    let undone = undo(&mut record, &work)?;
    record.end();
    for (block, why) in &undone.left {
        output::say(format_args!("block {block} remains converted: {why}"));
    }
    output::say(format_args!("returned {}", number::counted(undone.returned as u64, "block")));
    Ok(match (undone.left.is_empty(), signals.is_stopped()) {
        (true, _) => ExitCode::SUCCESS,
        (_, true) => ExitCode::from(interrupt::EXIT_CODE),
        _ => ExitCode::FAILURE,
    })
}
