//! `prairie export`: fragmentation as metrics for Prometheus.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, bail};
use clap::ValueEnum;
use prairie_daemon::metrics::{Server, prometheus};
use prairie_host::Roots;
use prairie_observe::{Budget, Collector, Moment, collector};
use prairie_report::write_atomically;

use super::heap::experiment::process;
use super::value;
use super::watched::Watched;
use crate::files::Files;
use crate::output;
use crate::usage_error::refuse;

mod heaps;
mod stalls;

/// Export fragmentation metrics for Prometheus
///
/// Prints the metrics once, keeps a file for node_exporter's textfile collector, or answers HTTP
/// requests. Free lists and counters are read each time, page flags at an interval of their own: all
/// if the CPU budget allows, else those of a random sample of pageblocks, with 95 % intervals.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Write a file for node_exporter's textfile collector
    #[arg(long, value_name = "FILE.prom", value_parser = value::textfile, conflicts_with = "listen")]
    textfile: Option<PathBuf>,

    /// Answer GET /metrics at this address, such as 127.0.0.1:9751
    #[arg(long, value_name = "ADDR", group = "lasting")]
    listen: Option<SocketAddr>,

    /// Permit --listen on an address other than loopback
    #[arg(long, requires = "listen")]
    allow_remote: bool,

    /// Time between two writes of the file, at least 1s [default: once]
    #[arg(long, value_name = "TIME", value_parser = value::time_from(Duration::from_secs(1)), requires = "textfile", group = "lasting")]
    interval: Option<Duration>,

    /// Watch who waits for memory, and export histograms
    #[arg(long, requires = "lasting")]
    stalls: bool,

    /// Export the heaps of processes that run on Prairie's malloc
    #[arg(long)]
    heaps: bool,

    /// Encoding [default: openmetrics; prometheus in a file]
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with = "listen")]
    encoding: Option<Encoding>,

    #[command(flatten)]
    flags: PageFlagsArgs,
}

/// How page flags are read, by every command that observes a host.
#[derive(clap::Args)]
pub struct PageFlagsArgs {
    /// Time between two walks over page flags
    #[arg(long, value_name = "TIME", value_parser = value::time, default_value = "5m")]
    frames_interval: Duration,

    /// CPU for page flags, in percent of a core; 0 reads none
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "0.05")]
    frames_budget: f64,

    /// Random seed of the sample [default: the time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Read another /proc tree, with its /sys beside it
    #[arg(long, value_name = "DIR")]
    pub proc: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Examples:
  sudo prairie export                          print the metrics
  sudo prairie export --textfile /var/lib/prometheus/node-exporter/prairie.prom
  sudo prairie export --listen 127.0.0.1:9751
  sudo prairie export --listen 127.0.0.1:9751 --stalls
  sudo prairie export --heaps | grep prairie_heap
  prairie export --proc /host/proc --listen 0.0.0.0:9751 --allow-remote

Exit codes:
  0    success, even where something had to be left out; stopped by a signal
  1    failure; one line on standard error: what, where, what was expected
  2    usage error
  130  interrupted before the metrics were complete; no partial files are left";

/// The encodings.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Encoding {
    /// OpenMetrics 1.0
    Openmetrics,
    /// Prometheus text 0.0.4
    Prometheus,
}

/// A share of one core in percent.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim().parse::<f64>().ok();
    number
        .filter(|percent| (0.0..=100.0).contains(percent))
        .ok_or_else(|| "a percentage from 0 to 100, such as 0.05".to_owned())
}

impl PageFlagsArgs {
    /// The host to read.
    pub fn collector(&self) -> Collector {
        let roots = self.proc.as_deref().map_or_else(Roots::live, Roots::at);
        let budget = Budget { share: self.frames_budget / 100.0, interval: self.frames_interval };
        Collector::new(roots, budget)
    }

    /// The seed of the first sample.
    pub fn seed(&self) -> u64 {
        self.seed.unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            now.map_or(0, |now| now.as_nanos() as u64)
        })
    }
}

/// What is exported.
struct Exporter {
    collector: Collector,
    /// The stalls, if requested.
    watched: Option<Watched>,
    /// Whether heaps of processes were requested.
    heaps: bool,
}

impl Exporter {
    fn openmetrics(&self) -> Result<String, prairie_host::Error> {
        let mut more = Vec::new();
        if let Some(stalls) = self.watched.as_ref().and_then(Watched::stalls) {
            more.extend(stalls::families(&stalls));
        }
        if self.heaps {
            // Without a list of processes there are no heaps to export.
            let survey = prairie_heap::inspect::read_all().unwrap_or_default();
            more.extend(heaps::families(&survey, process::name));
        }
        self.collector.openmetrics(more)
    }
}

