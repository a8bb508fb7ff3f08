//! `prairie heap run`: starts a program on the heap.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};
use clap::ValueEnum;
use prairie_heap::settings::OWNER;
use prairie_heap::settings::{self, ExitStatistics};

use super::recording;

use crate::files::Files;

/// Run a program on Prairie's heap
///
/// The program runs in place of this command, with the heap's library preloaded and its settings in
/// the environment; its children inherit both.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Page heap below the caches [default: temeraire]
    #[arg(long, value_enum, value_name = "NAME")]
    page_heap: Option<PageHeap>,
    /// Share of processes on the legacy page heap, in 1/1000 [default: 0]
    #[arg(long, value_name = "PER_MILLE", value_parser = clap::value_parser!(u16).range(..=1000))]
    experiment: Option<u16>,
    /// Bytes returned to the kernel per second, such as 10M [default: 0]
    #[arg(long, value_name = "RATE", value_parser = bytes)]
    release: Option<u64>,
    /// Soft limit: 2G, or 80% of the cgroup's limit [default: none]
    ///
    /// Beyond it, free memory returns to the kernel whenever the heap grows. No allocation fails.
    #[arg(long, value_name = "SIZE|PERCENT", value_parser = limit)]
    limit: Option<String>,
    /// Check each free completely, including interior pointers
    #[arg(long)]
    check: bool,
    /// Write statistics at exit: text or json, with :FILE to a file
    ///
    /// Only the program itself writes the file, unless FILE contains %p (process ID) or %c (program
    /// name).
    #[arg(long, value_name = "FORMAT[:FILE]", value_parser = statistics)]
    stats: Option<String>,
    /// Record page-heap calls for `prairie heap playback`
    ///
    /// This command then waits for the program.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write a sampled heap profile for pprof at exit
    ///
    /// %p and %c in the name stand for the process ID and the program name.
    #[arg(long, value_name = "FILE", value_parser = pattern)]
    profile: Option<String>,
    /// Sample allocations for `prairie heap profile`
    ///
    /// --profile samples, too.
    #[arg(long)]
    sample: bool,
    /// Guard 1 in N allocations; 0 guards none [default: 0]
    ///
    /// A guarded object has its own page between inaccessible pages, so that use after free and
    /// overflow end the process.
    #[arg(long, value_name = "N")]
    guard: Option<u32>,
    /// Library to preload [default: libprairie_heap.so beside prairie]
    #[arg(long, value_name = "FILE.so")]
    library: Option<PathBuf>,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, required = true)]
    program: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  prairie heap run -- redis-server
  prairie heap run --stats json:heap.json -- ./server

Exit codes:
  1    the program cannot be started
  2    usage error
Otherwise the exit code of the program.";

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        // `json:FILE`, which may hold `%p`: then it names another file for each process.
        let stats = self.stats.as_deref().and_then(|stats| stats.split_once(':'));
        Files::default()
            .input("PROGRAM", crate::commands::program(&self.program))
            .input("--library", &self.library)
            .output("--trace", &self.trace)
            .output("--profile", &self.profile)
            .output("--stats", stats.map(|(_, path)| path))
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub enum PageHeap {
    /// Hugepage-aware: the filler, the cache and the regions of the paper
    Temeraire,
    /// Best fit, without regard to huge pages
    Legacy,
}

impl PageHeap {
    /// Its name in the heap's settings.
    pub fn name(self) -> &'static str {
        match self {
            PageHeap::Temeraire => "temeraire",
            PageHeap::Legacy => "legacy",
        }
    }
}

const LIBRARY: &str = "libprairie_heap.so";

/// Becomes the program, and returns only if that fails; or records it, and returns its exit code.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let library = library(args.library.as_deref())?;
    let mut command = Command::new(&args.program[0]);
    command.args(&args.program[1..]).env("LD_PRELOAD", preloads(&library)).envs(variables(args));
    if let Some(trace) = &args.trace {
        return recording::record(command, &args.program[0], trace);
    }
    // The program takes this process's place.
    let error = command.env(OWNER, std::process::id().to_string()).exec();
    Err(error).with_context(|| args.program[0].to_string_lossy().into_owned())
}

