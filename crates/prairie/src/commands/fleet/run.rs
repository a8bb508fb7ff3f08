//! `prairie fleet run`: simulates the servers of a fleet, or one shard of them.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Context, anyhow, bail};
use indicatif::ProgressBar;
use prairie_fleet::identity::Identity;
use prairie_fleet::part::{self, Header, Part};
use prairie_fleet::row::Row;
use prairie_fleet::study::{Shard, Study};
use prairie_model::allocator::World;
use prairie_model::random::{Quantity, Size};
use prairie_report::write_atomically;
use prairie_sim::workload::{SHIPPED, Workload};
use serde::Serialize;
use serde_json::Value;

use super::folder::parquet_files;
use super::report;
use crate::commands::allocators::{self, Allocators};
use crate::commands::seeds::{self, Seeds};
use crate::commands::value;
use crate::files::Files;
use crate::output::{Answer, Wanted};
use crate::usage_error::refuse;
use crate::{output, progress};

/// Simulate the servers of a fleet
///
/// Writes one Parquet file per shard, with a row for each server and allocator. Shards can run on any
/// machine and in any order. A file appears when it is complete, and a shard whose file exists is not
/// simulated again. Each directory holds one study, with one number of shards. With --seeds, each seed
/// has a subdirectory. `prairie fleet report` reads the results.
#[derive(Clone, clap::Args)]
#[command(after_help = after_help())]
pub struct Args {
    /// Directory for the results
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// Workloads: ci, web, cache-a, cache-b, or TOML files
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "ci,web,cache-a,cache-b"
    )]
    workloads: Vec<String>,

    /// Allocators, separated by commas; also `all` and `ablation`
    #[arg(
        long,
        visible_alias = "allocators",
        value_name = "NAMES",
        value_parser = allocators::fleet,
        default_value = "linux,contiguitas"
    )]
    systems: Allocators,

    /// Number of servers
    #[arg(long, value_name = "N", default_value_t = 8)]
    servers: u64,

    /// Memory of each server, 64M to 1T; one or more sizes
    #[arg(
        long,
        value_name = "SIZES",
        value_delimiter = ',',
        default_value = "64G",
        value_parser = memory
    )]
    memory: Vec<u64>,

    /// Maximum uptime in days; each server draws from [DAYS/50, DAYS]
    #[arg(long, value_name = "DAYS", default_value_t = 1.0)]
    days: f64,

    /// Pinned memory in percent [default: the workload's, 0.2 to 0.4]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pins: Option<f64>,

    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    #[command(flatten)]
    seeds: Seeds,

    /// With --seeds, print JSON instead of the table
    #[arg(long)]
    json: bool,

    /// Simulate shard I of N, counted from 0
    #[arg(long, value_name = "I/N", default_value = "0/1")]
    shard: Shard,

    /// Number of threads [default: number of CPUs]
    #[arg(long, value_name = "N", value_parser = value::threads)]
    threads: Option<NonZeroUsize>,

    /// Print the study's hash and parameters as JSON, and exit
    #[arg(long)]
    identity: bool,
}

impl Args {
    /// The name of the shard's file.
    fn part_name(&self) -> String {
        let Shard { index, of } = self.shard;
        format!("part-{index:05}-of-{of:05}.parquet")
    }

    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        let part = self.out.join(self.part_name());
        Files::default().input("--workloads", &self.workloads).output_in_new("--out", [&part])
    }
}

const EXAMPLES: &str = "\
Examples:
  prairie fleet run --out study                        8 servers of 64 GiB for up to a day
  prairie fleet run --out study --servers 1000 --memory 16G,64G --shard 3/50
  prairie fleet run --out studies --seeds 5            mean and interval over 5 studies
  prairie fleet report study";

fn after_help() -> String {
    format!("{EXAMPLES}\n\n{}", allocators::help(World::Fleet))
}

/// Frames in a size of memory.
fn memory(text: &str) -> Result<u64, String> {
    let bytes = Size::parse(text)? as u64;
    if !(64 << 20..=1 << 40).contains(&bytes) {
        return Err("a server has from 64M to 1T".to_owned());
    }
    // Whole pageblocks.
    Ok(bytes >> 12 >> 9 << 9)
}

