//! `prairie replay`: recorded activity under several allocators.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::ValueEnum;
use prairie_frames::layout::{Watermarks, ZoneSpan};
use prairie_frames::placement::zones::Kernelcore;
use prairie_frames::{Pfn, ZoneKind};
use prairie_model::allocator::{World, follows_recording};
use prairie_replay::compare::{self, ZoneDistance};
use prairie_replay::initial_state::InitialState;
use prairie_replay::replay::Initial;
use prairie_replay::run::{self, Faults, Guest, Results};
use prairie_report::write_atomically;
use prairie_trace::import::Imported;
use prairie_trace::import::gfp_names::Renumbering;
use prairie_trace::{Columns, EventSource, Metadata, Reader, Recording};
use serde::Serialize;

use super::allocators::{self, Allocators};
use super::linux_rules::LinuxRules;
use super::{against, guests, survey, value};
use crate::called_as::generated_by;
use crate::files::Files;
use crate::output::{Answer, Done, Header, Wanted};
use crate::view::replay as view;
use crate::{output, progress};

/// Replay a trace under several allocators and compare them
///
/// Each recorded allocation is placed by the policy of each allocator, and each recorded free frees
/// that same allocation, wherever the allocator placed it. The file is read once, in a stream.
#[derive(clap::Args)]
#[command(after_help = after_help())]
pub struct Args {
    /// Recording, or a trace by LLFree, trace-cmd report or perf script
    file: PathBuf,

