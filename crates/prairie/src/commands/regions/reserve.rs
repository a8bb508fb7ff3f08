//! `prairie regions reserve`: huge pages from emptied blocks.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::ValueEnum;
use prairie_daemon::log::{Format, Log, Verbosity};
use prairie_host::Roots;
use prairie_regions::config::LimitsConfig;
use prairie_regions::huge::Reserve;
use prairie_regions::lock::Lock;
use prairie_regions::operation::Sysfs;
use prairie_regions::record::{Record, boot_id};

use crate::files::Files;
use crate::output;

/// Bring a node's pool of huge pages to a size, emptying blocks for it
///
/// The pool is asked first, then `vm.movable_gigantic_pages` where the kernel has it, then whole
/// gigabytes are emptied and turned to the kernel region. A smaller count gives pages and blocks
/// back. While the daemon runs it has to be stopped with `on_stop = "keep"` first.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Size of a page
    #[arg(long, value_enum, default_value = "2M")]
    size: Size,

    /// Pages that the pool should have
    #[arg(long, value_name = "N")]
    count: u64,

    /// NUMA node
    #[arg(long, value_name = "N", default_value_t = 0)]
    node: u32,

    /// Record of what is changed
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
  sudo prairie regions reserve --size 1G --count 0     give them back

Exit codes:
  0    the pool holds the requested pages
  1    it has fewer, or failure
  2    usage error";

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        Files::default().output_in_new("--record", [&self.record])
    }
}

/// Reserves and reports.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if !rustix::process::geteuid().is_root() {
        bail!("huge pages: reserving them needs root");
    }
    let roots = Roots::live();
    let _lock = Lock::take_over(&args.record, "command", Duration::from_secs(20))?;
    let context = || args.record.display().to_string();
    let mut record = Record::load(&args.record, &boot_id(&roots)).with_context(context)?;
    record.begin().with_context(context)?;
    let log = Log::new(Format::Text, Verbosity::Quiet, Box::new(io::stdout()));
    let work = Reserve {
        roots: &roots,
        files: Arc::new(Sysfs::new(roots.clone())),
        log: &log,
        node: args.node,
        operation_time: LimitsConfig::default().operation_time,
    };
    let bytes = match args.size {
        Size::Huge => 2 << 20,
        Size::Gigantic => 1 << 30,
    };
    let pages = work.reserve(&mut record, bytes, args.count);
    record.end();
    let pages = pages?;
    output::say(format_args!("node {}: {pages} of {} pages", args.node, args.count));
    Ok(if pages >= args.count { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
