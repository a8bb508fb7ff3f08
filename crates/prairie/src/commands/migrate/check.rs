//! `prairie migrate check`: every state of the protocol, and injected bugs.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};
use clap::ValueEnum;
use prairie_migrate::check::{self, Layer, Result as Verdict, Shape};
use prairie_migrate::checker::search::{Limits, Progress};
use prairie_migrate::protocol::design::Design;
use prairie_migrate::protocol::property::Property;
use prairie_migrate::protocol::table::Caching;
use prairie_migrate::protocol::variant::Variant;
use prairie_report::{Theme, number, write_atomically};
use serde::Serialize;

use crate::commands::value;
use crate::files::Files;
use crate::output::{self, Header};
use crate::progress;
use crate::usage_error::refuse;
use crate::view::migrate_check::{self as view, Check};

/// Check the protocol in every reachable state
///
/// Without arguments, properties 1 to 5 (listed below) are checked for two cores, a device, and pages
/// of one cache line. With --variant, a bug is injected, which the check must find; the shortest
/// counterexample is printed as a sequence chart.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Model to check
    #[arg(long, value_enum, default_value_t = Model::Transaction, value_name = "NAME")]
    model: Model,

    /// Inject a bug: a name, `all`, or `list` to print the names
    #[arg(long, value_name = "NAME", value_parser = mistake)]
    variant: Option<Mistake>,

    /// Cores, 1 to 3; german: caches, 2 to 5 [default: 2; german: 4]
    #[arg(long, value_name = "N")]
    cores: Option<u8>,

    /// Devices behind the IOMMU, 0 or 1 [default: 1]
    #[arg(long, value_name = "N")]
    devices: Option<u8>,

    /// Cache lines per page, 1 or 2 [default: 1]
    #[arg(long, value_name = "N")]
    lines: Option<u8>,

    /// Consecutive migrations, 1 or 2 [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=2))]
    pages: Option<u8>,

    /// Caching of accesses to a migrating page
    #[arg(long, value_enum, default_value_t = CachingArg::Cacheable, value_name = "NAME")]
    caching: CachingArg,

    /// Additional features of the machine
    #[arg(long, value_enum, value_name = "NAMES", value_delimiter = ',')]
    with: Vec<Feature>,

    /// State-space reductions to disable
    #[arg(long, value_enum, value_name = "NAMES", value_delimiter = ',')]
    without: Vec<Reduction>,

    /// Delay requests as long as possible: far fewer states
    ///
    /// Sending and serving a request become one step. A counterexample then has the fewest such
    /// steps, which need not be the fewest of all.
    #[arg(long)]
    coarse: bool,

    /// Number of threads
    #[arg(long, value_name = "N", value_parser = value::threads, default_value_t = NonZeroUsize::MIN)]
    threads: NonZeroUsize,

    /// Check only this property, 1 to 6 as listed below [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=6))]
    property: Option<u8>,

    /// Stop at a level that begins with more than N states
    #[arg(long, value_name = "N", default_value_t = 200_000_000)]
    max_states: u64,

    /// Check properties 4 and 5 in graphs of up to N states
    #[arg(long, value_name = "N", default_value_t = 4_000_000)]
    max_graph: u64,

    /// Key of the state fingerprints
    #[arg(long, value_name = "N", default_value_t = 0)]
    key: u64,

    /// Take a random walk through a large machine instead
    ///
    /// The machine is too large for exhaustive search; it restarts every 200,000 steps, and each
    /// read is compared with a reference memory.
    #[arg(long, value_name = "N", conflicts_with_all = [
        "cores", "devices", "lines", "pages", "with", "without", "property", "svg", "coarse", "threads",
    ])]
    random: Option<u64>,

    /// Random seed of the walk
    #[arg(long, value_name = "N", default_value_t = 1, requires = "random")]
    seed: u64,

    /// Draw the counterexample as a sequence chart
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        Files::default().output("--svg", &self.svg)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Model {
    /// Each request is one transaction at the last-level cache
    Transaction,
    /// Single messages, each step checked against the transactions
    Message,
    /// German's cache protocol, whose published state counts agree
    German,
}

