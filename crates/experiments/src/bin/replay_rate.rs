//! The speed and memory of replaying recorded or generated events.
//!
//! ```text
//! cargo run --release -p experiments --bin replay_rate -- [OPTIONS] [FILE.parquet]
//!   --system NAMES      as `prairie replay --systems` [default: all in turn]
//!   --rounds N          medians of N rounds, the systems interleaved [default: 5]
//! without FILE, events are generated:
//!   --frames N          frames of the machine [default: 4194304, 16 GiB]
//!   --events N          [default: 20000000]
//!   --in-use N          frames in use once the stream has warmed up [default: half of them]
//! ```
//!
//! Time is CPU time of the one thread. Getting the events (reading and decoding the file, or
//! generating) is timed separately from replaying them, which includes the samples that `prairie
//! replay` takes by default. Setting up the machine is in neither.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use experiments::measure::{median, thread_time, zone};
use prairie_frames::layout::Watermarks;
use prairie_frames::placement::zones::Kernelcore;
use prairie_model::allocator::{Allocator, World};
use prairie_replay::initial_state::InitialState;
use prairie_replay::replay::Initial;
use prairie_replay::run::{Options, SystemResult, run};
use prairie_trace::generate::{Batches, Workload};
use prairie_trace::import::gfp_names::Renumbering;
use prairie_trace::{Columns, Event, EventSource, Reader, Recording, Texts};

/// Events after which memory in use is noted first, to be compared with the end.
const WARM: u64 = 10_000_000;

struct Arguments {
    file: Option<PathBuf>,
    systems: Vec<Allocator>,
    rounds: usize,
    frames: u64,
    events: u64,
    in_use: Option<u64>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = arguments()?;
    println!(
        "system         events  source   replay   Mevents/s  bytes/frame  RSS at 10 M     end    peak"
    );
    println!(
        "                        ns/ev    ns/ev  replay all               MiB     MiB     MiB"
    );
    let mut rounds: Vec<Vec<Round>> = arguments.systems.iter().map(|_| Vec::new()).collect();
    for _ in 0..arguments.rounds {
        for (system, rounds) in arguments.systems.iter().zip(&mut rounds) {
            rounds.push(match &arguments.file {
                Some(file) => recorded(file, system)?,
                None => generated(&arguments, system)?,
            });
        }
    }
    for (system, rounds) in arguments.systems.iter().zip(rounds) {
        print(system, rounds);
    }
    Ok(())
}

fn arguments() -> Result<Arguments, Box<dyn Error>> {
    let mut arguments = Arguments {
        file: None,
        systems: Allocator::all(World::Replay),
        rounds: 5,
        frames: 1 << 22,
        events: 20_000_000,
        in_use: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--system" => arguments.systems = Allocator::parse_list(&value()?, World::Replay)?,
            "--rounds" => arguments.rounds = value()?.parse::<usize>()?.max(1),
            "--frames" => arguments.frames = value()?.parse()?,
            "--events" => arguments.events = value()?.parse()?,
            "--in-use" => arguments.in_use = Some(value()?.parse()?),
            option if option.starts_with('-') => Err(format!("there is no option {option}"))?,
            file => arguments.file = Some(file.into()),
        }
    }
    Ok(arguments)
}

/// One round.
struct Round {
    events: u64,
    source_ns: f64,
    replay_ns: f64,
    bytes_per_frame: f64,
    /// Resident MiB after [`WARM`] events, if there were as many, and at the end.
    warm: Option<u64>,
    end: u64,
}

fn recorded(path: &Path, system: &Allocator) -> Result<Round, Box<dyn Error>> {
    let reader = Reader::open(path)?;
    let metadata = reader.metadata();
    let mut found = match &metadata.before {
        Some(before) => {
            let frames = Some(reader.frame_runs().collect::<prairie_trace::Result<Vec<_>>>()?);
            InitialState::of(&prairie_host::Capture { frames, ..before.clone() })?
        }
        None => machine(metadata.frames_named)?,
    };
    found.gfp_numbers = metadata.recording.as_ref().and_then(Renumbering::of_recording);
    let expected_ns = metadata.recording.as_ref().map(Recording::duration_ns);
    round(&found, reader.events(Columns::REPLAY), expected_ns, system)
}

