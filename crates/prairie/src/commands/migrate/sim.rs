//! `prairie migrate sim`: one machine, one stream of requests, and migrations.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use clap::ValueEnum;
use prairie_migrate::access_trace::{self, Records};
use prairie_migrate::address::PageSize;
use prairie_migrate::paper::Effect;
use prairie_migrate::params::{Params, Sourced};
use prairie_migrate::protocol::table::Caching;
use prairie_migrate::sim::{Method, Migrations, Outcome, Plan, Simulation, Target};
use prairie_migrate::software::Baseline;
use prairie_migrate::workload::{Kind, Traced};
use serde::Serialize;

use crate::commands::seeds::{self, Seeds};
use crate::commands::survey;
use crate::files::Files;
use crate::output::{self, Header, Wanted};
use crate::progress;
use crate::view::migrate_sim as view;

/// Simulate a server while pages migrate
///
/// With migrations, the same requests are first served without any as a baseline, and the two runs
/// are compared core by core.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Machine file: differences from the default (Skylake-SP)
    #[arg(value_name = "FILE.toml")]
    machine: Option<PathBuf>,

    /// Workload of the cores
    #[arg(long, value_enum, default_value_t = WorkloadArg::Memcached, value_name = "NAME")]
    workload: WorkloadArg,

    /// Run a recorded program on every core instead: an access trace
    #[arg(long, value_name = "FILE", conflicts_with = "workload")]
    trace: Option<PathBuf>,

    /// Migrations per second
    #[arg(long, value_name = "N", default_value_t = 0.0, value_parser = rate)]
    rate: f64,

    /// Migration method
    #[arg(long, value_enum, default_value_t = MethodArg::Hardware, value_name = "NAME")]
    method: MethodArg,

    /// Pages to migrate [default: buffers if the method can, else heap]
    #[arg(long, value_enum, value_name = "NAME")]
    pages: Option<PagesArg>,

    /// Page size of the program's heap
    #[arg(long, value_enum, value_name = "SIZE", default_value_t = HeapArg::Base)]
    heap: HeapArg,

    /// Measured requests per core
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,

    /// Warm-up requests per core
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    warm_up: u64,

    /// Mean time between arrivals, such as 10us [default: back to back]
    #[arg(long, value_name = "TIME")]
    every: Option<humantime::Duration>,

    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    #[command(flatten)]
    seeds: Seeds,

    /// Print every machine parameter with its source; run nothing
    #[arg(long)]
    parameters: bool,

    /// Print JSON instead of the report
    #[arg(long)]
    json: bool,

    /// Write the report as a self-contained HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        Files::default()
            .input("FILE", &self.machine)
            .input("--trace", &self.trace)
            .output("--html", &self.html)
    }
}

const AFTER_HELP: &str = "\
Examples:
  prairie migrate sim --workload memcached --rate 1000
  prairie migrate sim machine.toml --workload nginx --rate 100000 --method noncacheable
  prairie migrate sim --rate 10000 --method ipi               Linux's software migration
  prairie migrate sim --trace memcached.2 --rate 1000         a recorded program
  prairie migrate sim machine.toml --parameters               every parameter with its source