#[derive(Clone, Copy, ValueEnum)]
enum CachingArg {
    /// Private caches keep lines; the copy follows the invalidations
    Cacheable,
    /// The last-level cache serves accesses; the copy starts at once
    Noncacheable,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Feature {
    /// Migrations can be aborted
    Aborts,
    /// A page that was migrated may migrate again, back and forth
    Again,
    /// Prefetches by physical addresses that are no longer mapped
    Prefetch,
    /// Devices write parts of lines
    Partial,
    /// Locked instructions
    Locks,
    /// Page walks that read the table and fill the TLB in two steps
    SplitWalks,
    /// Devices with their own TLBs
    Ats,
    /// The last-level cache separate from memory, with evictions
    Llc,
    /// Recalls of lines at any time, as by a full snoop filter
    Recalls,
    /// Caches hold lines of the destination when a migration starts
    DirtyDestination,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Reduction {
    /// Cores are symmetric
    Symmetry,
    /// An empty TLB entry equals the result of a walk
    Tlb,
    /// A copy holds one bit (it is the last write), not a value
    FreshBit,
    /// A finished page leaves no state behind
    Finished,
}

#[derive(Clone, Copy)]
enum Mistake {
    All,
    List,
    One(Variant),
}

fn mistake(text: &str) -> Result<Mistake, String> {
    match text {
        "all" => Ok(Mistake::All),
        "list" => Ok(Mistake::List),
        name => Variant::named(name).map(Mistake::One).ok_or_else(|| {
            "expected the name of an injected bug; `--variant list` prints \
                            them"
                .to_owned()
        }),
    }
}

const AFTER_HELP: &str = "\
Properties:
  1  every read returns the last value written to its line
  2  a line is cached privately under one name at a time
  3  after a migration, nothing of the page is reachable by the source's name
  4  deadlock freedom: every waiting request can complete
  5  every migration ends if invalidations do
  6  with --model message: each step refines the transaction model

Examples:
  prairie migrate check                                   the protocol, small
  prairie migrate check --lines 2 --pages 2               two consecutive migrations; a minute
  prairie migrate check --caching noncacheable --with prefetch,partial
  prairie migrate check --variant all                     every injected bug must be found
  prairie migrate check --variant two-ptrs --svg two-ptrs.svg
  prairie migrate check --model message                   one line; a minute
  prairie migrate check --cores 3 --lines 2 --coarse --threads 2
  prairie migrate check --random 100000000 --seed 7       a random walk
  prairie migrate check --model german                    published state counts

Exit codes:
  0    the protocol holds, or the injected bug was found
  1    a property fails, a bug was not found, or --max-states was exceeded
  2    usage error
  130  interrupted";

/// What `--json` prints.
#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    header: Header,
    checks: Vec<Check>,
}

/// Checks and reports the results.
pub fn run(args: &Args, interrupted: &'static AtomicBool) -> anyhow::Result<ExitCode> {
    if let Some(path) = &args.svg
        && path.extension().is_none_or(|ending| ending != "svg")
    {
        refuse!("{}: a sequence chart is written as .svg", path.display());
    }
    if matches!(args.variant, Some(Mistake::List)) {
        output::print_table(view::variants())?;
        return Ok(ExitCode::SUCCESS);
    }
    let variants = variants(args);
    // Only several checks are a table.
    if args.random.is_some() || variants.len() == 1 {
        output::expect_text()?;
    }
    if let Some(steps) = args.random {
        return walk(args, steps, interrupted);
    }
    let mut checks = Vec::new();
    for variant in variants {
        checks.push(one(args, variant, interrupted)?);
        if interrupted.load(Ordering::Relaxed) {
            return Ok(output::interrupted());
        }
    }
    summary(args, checks)
}

/// Prints what was found, draws it if asked, and ends with the exit code of the verdict.
fn summary(args: &Args, checks: Vec<Check>) -> anyhow::Result<ExitCode> {
    let right = checks.iter().all(Check::is_right);
    if let Some(path) = &args.svg {
        let drawn = checks.iter().find_map(|c| Some((c, c.counterexample()?)));
        let (check, found) = drawn.context("--svg: no counterexample to draw")?;
        let svg = view::chart(check, found).svg(Theme::Auto);
        write_atomically(path, svg.as_bytes())?;
    }
    let many = checks.iter().any(|check| check.finding.result == Verdict::TooMany);
    if args.json {
        output::print_json(&Document { header: Header::new("prairie-migrate-check", 1), checks })?;
    } else if let [check] = &checks[..] {
        output::print_text(&view::single(check))?;
    } else {
        output::print_table(view::table(&checks))?;
    }
    if many {
        bail!("more than {} states; --max-states allows more", number::count(args.max_states));
    }
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What `--random` with `--json` prints.
#[derive(Serialize)]
struct WalkDocument {
    #[serde(flatten)]
    header: Header,
    walk: check::Walk,
}

/// Walks at random and reports the results.
fn walk(args: &Args, steps: u64, interrupted: &'static AtomicBool) -> anyhow::Result<ExitCode> {
    let variant = match args.variant {
        None => None,
        Some(Mistake::One(variant)) if !variant.is_of_messages() => Some(variant),
        Some(_) => refuse!("--random: expected one injected bug of the transaction layer"),
    };
    if args.model != Model::Transaction {
        refuse!("--random: expected the transaction layer");
    }
    let caching = match args.caching {
        CachingArg::Cacheable => Caching::Cacheable,
        CachingArg::Noncacheable => Caching::Noncacheable,
    };
    let bar = progress::bar(Some(steps), "Walking".to_owned());
    let walked = check::walk(caching, variant, steps, args.seed, &mut |taken| {
        bar.set_position(taken);
        !interrupted.load(Ordering::Relaxed)
    });
    bar.finish_and_clear();
    let right = walked.broken.is_some() == variant.is_some();
    let stopped = walked.stopped;
    if args.json {
        output::print_json(&WalkDocument {
            header: Header::new("prairie-migrate-check-random", 1),
            walk: walked,
        })?;
    } else {
        output::print_text(&view::walk(&walked))?;
    }
    if stopped {
        return Ok(output::interrupted());
    }
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn variants(args: &Args) -> Vec<Option<Variant>> {
    match args.variant {
        None | Some(Mistake::List) => vec![None],
        Some(Mistake::All) => {
            let message = args.model == Model::Message;
            let all = Variant::ALL.iter().copied();
            all.filter(|variant| !message || variant.shows_in_messages()).map(Some).collect()
        }
        Some(Mistake::One(variant)) => vec![Some(variant)],
    }
}

fn one(
    args: &Args,
    variant: Option<Variant>,
    interrupted: &'static AtomicBool,
) -> anyhow::Result<Check> {
    let limits = Limits { states: args.max_states, key: args.key, threads: args.threads };
    let bar =
        progress::bar(None, variant.map_or("Checking".to_owned(), |v| format!("Checking {v}")));
    let mut watch = |progress: &Progress| {
        bar.set_position(progress.states);
        !interrupted.load(Ordering::Relaxed)
    };
    let symmetry = !args.without.contains(&Reduction::Symmetry);
    if args.model == Model::German {
        let finding = check::german(args.cores.unwrap_or(4), symmetry, limits, &mut watch)?;
        bar.finish_and_clear();
        let (shape, liveness) = (None, None);
        let (model, variant, only, coarse) = ("german", None, None, false);
        return Ok(Check { model, shape, coarse, variant, only, finding, liveness });
    }
    let layer = layer(args, variant)?;
    let smallest = variant.map_or((2, 1, 1), |variant| match layer {
        Layer::Transaction => variant.shape(),
        Layer::Message => variant.shape_of_messages(),
    });
    let shape = Shape {
        cores: args.cores.unwrap_or(smallest.0),
        devices: args.devices.unwrap_or(smallest.1),
        lines: args.lines.unwrap_or(smallest.2),
    };
    let design = design(args, variant);
    let finding = check::safety(layer, shape, design, limits, &mut watch)?;
    let asked = args.property.is_none_or(|number| matches!(number, 4 | 5));
    let lives = asked && !design.coarse && variant.is_none_or(Variant::is_about_liveness);
    let held = finding.result == Verdict::Holds && finding.states <= args.max_graph;
    let graph = Limits { states: args.max_graph, ..limits };
    let liveness = match lives && held {
        true => check::liveness(layer, shape, design, graph)?,
        false => None,
    };
    bar.finish_and_clear();
    let (shape, only) = (Some(shape), args.property);
    let model = match layer {
        Layer::Transaction => "transaction",
        Layer::Message => "message",
    };
    Ok(Check { model, shape, coarse: design.coarse, variant, only, finding, liveness })
}

/// The requested layer, or the one that has the injected bug.
fn layer(args: &Args, variant: Option<Variant>) -> anyhow::Result<Layer> {
    let message = args.model == Model::Message;
    if !message && !variant.is_some_and(Variant::is_of_messages) {
        return Ok(Layer::Transaction);
    }
    if let Some(variant) = variant.filter(|variant| !variant.shows_in_messages()) {
        refuse!("--variant {variant}: the message layer has no such step");
    }
    let known = [Feature::Aborts, Feature::Again, Feature::Partial];
    if let Some(feature) = args.with.iter().find(|feature| !known.contains(feature)) {
        let name = feature.to_possible_value().map(|value| value.get_name().to_owned());
        refuse!(
            "--with {}: the message layer has aborts, again and partial only",
            name.unwrap_or_default()
        );
    }
    if args.pages.is_some_and(|pages| pages > 1) {
        refuse!("--pages: the message layer has one page");
    }
    Ok(Layer::Message)
}

fn design(args: &Args, variant: Option<Variant>) -> Design {
    let base = variant.map_or_else(Design::default, Variant::design);
    let with = |feature, before: bool| before || args.with.contains(&feature);
    let without = |reduction| args.without.contains(&reduction);
    let noncacheable = matches!(args.caching, CachingArg::Noncacheable);
    let split_walks = with(Feature::SplitWalks, base.split_walks);
    Design {
        caching: if noncacheable { Caching::Noncacheable } else { base.caching },
        pages: args.pages.unwrap_or(base.pages),
        again: with(Feature::Again, base.again),
        aborts: with(Feature::Aborts, base.aborts),
        prefetch: with(Feature::Prefetch, base.prefetch),
        partial: with(Feature::Partial, base.partial),
        locks: with(Feature::Locks, base.locks),
        split_walks,
        ats: with(Feature::Ats, base.ats),
        llc: with(Feature::Llc, base.llc),
        recalls: with(Feature::Recalls, base.recalls),
        dirty_destination: with(Feature::DirtyDestination, base.dirty_destination),
        // A walk in two steps shows only where the entry is empty meanwhile.
        empty_tlb: base.empty_tlb || split_walks || without(Reduction::Tlb),
        values: if without(Reduction::FreshBit) { 2 } else { base.values },
        symmetry: !without(Reduction::Symmetry),
        keep_finished: without(Reduction::Finished),
        coarse: args.coarse,
        only: args.property.and_then(|number| Property::ALL.get(usize::from(number) - 1).copied()),
        ..base
    }
}
