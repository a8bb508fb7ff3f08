//! `prairie log run`: appends rows.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use prairie_observe::collector::wait_until;
use prairie_observe::journal::{Journal, Origin};
use prairie_observe::{Collector, Summary};

use crate::commands::export::{self, PageFlagsArgs};
use crate::commands::{top, value};
use crate::files::Files;
use crate::output;

/// Append a row of figures at each interval
///
/// Runs until a signal. All files can be read while they are written.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Directory of the log; created if it is missing
    #[arg(value_name = "DIR", default_value = "/var/log/prairie")]
    dir: PathBuf,

    /// Time between two rows, at least 1s
    #[arg(long, value_name = "TIME", value_parser = value::time_from(Duration::from_secs(1)), default_value = "60s")]
    interval: Duration,

    /// Remove days that are older [default: keep all]
    #[arg(long, value_name = "TIME", value_parser = value::time)]
    keep: Option<Duration>,

    /// Append one row and exit
    #[arg(long)]
    once: bool,

    #[command(flatten)]
    flags: PageFlagsArgs,
}

const EXAMPLES: &str = "\
Examples:
  sudo prairie log run /var/log/prairie --keep 30d
  sudo prairie log run /var/log/prairie --once

Exit codes:
  0    success; stopped by a signal
  1    failure; one line on standard error: what, where, what was expected
  2    usage error
  130  interrupted before the row was complete; no partial files are left";

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        Files::default()
            .input_tree("--proc", &self.flags.proc)
            .output_in_new("DIR", [&self.dir.join(".prairie-log.lock")])
    }
}

/// Appends.
pub fn run(args: &Args, interrupted: &'static AtomicBool) -> anyhow::Result<ExitCode> {
    let collector = args.flags.collector();
    let moment = export::first_moment(&collector, args.flags.proc.as_deref())?;
    let origin = Origin {
        host: top::host(collector.roots()),
        kernel_release: moment.kernel_release,
        prairie_version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let mut journal = Journal::open(&args.dir, origin, args.keep)?;
    let seed = args.flags.seed();
    prairie_provenance::set_seed(seed);
    // The first row is complete, too.
    match collector.walk(seed, interrupted) {
        Err(prairie_host::Error::Interrupted) => return Ok(output::interrupted()),
        walked => walked?,
    }
    append(&collector, &mut journal)?;
    if args.once {
        return Ok(ExitCode::SUCCESS);
    }
    thread::scope(|scope| {
        scope.spawn(|| collector.keep_walking(seed, interrupted, |error| output::say(error)));
        let mut due = Instant::now();
        loop {
            due += args.interval;
            // After a suspension rows go on; those that were missed are not made up for.
            due = due.max(Instant::now());
            if !wait_until(due, interrupted) {
                return Ok(());
            }
            if let Err(error) = append(&collector, &mut journal) {
                interrupted.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn append(collector: &Collector, journal: &mut Journal) -> anyhow::Result<()> {
    let row = Summary::of(&collector.moment()?, collector.figures().as_deref());
    let mut damaged = Vec::new();
    let appended = journal.append(row, &mut damaged);
    for error in damaged {
        output::say(format_args!("{error}; its name now ends in `.damaged`"));
    }
    Ok(appended?)
}