A machine file states what differs from the default:
  [cores]
  count = 16
  [migration]
  entries = { value = 8, source = \"my design\" }";

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum WorkloadArg {
    /// A key-value cache
    Memcached,
    /// A web server that sends files
    Nginx,
    /// Nine accesses in ten to 16 KiB of the core's own
    Hot,
    /// Nine accesses in ten anywhere in 128 MiB
    Random,
    /// One access in sixteen to a page that all cores and a device use
    Sharing,
}

impl WorkloadArg {
    pub(super) fn kind(self) -> Kind {
        match self {
            WorkloadArg::Memcached => Kind::Memcached,
            WorkloadArg::Nginx => Kind::Nginx,
            WorkloadArg::Hot => Kind::Hot,
            WorkloadArg::Random => Kind::Random,
            WorkloadArg::Sharing => Kind::Sharing,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MethodArg {
    /// Contiguitas-HW; private caches keep lines of a migrating page
    Hardware,
    /// Contiguitas-HW; private caches keep no line of it
    Noncacheable,
    /// Linux: interrupts to all cores
    Ipi,
    /// Linux: victims acknowledge before they flush
    EarlyAcknowledgement,
    /// Linux with broadcast invalidation (AMD INVLPGB, ARM TLBI)
    Broadcast,
    /// Nomad: copy while mapped, commit if not written
    Nomad,
    /// Stop the device, migrate, restart it
    StopMoveRestart,
}

#[derive(Clone, Copy, ValueEnum)]
enum PagesArg {
    /// Network buffers, which a device uses
    Buffers,
    /// The program's heap
    Heap,
}

#[derive(Clone, Copy, ValueEnum)]
enum HeapArg {
    /// 4 KiB
    #[value(name = "4K")]
    Base,
    /// 2 MiB
    #[value(name = "2M")]
    Huge,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    header: Header,
    machine: &'a Params,
    plan: &'a Plan,
    outcome: &'a Outcome,
    /// Change of the time per request against the run without migrations, if there were any.
    effect: Option<Effect>,
}

/// What `--parameters --json` prints.
#[derive(Serialize)]
struct Parameters<'a> {
    schema: &'static str,
    schema_version: u32,
    machine: &'a str,
    parameters: &'a [Sourced],
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if (0.0..=1e9).contains(&rate) => Ok(rate),
        _ => Err("a number from 0 to 1e9".to_owned()),
    }
}

/// The text of a machine file; empty for the default machine.
pub(super) fn machine_text(path: Option<&Path>) -> anyhow::Result<String> {
    let Some(path) = path else { return Ok(String::new()) };
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The machine of a file.
pub(super) fn machine(path: Option<&Path>) -> anyhow::Result<Params> {
    let name = path.map_or("the default machine".to_owned(), |path| path.display().to_string());
    Params::read(&machine_text(path)?).context(name)
}

/// Runs, prints and writes as asked.
pub fn run(args: &Args, interrupted: &'static AtomicBool) -> anyhow::Result<ExitCode> {
    let params = machine(args.machine.as_deref())?;
    if args.parameters {
        return show_parameters(args, &params);
    }
    if let Some(seeds) = args.seeds.from(args.seed) {
        let wanted = Wanted { json: args.json, html: args.html.as_deref() };
        return seeds::repeat(seeds, wanted, |seed| {
            let plan = plan(args, seed);
            let Some(runs) = compare(args, &params, &plan, interrupted)? else { return Ok(None) };
            Ok(Some(serde_json::to_value(document(&params, &plan, &runs))?))
        });
    }
    let plan = plan(args, args.seed);
    let Some(runs) = compare(args, &params, &plan, interrupted)? else {
        return Ok(output::interrupted());
    };
    let (without, with) = (&runs.without, runs.with.as_ref());
    let report = view::report(&params, &plan, without, with, survey::generated_by());
    output::publish(&report, args.json, args.html.as_deref(), || document(&params, &plan, &runs))?;
    Ok(ExitCode::SUCCESS)
}

/// The same requests without and, if there are any, with migrations.
struct Runs {
    without: Outcome,
    with: Option<Outcome>,
}

/// Both runs; `None` if one was interrupted.
fn compare(
    args: &Args,
    params: &Params,
    plan: &Plan,
    interrupted: &'static AtomicBool,
) -> anyhow::Result<Option<Runs>> {
    let base = Plan { migrations: None, ..plan.clone() };
    let Some(without) = simulate(args, params, &base, "Without migrations", interrupted)? else {
        return Ok(None);
    };
    if plan.migrations.is_none() {
        return Ok(Some(Runs { without, with: None }));
    }
    let with = simulate(args, params, plan, "With migrations", interrupted)?;
    Ok(with.map(|with| Runs { without, with: Some(with) }))
}

fn document<'a>(params: &'a Params, plan: &'a Plan, runs: &'a Runs) -> Document<'a> {
    Document {
        header: Header::new("prairie-migrate-sim", 1),
        machine: params,
        plan,
        outcome: runs.with.as_ref().unwrap_or(&runs.without),
        effect: runs.with.as_ref().map(|with| Effect::of(with, &runs.without)),
    }
}

fn show_parameters(args: &Args, params: &Params) -> anyhow::Result<ExitCode> {
    let parameters = Params::sources(&machine_text(args.machine.as_deref())?)?;
    let report = view::parameters(params, &parameters, survey::generated_by());
    output::publish(&report, args.json, None, || Parameters {
        schema: "prairie-migrate-machine",
        schema_version: 1,
        machine: &params.name,
        parameters: &parameters,
    })?;
    Ok(ExitCode::SUCCESS)
}

fn plan(args: &Args, seed: u64) -> Plan {
    let method = match args.method {
        MethodArg::Hardware => Method::Hardware(Caching::Cacheable),
        MethodArg::Noncacheable => Method::Hardware(Caching::Noncacheable),
        MethodArg::Ipi => Method::Software(Baseline::Ipi),
        MethodArg::EarlyAcknowledgement => Method::Software(Baseline::EarlyAcknowledgement),
        MethodArg::Broadcast => Method::Software(Baseline::Broadcast),
        MethodArg::Nomad => Method::Software(Baseline::Nomad),
        MethodArg::StopMoveRestart => Method::Software(Baseline::StopMoveRestart),
    };
    let movable_only = matches!(method, Method::Software(by) if !by.moves_device_pages());
    let target = match args.pages {
        Some(PagesArg::Buffers) => Target::Buffers,
        Some(PagesArg::Heap) => Target::Heap,
        None if movable_only => Target::Heap,
        None => Target::Buffers,
    };
    Plan {
        workload: if args.trace.is_some() { Kind::Trace } else { args.workload.kind() },
        seed,
        heap: match args.heap {
            HeapArg::Base => PageSize::Base,
            HeapArg::Huge => PageSize::Huge,
        },
        requests: args.requests,
        warm_up: args.warm_up,
        interarrival_ns: args.every.map(|every| every.as_nanos() as f64),
        migrations: (args.rate > 0.0).then_some(Migrations {
            per_second: args.rate,
            method,
            target,
        }),
    }
}

/// The records of a trace.
pub(super) fn records(path: &Path) -> Result<Records<File>, access_trace::Error> {
    Records::new(File::open(path)?)
}

/// One run, with a bar; `None` if it was interrupted.
fn simulate(
    args: &Args,
    params: &Params,
    plan: &Plan,
    what: &'static str,
    interrupted: &'static AtomicBool,
) -> anyhow::Result<Option<Outcome>> {
    let bar = progress::bar(Some((plan.requests + plan.warm_up) * params.cores.count), what);
    let simulation = match &args.trace {
        None => Simulation::new(params, plan)?,
        Some(path) => {
            let cores = params.cores.count as usize;
            let traced =
                records(path).and_then(|records| Traced::new(records, cores, plan.seed, plan.heap));
            let traced = traced.with_context(|| path.display().to_string())?;
            Simulation::of(params, plan, Box::new(traced))
                .with_context(|| path.display().to_string())?
        }
    };
    let outcome = simulation.run(&mut |progress| {
        bar.set_position(progress.served);
        !interrupted.load(Ordering::Relaxed)
    });
    bar.finish_and_clear();
    Ok(outcome)
}