    /// Allocators, separated by commas, or `all`
    #[arg(
        long,
        visible_alias = "allocators",
        value_name = "NAMES",
        value_parser = allocators::replayed,
        default_value = "buddy,linux,contiguitas"
    )]
    systems: Allocators,

    /// Placement of memory in use at the start
    #[arg(long, value_name = "NAME", value_enum, default_value_t = Start::AsFound)]
    initial: Start,

    /// Sampling interval, such as 100ms [default: for at most 400 samples]
    ///
    /// At most 10000 samples are kept: when there are more, the interval doubles.
    #[arg(long, value_name = "TIME", value_parser = value::time)]
    every: Option<Duration>,

    /// Kernel memory under `zones`, such as 2G or 50% [default: all]
    #[arg(long, value_name = "SIZE", value_parser = value::kernelcore)]
    kernelcore: Option<Kernelcore>,

    /// Memory of the machine, such as 64G [default: from the trace]
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    memory: Option<u64>,

    /// Shared library with a policy, replayed after the allocators
    #[arg(long, value_name = "FILE.so")]
    policy: Vec<PathBuf>,

    /// Compact memory as Linux does, under `linux` and `linux-defrag`
    #[arg(long)]
    compact: bool,

    /// Reclaim memory when an allocator needs it; implies --compact
    #[arg(long)]
    reclaim: bool,

    /// Replay one allocator after another on one thread
    #[arg(long)]
    in_turn: bool,

    /// Add a survey of this host to the HTML page
    #[arg(long, requires = "html")]
    survey: bool,

    /// Validate `linux` against the recorded kernel's snapshots
    #[arg(long, value_name = "DIR", conflicts_with_all = ["systems", "initial", "every", "memory", "compact", "reclaim", "in_turn", "survey", "out", "policy"])]
    against: Option<PathBuf>,

    /// Print JSON instead of the report
    #[arg(long)]
    json: bool,

    /// Write every sample as a row
    #[arg(long, value_name = "FILE.parquet")]
    out: Option<PathBuf>,

    /// Write the report as a self-contained HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        const SNAPSHOTS: [&str; 4] = ["pagetypeinfo", "zoneinfo", "kpageflags", "kpageflags.gz"];
        let files = Files::default()
            .input("FILE", [&self.file])
            .input("--policy", &self.policy)
            .output("--out", &self.out)
            .output("--html", &self.html);
        match &self.against {
            Some(folder) => files.input_files_in("--against", folder, &SNAPSHOTS),
            None => files,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  prairie replay trace.parquet                              three allocators, in the terminal
  prairie replay trace.parquet --systems linux,contiguitas --html replay.html
  prairie replay trace.parquet --initial replaced --out samples.parquet
  prairie replay trace.parquet --json | jq '.systems[].satisfiable'
  prairie replay trace.parquet --reclaim                    reclaim as each allocator needs it
  prairie replay trace.parquet --policy ./libmine.so        a policy of your own
  prairie replay perf-script.txt --memory 16G               another tool's trace
  prairie replay boot/trace.parquet --against boot          validate `linux`";

const EXIT_CODES: &str = "\
Exit codes:
  0    success
  1    failure; one line on standard error: what, where, what was expected
  2    usage error
  130  interrupted; partial results are printed, no file is written";

fn after_help() -> String {
    format!("{EXAMPLES}\n\n{}\n\n{EXIT_CODES}", allocators::help(World::Replay))
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Start {
    /// In place: in the frames that were recorded
    AsFound,
    /// Re-placed by each allocator, as if it had run since boot
    Replaced,
}

/// What `--json` prints.
#[derive(Serialize)]
pub struct Document {
    #[serde(flatten)]
    header: Header,
    trace: PathBuf,
    kernel_release: String,
    lost_events: u64,
    /// The rules that `linux` follows, if it is replayed and its name gives no release.
    #[serde(skip_serializing_if = "Option::is_none")]
    linux_rules: Option<LinuxRules>,
    #[serde(flatten)]
    results: Results,
    /// The difference between the final states of `linux` and the kernel.
    distance_to_kernel: Vec<ZoneDistance>,
}

/// Replays, prints and writes as asked.
pub fn run(args: &Args, interrupted: &'static AtomicBool) -> anyhow::Result<ExitCode> {
    if let Some(folder) = &args.against {
        let (trace, html) = (&args.file, args.html.as_deref());
        return against::run(trace, folder, is_parquet(trace)?, args.json, html);
    }
    finish(args, ask(args, Vec::new(), interrupted)?, interrupted)
}

/// Replays. `guests` run after the allocators and the policies that the arguments name.
pub fn ask(
    args: &Args,
    guests: Vec<Guest>,
    interrupted: &AtomicBool,
) -> anyhow::Result<Answer<Document>> {
    ensure!(args.against.is_none(), "--against: compares one allocator with a kernel");
    let mut options = run::Options {
        systems: args.systems.0.clone(),
        initial: match args.initial {
            Start::AsFound => Initial::AsFound,
            Start::Replaced => Initial::Replaced,
        },
        kernelcore: args.kernelcore,
        sample_every_ns: args.every.map(nanoseconds),
        expected_ns: None,
        parallel: !args.in_turn,
        compact: args.compact || args.reclaim,
        reclaim: args.reclaim,
    };
    let all = guests::all(&options.systems, &args.policy, guests)?;
    let (rules, (found, metadata, results)) = if is_parquet(&args.file)? {
        let reader = Reader::open(&args.file)?;
        let rules = LinuxRules::choose(&mut options.systems, &reader.metadata().kernel_release);
        (rules, replay_recording(args, reader, &options, all, interrupted)?)
    } else {
        let rules = LinuxRules::choose(&mut options.systems, "");
        (rules, replay_import(args, &options, all, interrupted)?)
    };
    let distance =
        distance(&found, &metadata, &results).with_context(|| args.file.display().to_string())?;
    let report = view::report(&view::Subject {
        file: &args.file,
        found: &found,
        metadata: &metadata,
        linux_rules: rules.as_ref().map(|rules| (rules.release.as_str(), rules.validated)),
        results: &results,
        distance: &distance,
        generated_by: generated_by(),
    });
    let document = Document {
        header: Header::new("prairie-replay", 1),
        trace: args.file.clone(),
        lost_events: metadata.lost_events(),
        kernel_release: metadata.kernel_release,
        linux_rules: rules,
        distance_to_kernel: distance,
        results,
    };
    let done = Done { count: document.results.events, part: "event" };
    let stopped_after = document.results.interrupted.then_some(done);
    Ok(Answer { document, report, stopped_after })
}

/// Reports rules without validation, and what a trace without frees allows.
fn say_what_is_missing(results: &Results, rules: Option<&LinuxRules>) {
    if let Some(note) = rules.and_then(|rules| rules.note.as_ref()) {
        output::say(note);
    }
    let counts = results.systems.first().map(|system| system.counts);
    if counts.is_some_and(|counts| counts.frees == 0 && counts.allocations > 0) {
        output::say(
            "the trace has no mm_page_free events: placement can be compared until memory is full, \
             fragmentation by frees cannot",
        );
    }
}

fn finish(
    args: &Args,
    answer: Answer<Document>,
    interrupted: &AtomicBool,
) -> anyhow::Result<ExitCode> {
    say_what_is_missing(&answer.document.results, answer.document.linux_rules.as_ref());
    let wanted = Wanted { json: args.json, html: args.html.as_deref() };
    answer.finish(&wanted, |answer| {
        let results = &answer.document.results;
        say_if_lengthened(args, results);
        if let Some(path) = &args.out {
            let rows =
                prairie_replay::results::to_parquet(results).context("the samples as Parquet")?;
            write_atomically(path, &rows)?;
            output::wrote(path);
        }
        match args.survey {
            true => survey::prepend_live(&mut answer.report, interrupted),
            false => Ok(()),
        }
    })
}

/// Reports a sampling interval that differs from the requested one.
fn say_if_lengthened(args: &Args, results: &Results) {
    let Some(every) = args.every else { return };
    let used = results.systems.first().map_or(0, |system| system.sample_every_ns);
    if used > nanoseconds(every) {
        output::say(format_args!(
            "--every {}: more than {} samples; sampled every {} instead",
            humantime::format_duration(every),
            run::MAX_SAMPLES,
            humantime::format_duration(Duration::from_nanos(used)),
        ));
    }
}

/// Saturates at 64 bits, five centuries.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Whether the file says that it is Parquet.
pub(super) fn is_parquet(path: &Path) -> anyhow::Result<bool> {
    use std::io::Read;
    let mut magic = [0; 4];
    let mut file =
        std::fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    match file.read_exact(&mut magic) {
        Ok(()) => Ok(&magic == b"PAR1"),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn replay_recording(
    args: &Args,
    reader: Reader,
    options: &run::Options,
    guests: Vec<Guest>,
    interrupted: &AtomicBool,
) -> anyhow::Result<(InitialState, Metadata, Results)> {
    let metadata = reader.metadata().clone();
    let mut found = match &metadata.before {
        Some(before) if args.memory.is_none() => {
            found_before(&reader, before).with_context(|| args.file.display().to_string())?
        }
        _ => machine(args, metadata.frames_named)?,
    };
    found.gfp_numbers = metadata.recording.as_ref().and_then(Renumbering::of_recording);
    let expected_ns = metadata.recording.as_ref().map(Recording::duration_ns);
    let options = &run::Options { expected_ns, ..options.clone() };
    // Names tell which process is kswapd.
    let columns = if options.reclaim { Columns::ALL } else { Columns::REPLAY };
    let mut events = reader.events(columns);
    let total = Some(metadata.events);
    let results = drive(&found, &mut events, options, guests, total, interrupted)?;
    Ok((found, metadata, results))
}

/// The machine as it was before the recording.
pub(super) fn found_before(
    reader: &Reader,
    before: &prairie_host::Capture,
) -> anyhow::Result<InitialState> {
    let frames = reader.frame_runs().collect::<prairie_trace::Result<Vec<_>>>()?;
    let frames = (!frames.is_empty()).then_some(frames);
    Ok(InitialState::of(&prairie_host::Capture { frames, ..before.clone() })?)
}

fn replay_import(
    args: &Args,
    options: &run::Options,
    guests: Vec<Guest>,
    interrupted: &AtomicBool,
) -> anyhow::Result<(InitialState, Metadata, Results)> {
    let mut named = 0;
    if args.memory.is_none() {
        // Without a snapshot only the events show the machine's size: read them first.
        let mut imported = Imported::open(&args.file)?;
        while let Some(batch) = imported.next_batch()? {
            named = batch.iter().filter_map(|event| event.frames_named()).fold(named, u64::max);
        }
    }
    let found = machine(args, named)?;
    let mut imported = Imported::open(&args.file)?;
    let results = drive(&found, &mut imported, options, guests, None, interrupted)?;
    Ok((found, Metadata::default(), results))
}

/// A machine without a snapshot: a DMA32 zone up to 4 GiB and a Normal zone above, all free.
fn machine(args: &Args, frames_named: u64) -> anyhow::Result<InitialState> {
    const FRAMES_BELOW_4_GIB: u64 = 1 << 20;
    let told = args.memory.map(|bytes| bytes / 4096);
    // A damaged number can be any: the layout refuses a machine of its size.
    let frames = told.unwrap_or(frames_named).checked_next_multiple_of(512).unwrap_or(u64::MAX);
    ensure!(
        frames > 0,
        "{}: no frame numbers in the trace, expected --memory SIZE",
        args.file.display()
    );
    let zone = |kind, start: u64, end: u64| ZoneSpan {
        node: 0,
        kind,
        start: Pfn(start),
        spanned: end.saturating_sub(start),
        managed: end.saturating_sub(start),
        watermarks: Watermarks::default(),
        lowmem_reserve: Default::default(),
    };
    let zones = vec![
        zone(ZoneKind::Dma32, 0, frames.min(FRAMES_BELOW_4_GIB)),
        zone(ZoneKind::Normal, FRAMES_BELOW_4_GIB, frames),
    ];
    InitialState::empty(zones).with_context(|| args.file.display().to_string())
}

fn drive(
    found: &InitialState,
    source: &mut dyn EventSource,
    options: &run::Options,
    guests: Vec<Guest>,
    total: Option<u64>,
    interrupted: &AtomicBool,
) -> anyhow::Result<Results> {
    let bar = progress::bar(total, "Replaying");
    let faults: Vec<Arc<Faults>> = guests.iter().map(|guest| guest.faults.clone()).collect();
    let mut tell = |events| bar.set_position(events);
    let results = run::run_with(found, source, options, guests, &mut tell, interrupted);
    bar.finish_and_clear();
    match faults.iter().find_map(|faults| faults.first()) {
        Some(fault) => Err(fault.clone().into()),
        None => Ok(results?),
    }
}

/// The difference between `linux` and the kernel, if it started in place and the trace has both
/// snapshots.
fn distance(
    found: &InitialState,
    metadata: &Metadata,
    results: &Results,
) -> Result<Vec<ZoneDistance>, prairie_host::Error> {
    let linux = results
        .systems
        .iter()
        .find(|system| follows_recording(&system.system) && system.initial == Initial::AsFound);
    match (linux, &metadata.after) {
        (Some(linux), Some(after)) if !results.interrupted => {
            compare::with_kernel(found, after, linux)
        }
        _ => Ok(Vec::new()),
    }
}