fn generated(arguments: &Arguments, system: &Allocator) -> Result<Round, Box<dyn Error>> {
    let mut workload = Workload::typical(arguments.frames, 1);
    workload.working_set = arguments.in_use.unwrap_or(workload.working_set);
    let mut found = machine(arguments.frames)?;
    found.cpus = workload.cpus;
    let events = workload.events().take(arguments.events as usize);
    let expected_ns = arguments.events * workload.interval_ns;
    round(&found, Batches::new(events, Texts::default()), Some(expected_ns), system)
}

/// One zone, all of it free.
fn machine(frames: u64) -> Result<InitialState, Box<dyn Error>> {
    let frames = frames.next_multiple_of(512);
    Ok(InitialState::empty(vec![zone(frames, Watermarks::default())])?)
}

fn round(
    found: &InitialState,
    source: impl EventSource,
    expected_ns: Option<u64>,
    system: &Allocator,
) -> Result<Round, Box<dyn Error>> {
    let mut timed = Timed { source, began: None, inside: 0.0, all: 0.0 };
    let options = Options {
        systems: vec![system.clone()],
        initial: Initial::AsFound,
        sample_every_ns: None,
        expected_ns,
        kernelcore: Some(Kernelcore::Percent(50)),
        parallel: false,
        compact: false,
        reclaim: false,
    };
    let (mut warm, mut end) = (None, 0);
    let mut note = |events: u64| {
        if warm.is_none() && events >= WARM {
            warm = Some(status_mib("VmRSS:"));
        }
        if events.is_multiple_of(1 << 20) {
            end = status_mib("VmRSS:");
        }
    };
    let results = run(found, &mut timed, &options, &mut note, &AtomicBool::new(false))?;
    let SystemResult { bytes_per_frame, .. } = results.systems[0];
    let events = results.events as f64;
    Ok(Round {
        events: results.events,
        source_ns: timed.inside * 1e9 / events,
        replay_ns: (timed.all - timed.inside) * 1e9 / events,
        bytes_per_frame,
        warm,
        end,
    })
}

/// A source that measures how long it takes, and how long its user takes until it is empty.
struct Timed<S> {
    source: S,
    began: Option<f64>,
    inside: f64,
    all: f64,
}

impl<S: EventSource> EventSource for Timed<S> {
    fn next_batch(&mut self) -> prairie_trace::Result<Option<&[Event]>> {
        let start = thread_time().as_secs_f64();
        let began = *self.began.get_or_insert(start);
        let batch = self.source.next_batch();
        let now = thread_time().as_secs_f64();
        self.inside += now - start;
        self.all = now - began;
        batch
    }

    fn texts(&self) -> &Texts {
        self.source.texts()
    }
}

fn print(system: &Allocator, rounds: Vec<Round>) {
    let of = |value: fn(&Round) -> f64| median(rounds.iter().map(value));
    let (source, replay) = (of(|round| round.source_ns), of(|round| round.replay_ns));
    let all = of(|round| round.source_ns + round.replay_ns);
    let last = &rounds[rounds.len() - 1];
    let warm = last.warm.map_or("-".to_owned(), |mib| mib.to_string());
    println!(
        "{system:11} {:10} {source:7.1} {replay:8.1} {:7.1} {:5.1} {:9.2} {warm:>12} {:7} {:7}",
        last.events,
        1e3 / replay,
        1e3 / all,
        last.bytes_per_frame,
        last.end,
        status_mib("VmHWM:"),
    );
}

/// A size of this process as the kernel reports it, in MiB.
fn status_mib(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) >> 10
}
