//! `prairie regions reserve`: huge pages from emptied blocks.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::ValueEnum;
use prairie_daemon::Signals;
use prairie_daemon::log::{Format, Log, Verbosity};
use prairie_host::Roots;
use prairie_regions::config::LimitsConfig;
use prairie_regions::lock::Lock;
use prairie_regions::operation::Sysfs;
use prairie_regions::record::{Record, boot_id};
use prairie_regions::request::{self, Answer, Request};
use prairie_regions::reserve::without_daemon;
use prairie_regions::undo::Undo;

use crate::files::Files;
use crate::{interrupt, output};

/// Resize a node's pool of huge pages, emptying memory blocks if needed
///
/// Sets `nr_hugepages` of the node. If the kernel allocates fewer gigantic pages than requested, this
/// sets `vm.movable_gigantic_pages` where the kernel has it, and then migrates whole gigabytes and
/// converts them to the kernel region. A smaller count frees pages and returns converted blocks. A
/// running daemon carries out the request, and stops when memory runs low; without one, the command
/// does it itself.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Size of a page
    #[arg(long, value_enum, default_value = "2M")]
    size: Size,

    /// Requested number of pages in the pool
    #[arg(long, value_name = "N")]
    count: u64,

    /// NUMA node
    #[arg(long, value_name = "N", default_value_t = 0)]
    node: u32,

    /// Record of changes
    #[arg(long, value_name = "FILE", default_value = "/run/prairie/regions.record")]
    record: PathBuf,
}

/// Sizes of huge pages.
#[derive(Clone, Copy, ValueEnum)]
enum Size {
    #[value(name = "2M")]
    Huge,
    #[value(name = "1G")]
    Gigantic,
}

const EXAMPLES: &str = "\
Examples:
  sudo prairie regions reserve --size 1G --count 2 --node 0
  sudo prairie regions reserve --size 1G --count 0     free them again

Exit codes:
  0    the pool has the requested number of pages
  1    the pool has fewer pages, or failure
  2    usage error";

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        Files::default().output_in_new("--record", [&self.record])
    }
}

/// Time limit of the undo after a killed daemon, as the guardian has it by default.
const UNDO_LIMIT: Duration = Duration::from_secs(60);

/// Reserves and reports.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if !rustix::process::geteuid().is_root() {
        bail!("huge pages: reserving them needs root");
    }
    let bytes = match args.size {
        Size::Huge => 2 << 20,
        Size::Gigantic => 1 << 30,
    };
    let request = Request { bytes, pages: args.count, node: args.node };
    let roots = Roots::live();
    let holder = Lock::take(&roots, "command")?.err();
    if let Some(daemon) = holder.as_ref().filter(|holder| holder.role == "daemon") {
        return match request::ask(&args.record, request)? {
            Answer::Pages(pages, why) => Ok(report(args, pages, &why)),
            Answer::Refused(why) => bail!("the daemon with process {}: {why}", daemon.pid),
        };
    }
    // A block that is being emptied comes back online before the program ends.
    let signals = Signals::catch().context("signals")?;
    let relieved = holder.is_some_and(|holder| holder.role == "guardian");
    let _lock = Lock::take_over(&roots, "command", Duration::from_secs(20))?;
    let context = || args.record.display().to_string();
    let mut record = Record::load(&args.record, &boot_id(&roots)).with_context(context)?;
    record.begin().with_context(context)?;
    let log = Log::new(Format::Text, Verbosity::Quiet, Box::new(io::stdout()));
    let work = Undo {
        roots: &roots,
        files: Arc::new(Sysfs::new(roots.clone())),
        log: &log,
        operation_time: LimitsConfig::default().operation_time,
        until: Instant::now() + UNDO_LIMIT,
        stop: &|| signals.is_stopped(),
    };
    let pages = without_daemon(record, &work, request, relieved)?;
    let is_interrupted = pages < args.count && signals.is_stopped();
    let code = report(args, pages, if is_interrupted { "interrupted" } else { "" });
    Ok(if is_interrupted { ExitCode::from(interrupt::EXIT_CODE) } else { code })
}

/// Prints how many pages the pool has. `why` says what ended it early, if anything.
fn report(args: &Args, pages: u64, why: &str) -> ExitCode {
    let separator = if why.is_empty() { "" } else { ": " };
    output::say(format_args!(
        "node {}: {pages} of {} pages{separator}{why}",
        args.node, args.count
    ));
    if pages >= args.count { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
