//! `prairie lab explain`: the decisions behind Contiguitas's border.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, bail};
use prairie_replay::explain::{self, WakeUps};
use prairie_sim::machine::scenario::{self, Scenario};
use prairie_trace::{Columns, Metadata, Reader};
use serde::Serialize;
use serde_json::Value;

use crate::commands::seeds::{self, Seeds};
use crate::commands::{replay, survey, value};
use crate::files::Files;
use crate::output::{self, Answer, Done, Header, Wanted};
use crate::progress;
use crate::usage_error::refuse;
use crate::view::lab as view;

/// Show the region border of `contiguitas` and its resizer's decisions
///
/// FILE is a scenario (TOML), which is simulated, or a recording (Parquet), which is replayed. No
/// program waits in a replay: the share of requests that found their region low replaces pressure.
/// The recording of a kernel with a movable border (kernel/) shows the kernel's own decisions. So does
/// the text of its tracepoints, from tracefs, trace-cmd, or perf.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Scenario (TOML), recording (Parquet), or trace of a kernel (text)
    #[arg(value_name = "FILE")]
    input: PathBuf,

    /// Draw the timeline
    #[arg(long, value_name = "FILE.png|.svg", value_parser = value::picture)]
    picture: Option<PathBuf>,

    /// Random seed [default: the scenario's]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    #[command(flatten)]
    seeds: Seeds,

    /// Print every resizer wake-up as JSON instead of the report
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
            .input("FILE", [&self.input])
            .output("--picture", &self.picture)
            .output("--html", &self.html)
    }
}

const AFTER_HELP: &str = "\
Examples:
  prairie lab explain server.toml --picture border.png
  prairie lab explain border.txt --picture border.png
  prairie lab explain trace.parquet --json | jq '.wake_ups[] | select(.action != \"stay\")'";

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    header: Header,
    counts: view::explain::Counts,
    #[serde(flatten)]
    explained: &'a WakeUps,
}

impl Document<'_> {
    fn new(explained: &WakeUps) -> Document<'_> {
        let counts = view::explain::Counts::of(explained);
        Document { header: Header::new("prairie-lab-explain", 1), counts, explained }
    }
}

/// Runs, prints and writes as asked.
pub fn run(args: &Args, interrupted: &AtomicBool) -> anyhow::Result<ExitCode> {
    let wanted = Wanted { json: args.json, html: args.html.as_deref() };
    let within = || args.input.display().to_string();
    let explained = if replay::is_parquet(&args.input)? {
        refuse_seeds(args)?;
        of_recording(args, interrupted)
    } else {
        let text = std::fs::read_to_string(&args.input).context("cannot read it");
        let text = text.with_context(within)?;
        if explain::has_decisions(&text) {
            refuse_seeds(args)?;
            let explained = explain::kernel(&text).with_context(within)?;
            return answer(args, &explained, wanted);
        }
        let scenario = scenario_of(args, &text).with_context(within)?;
        if let Some(seeds) = args.seeds.from(scenario.seed) {
            if args.picture.is_some() {
                refuse!("--picture: the timeline is that of one run, expected no --seeds");
            }
            return seeds::repeat(seeds, wanted, |seed| document(&scenario, seed, interrupted));
        }
        simulate(&scenario, interrupted)
    };
    let explained = explained.with_context(within)?;
    if explained.wake_ups.is_empty() {
        bail!("{}: too short, expected at least one wake-up of the resizer", args.input.display());
    }
    answer(args, &explained, wanted)
}

/// Prints and writes as asked.
fn answer(args: &Args, explained: &WakeUps, wanted: Wanted<'_>) -> anyhow::Result<ExitCode> {
    let report = view::explain::report(&args.input, explained, survey::generated_by());
    let done = Done { count: explained.wake_ups.len() as u64, part: "wake-up" };
    let stopped_after = explained.interrupted.then_some(done);
    let document = Document::new(explained);
    Answer { document, report, stopped_after }.finish(&wanted, |_| {
        let Some(path) = &args.picture else { return Ok(()) };
        output::write_timeline(&view::explain::timeline(&args.input, explained), path)?;
        output::wrote(path);
        Ok(())
    })
}

/// The scenario with its seed, or the requested one.
fn scenario_of(args: &Args, text: &str) -> anyhow::Result<Scenario> {
    let mut scenario = scenario::parse(text)?;
    scenario.seed = args.seed.unwrap_or(scenario.seed);
    prairie_provenance::set_seed(scenario.seed);
    Ok(scenario)
}

fn simulate(scenario: &Scenario, interrupted: &AtomicBool) -> anyhow::Result<WakeUps> {
    let bar = progress::bar(Some(1000), "Simulating");
    let mut tell = |done: f64| bar.set_position((done * 1000.0) as u64);
    let explained = explain::scenario(scenario, &mut tell, interrupted);
    bar.finish_and_clear();
    Ok(explained?)
}

/// What `--json` prints of one of several runs; `None` if it was interrupted.
fn document(
    scenario: &Scenario,
    seed: u64,
    interrupted: &AtomicBool,
) -> anyhow::Result<Option<Value>> {
    let explained = simulate(&Scenario { seed, ..scenario.clone() }, interrupted)?;
    let whole = !explained.interrupted;
    Ok(whole.then(|| serde_json::to_value(Document::new(&explained))).transpose()?)
}

/// A recording has no random seed.
fn refuse_seeds(args: &Args) -> anyhow::Result<()> {
    if args.seed.is_some() {
        refuse!("--seed is for scenarios; a recording has none");
    }
    if args.seeds.from(0).is_some() {
        refuse!("--seeds is for scenarios; every replay of a recording is the same");
    }
    Ok(())
}

/// Whether a recording is of a kernel with a border, by the tracepoints that it names; nothing if it
/// was imported and names none.
fn has_border(metadata: &Metadata) -> Option<bool> {
    let of_border = |path: &String| path.starts_with("contiguitas/");
    Some(metadata.recording.as_ref()?.tracepoint_formats.keys().any(of_border))
}

fn of_recording(args: &Args, interrupted: &AtomicBool) -> anyhow::Result<WakeUps> {
    let reader = Reader::open(&args.input)?;
    let has_border = has_border(reader.metadata());
    if has_border != Some(false) {
        let own = explain::recorded(&mut reader.events(Columns::NOTES))?;
        if has_border == Some(true) || !own.wake_ups.is_empty() {
            return Ok(own);
        }
    }
    let Some(before) = &reader.metadata().before else {
        bail!("no snapshot of the machine, expected a file of `prairie record`");
    };
    let found = replay::found_before(&reader, before)?;
    let bar = progress::bar(Some(reader.metadata().events), "Replaying");
    let mut tell = |events| bar.set_position(events);
    let mut events = reader.events(Columns::REPLAY);
    let explained = explain::trace(&found, &mut events, &mut tell, interrupted);
    bar.finish_and_clear();
    Ok(explained?)
}