fn variables(args: &Args) -> Vec<(&'static str, String)> {
    let page_heap = args.page_heap.map(|page_heap| page_heap.name().to_owned());
    [
        ("PRAIRIE_PAGE_HEAP", page_heap),
        ("PRAIRIE_HEAP_EXPERIMENT", args.experiment.map(|share| share.to_string())),
        ("PRAIRIE_HEAP_RELEASE", args.release.map(|bytes| bytes.to_string())),
        ("PRAIRIE_HEAP_LIMIT", args.limit.clone()),
        ("PRAIRIE_HEAP_CHECK", args.check.then(|| "1".to_owned())),
        ("PRAIRIE_HEAP_STATS", args.stats.clone()),
        ("PRAIRIE_HEAP_PROFILE", args.profile.clone()),
        ("PRAIRIE_HEAP_SAMPLE", args.sample.then(|| "1".to_owned())),
        ("PRAIRIE_HEAP_GUARD", args.guard.map(|one_in| one_in.to_string())),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
    .collect()
}

fn bytes(text: &str) -> Result<u64, String> {
    parse_size::Config::new()
        .with_binary()
        .parse_size(text)
        .map_err(|_| "expected bytes per second, such as 10M".to_owned())
}

fn limit(text: &str) -> Result<String, String> {
    match settings::Limit::of_value(text.as_bytes()) {
        Some(_) => Ok(text.to_owned()),
        None => Err("expected bytes such as 2G, or a share from 1% to 100%".to_owned()),
    }
}

/// The format, and the path made absolute: the program may change its folder.
fn statistics(text: &str) -> Result<String, String> {
    let text = match text.split_once(':') {
        Some((format, path)) if !path.is_empty() => format!("{format}:{}", absolute(path)?),
        _ => text.to_owned(),
    };
    match ExitStatistics::of_value(text.as_bytes()) {
        Some(_) => Ok(text),
        None => {
            Err("expected text, json, text:FILE or json:FILE; FILE has at most 511 bytes, and \
                     each % in it is %p, %c or %%"
                .to_owned())
        }
    }
}

fn pattern(text: &str) -> Result<String, String> {
    let path = absolute(text)?;
    match settings::Path::of_pattern(path.as_bytes()) {
        Some(_) => Ok(path),
        None => Err("expected a path of at most 511 bytes in which each % is %p, %c or %%".into()),
    }
}

fn absolute(path: &str) -> Result<String, String> {
    let absolute = std::path::absolute(path).map_err(|error| error.to_string())?;
    absolute.into_os_string().into_string().map_err(|_| "expected a path in UTF-8".to_owned())
}

/// `LD_PRELOAD` with the heap's library first.
pub fn preloads(library: &Path) -> OsString {
    let mut preloads = library.as_os_str().to_owned();
    if let Some(others) = env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preloads.push(OsStr::new(":"));
        preloads.push(others);
    }
    preloads
}

/// The library to preload: the one that is named, or the one beside this command.
pub fn library(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    match named {
        Some(path) => path.canonicalize().with_context(|| path.display().to_string()),
        None => beside_this_command(),
    }
}

fn beside_this_command() -> anyhow::Result<PathBuf> {
    let command = env::current_exe().context("where this command lies")?;
    let folder = command.parent().unwrap_or(Path::new("/"));
    let multiarch = format!("../lib/{}-linux-gnu", env::consts::ARCH);
    for below in ["", "../lib", "../lib64", &multiarch] {
        let place = folder.join(below).join(LIBRARY);
        if place.exists() {
            return place.canonicalize().with_context(|| place.display().to_string());
        }
    }
    bail!(
        "{LIBRARY} is neither in {} nor in ../lib: build it with \
         `cargo build --release -p prairie-heap-preload`, or name it with --library",
        folder.display()
    )
}