/// A share of memory as written in percent.
fn percent(text: &str) -> Result<f64, String> {
    let percent: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    if (0.0..=10.0).contains(&percent) {
        Ok(percent)
    } else {
        Err(format!("{percent} is not within [0, 10]"))
    }
}

/// What `--identity` prints.
#[derive(Serialize)]
struct IdentityDocument {
    schema: &'static str,
    schema_version: u32,
    hash: String,
    study: Identity,
}

/// How a shard came out.
enum Outcome {
    /// What identifies the study was requested.
    Identity(IdentityDocument),
    /// Its part had been written before.
    Exists(PathBuf),
    /// Its part was written.
    Wrote(PathBuf),
    /// It was stopped, and nothing was written.
    Interrupted,
}

/// Simulates, and writes the part.
pub fn run(args: &Args, interrupted: &AtomicBool) -> anyhow::Result<ExitCode> {
    if let Some(seeds) = args.seeds.from(args.seed) {
        return repeat(args, seeds, interrupted);
    }
    if args.json {
        refuse!("--json: one study, expected --seeds 2 or more, or `prairie fleet report --json`");
    }
    match write(args, interrupted)? {
        Outcome::Identity(identity) => output::print_document_line(&identity)?,
        Outcome::Exists(path) => {
            output::say(format_args!("{} exists already; nothing to do", path.display()));
        }
        Outcome::Wrote(path) => output::wrote(&path),
        Outcome::Interrupted => return Ok(output::interrupted()),
    }
    Ok(ExitCode::SUCCESS)
}

/// Simulates a study for each seed, and prints the spread of what their reports find.
fn repeat(args: &Args, seeds: Range<u64>, interrupted: &AtomicBool) -> anyhow::Result<ExitCode> {
    refuse_parts(args)?;
    let wanted = Wanted { json: args.json, html: None };
    seeds::repeat(seeds, wanted, |seed| figures(args, seed, interrupted))
}

/// Simulates, and reports on the folder: on one study, or on the spread of several.
pub fn ask(args: &Args, interrupted: &AtomicBool) -> anyhow::Result<Answer<String>> {
    if let Some(seeds) = args.seeds.from(args.seed) {
        refuse_parts(args)?;
        let answer = seeds::answer(seeds, |seed| figures(args, seed, interrupted))?;
        return answer.context("interrupted")?.into_text();
    }
    match write(args, interrupted)? {
        Outcome::Identity(_) => bail!("--identity: returns no report"),
        Outcome::Interrupted => bail!("interrupted"),
        Outcome::Exists(_) | Outcome::Wrote(_) => report::ask(&report::Args::of_folder(&args.out)),
    }
}

/// Several seeds need whole studies.
fn refuse_parts(args: &Args) -> anyhow::Result<()> {
    if args.identity {
        refuse!("--identity: identifies one study, expected no --seeds");
    }
    if args.shard.of > 1 {
        refuse!("--shard {}: a part of a study, expected whole ones with --seeds", args.shard);
    }
    Ok(())
}

/// Simulates the study of one of several seeds in a folder of its own, unless it was written before;
/// what a report finds there, or `None` if it was interrupted.
fn figures(args: &Args, seed: u64, interrupted: &AtomicBool) -> anyhow::Result<Option<Value>> {
    let folder = args.out.join(format!("seed-{seed}"));
    let study = Args { out: folder.clone(), seed, ..args.clone() };
    if let Outcome::Interrupted = write(&study, interrupted)? {
        return Ok(None);
    }
    report::figures(&report::Args::of_folder(&folder)).map(Some)
}