/// Exports as asked.
pub fn run(args: &Args, interrupted: &'static AtomicBool) -> anyhow::Result<ExitCode> {
    let collector = args.flags.collector();
    first_moment(&collector, args.flags.proc.as_deref())?;
    if let Some(address) = args.listen.filter(|address| !address.ip().is_loopback())
        && !args.allow_remote
    {
        refuse!(
            "--listen {address}: reachable from other hosts, expected a loopback address or \
             --allow-remote"
        );
    }
    let roots = collector.roots().clone();
    let watched = args.stalls.then(|| Watched::start(roots, false, interrupted)).transpose()?;
    let exporter = Exporter { collector, watched, heaps: args.heaps };
    let collector = &exporter.collector;
    match (args.listen, &args.textfile) {
        (Some(address), _) => listen(args, &exporter, address, interrupted),
        (None, Some(path)) => textfile(args, &exporter, path, interrupted),
        (None, None) => match collector.walk(args.flags.seed(), interrupted) {
            Err(prairie_host::Error::Interrupted) => Ok(output::interrupted()),
            walked => {
                walked?;
                let text = args.formatted(exporter.openmetrics()?, Encoding::Openmetrics);
                output::print_text(&text)?;
                Ok(ExitCode::SUCCESS)
            }
        },
    }
}

/// The first moment. Refuses a tree that is none of `/proc` before anything waits for it.
pub fn first_moment(collector: &Collector, proc: Option<&Path>) -> anyhow::Result<Moment> {
    let moment = collector.moment()?;
    if let (Some(dir), true) = (proc, moment.zones.is_empty()) {
        bail!(
            "{}: no buddyinfo in it that can be read; --proc takes a /proc tree or a copy of one",
            dir.display()
        );
    }
    Ok(moment)
}

/// Answers until a signal.
fn listen(
    args: &Args,
    exporter: &Exporter,
    address: SocketAddr,
    interrupted: &'static AtomicBool,
) -> anyhow::Result<ExitCode> {
    let server = Server::bind(address).with_context(|| format!("--listen {address}"))?;
    let bound = server.address().unwrap_or(address);
    output::say(format_args!("metrics at http://{bound}/metrics"));
    thread::scope(|scope| {
        scope.spawn(|| walk(args, &exporter.collector, interrupted));
        let metrics = || exporter.openmetrics().map_err(|error| error.to_string());
        let served = server.run(interrupted, metrics);
        // The walks must end, too, where the socket failed.
        interrupted.store(true, std::sync::atomic::Ordering::Relaxed);
        served.with_context(|| format!("--listen {bound}"))
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Writes once, or until a signal.
fn textfile(
    args: &Args,
    exporter: &Exporter,
    path: &Path,
    interrupted: &'static AtomicBool,
) -> anyhow::Result<ExitCode> {
    let write = || -> anyhow::Result<()> {
        let text = args.formatted(exporter.openmetrics()?, Encoding::Prometheus);
        Ok(write_atomically(path, text.as_bytes())?)
    };
    let Some(interval) = args.interval else {
        match exporter.collector.walk(args.flags.seed(), interrupted) {
            Err(prairie_host::Error::Interrupted) => return Ok(output::interrupted()),
            walked => walked?,
        }
        write()?;
        return Ok(ExitCode::SUCCESS);
    };
    thread::scope(|scope| {
        scope.spawn(|| walk(args, &exporter.collector, interrupted));
        loop {
            let due = Instant::now() + interval;
            let written = write();
            if written.is_err() || !collector::wait_until(due, interrupted) {
                interrupted.store(true, std::sync::atomic::Ordering::Relaxed);
                return written;
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Reads page flags at their interval; a failure is reported and tried again.
fn walk(args: &Args, collector: &Collector, interrupted: &AtomicBool) {
    collector.keep_walking(args.flags.seed(), interrupted, |error| output::say(error));
}

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        Files::default().input_tree("--proc", &self.flags.proc).output("--textfile", &self.textfile)
    }

    fn formatted(&self, openmetrics: String, default: Encoding) -> String {
        match self.encoding.unwrap_or(default) {
            Encoding::Openmetrics => openmetrics,
            Encoding::Prometheus => prometheus(&openmetrics),
        }
    }
}