/// Simulates, and writes the part, without a word.
fn write(args: &Args, interrupted: &AtomicBool) -> anyhow::Result<Outcome> {
    if !(args.days > 0.0 && args.days <= 366.0) {
        refuse!("--days {}: expected a number in (0, 366]", args.days);
    }
    let study = Study {
        workloads: workloads(args)?,
        systems: args.systems.0.clone(),
        memory: args.memory.clone(),
        days: args.days,
        seed: args.seed,
    };
    let identity = study.identity(args.servers);
    if args.identity {
        return Ok(Outcome::Identity(IdentityDocument {
            schema: "prairie-fleet-identity",
            schema_version: 1,
            hash: identity.hash(),
            study: identity,
        }));
    }
    let header = Header { study: identity, shard: args.shard };
    std::fs::create_dir_all(&args.out)
        .with_context(|| format!("cannot make the folder {}", args.out.display()))?;
    refuse_other_studies(&args.out, &header)?;
    let path = args.out.join(args.part_name());
    if path.exists() {
        return Ok(Outcome::Exists(path));
    }
    let Some(rows) = simulate(&study, args, interrupted)? else {
        return Ok(Outcome::Interrupted);
    };
    let bytes = Part { header, rows }.to_parquet().context("the results as Parquet")?;
    write_atomically(&path, &bytes)?;
    Ok(Outcome::Wrote(path))
}

/// One folder holds the parts of one study, split in one way.
fn refuse_other_studies(folder: &Path, header: &Header) -> anyhow::Result<()> {
    for path in parquet_files(folder)? {
        let found = part::header(&path).with_context(|| path.display().to_string())?;
        if let Some(conflict) = found.and_then(|found| found.conflict(header)) {
            bail!(
                "{}: part of another study: {conflict}; expected a folder of its own",
                path.display()
            );
        }
    }
    Ok(())
}

/// The workloads, with as much pinned memory as was requested.
fn workloads(args: &Args) -> anyhow::Result<Vec<Workload>> {
    let each = args.workloads.iter().map(|name| {
        let found = workload(name)?;
        match args.pins {
            Some(percent) => {
                found.with_pinned_share(percent / 100.0).with_context(|| format!("{name}, --pins"))
            }
            None => Ok(found),
        }
    });
    each.collect()
}

/// A workload by its name or its file.
fn workload(name: &str) -> anyhow::Result<Workload> {
    if let Some(shipped) = Workload::shipped(name) {
        return Ok(shipped);
    }
    if !name.ends_with(".toml") {
        let known = SHIPPED.map(|(name, _)| name).join(", ");
        refuse!(
            "--workloads {name}: unknown workload, expected one of {known} or a file that ends \
               in .toml"
        );
    }
    let text = std::fs::read_to_string(name).with_context(|| format!("cannot read {name}"))?;
    Workload::parse(&text).with_context(|| name.to_owned())
}

/// The rows of the shard's servers by number, one for each allocator; `None` if interrupted.
fn simulate(
    study: &Study,
    args: &Args,
    interrupted: &AtomicBool,
) -> anyhow::Result<Option<Vec<Row>>> {
    let servers: Vec<u64> = args.shard.servers(args.servers).collect();
    let bar = progress::bar(Some(servers.len() as u64), "Simulating servers");
    let next = AtomicU64::new(0);
    let rows = Mutex::new(Vec::new());
    let all = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let threads = args.threads.unwrap_or(all).get().min(servers.len().max(1));
    let result = std::thread::scope(|scope| {
        let work = || work(study, &servers, &next, &rows, interrupted, &bar);
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    });
    bar.finish_and_clear();
    result?;
    if interrupted.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let mut rows = rows.into_inner().map_err(|_| anyhow!("a thread has panicked"))?;
    // By server; a server's own rows were added together, in the order of the allocators.
    rows.sort_by_key(|row: &Row| row.server);
    Ok(Some(rows))
}

/// Simulates the next server that no other thread has started, until none is left.
fn work(
    study: &Study,
    servers: &[u64],
    next: &AtomicU64,
    rows: &Mutex<Vec<Row>>,
    interrupted: &AtomicBool,
    bar: &ProgressBar,
) -> anyhow::Result<()> {
    while !interrupted.load(Ordering::Relaxed) {
        let Some(&server) = servers.get(next.fetch_add(1, Ordering::Relaxed) as usize) else {
            break;
        };
        let found = study.server(server).context("the machine")?;
        rows.lock().map_err(|_| anyhow!("a thread has panicked"))?.extend(found);
        bar.inc(1);
    }
    Ok(())
}
