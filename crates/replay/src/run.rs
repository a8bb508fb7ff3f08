//! Several allocators through one pass over a stream of events.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};

use prairie_frames::placement::Counter;
use prairie_frames::placement::custom::{Fault, Report};
use prairie_frames::placement::zones::Kernelcore;
use prairie_frames::{BlockCounts, Layout, MigrateType, Order};
use prairie_model::allocator::{Allocator, AnyPlacement, Site, World};
use prairie_model::sample::Sample;
use prairie_trace::{Event, EventKind, EventSource, Texts};
use serde::Serialize;

use crate::initial_state::InitialState;
use crate::replay::{Counts, Initial, Replay};

/// How to replay.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which allocators, each once.
    pub systems: Vec<Allocator>,
    /// Where memory in use at the start is put.
    pub initial: Initial,
    /// Time between samples in nanoseconds; `None` for about [`SAMPLES`] over the whole trace.
    pub sample_every_ns: Option<u64>,
    /// How long the trace lasts in nanoseconds, if that is known before it is read: sampling then
    /// starts with an interval that fits, and saves measurements that would be dropped again.
    pub expected_ns: Option<u64>,
    /// Memory that `zones` keeps for the kernel; `None` leaves its ZONE_EASYRCLM empty.
    pub kernelcore: Option<Kernelcore>,
    /// Whether each allocator has a thread of its own. The result is the same.
    pub parallel: bool,
    /// Whether Linux's compaction runs where an allocator can be compacted
    /// ([`Allocator::compacts_in_replay`]).
    pub compact: bool,
    /// Whether memory is reclaimed when an allocator needs it instead of when the recorded kernel did
    /// (`replay/reclaim.rs`).
    pub reclaim: bool,
}

/// The most samples that are kept where the caller names no interval: enough for a curve on any
/// screen. When there are more, every second one is dropped and the interval doubled, so that the
/// number neither depends on the trace's length nor has to be known before.
pub const SAMPLES: usize = 400;

/// The most samples kept at an interval that the caller names. Beyond, the interval is doubled as
/// above: a measurement takes time in proportion to the memory, and each is kept until the end.
pub const MAX_SAMPLES: usize = 10_000;

/// A policy that the registry of allocators does not have.
pub struct Guest {
    /// Its name in the results.
    pub name: String,
    /// Its description in the results.
    pub summary: String,
    /// Builds its placement.
    pub build: Box<dyn FnOnce(&Layout) -> AnyPlacement>,
    /// Whether it runs on the thread that calls [`run_with`], as a language that takes interrupts
    /// there needs it.
    pub stays: bool,
    /// Where its placement leaves a fault, which ends the run.
    pub faults: Arc<Faults>,
}

/// The first fault of a policy.
#[derive(Debug, Default)]
pub struct Faults(OnceLock<Fault>);

impl Faults {
    /// The fault, if there was one.
    pub fn first(&self) -> Option<&Fault> {
        self.0.get()
    }
}

impl Report for Faults {
    fn fault(&self, fault: Fault) {
        self.0.get_or_init(|| fault);
    }
}

/// The results of one allocator.
#[derive(Clone, Debug, Serialize)]
pub struct SystemResult {
    /// The system.
    pub system: String,
    /// Its description, and what is not modeled.
    pub parts: String,
    /// Where memory in use at the start was put.
    pub initial: Initial,
    /// The counts.
    pub counts: Counts,
    /// The policy's counters.
    pub counters: Vec<NamedCount>,
    /// What could be allocated at the end.
    pub satisfiable: Satisfiable,
    /// Measurements over time; the first before any event, the last after all of them.
    pub samples: Vec<Sample>,
    /// Nanoseconds between samples; more than were requested where those were too many.
    #[serde(skip)]
    pub sample_every_ns: u64,
    /// Pageblocks of each zone by type at the end, where the system has types.
    pub pageblocks_by_type: Vec<Option<[u64; MigrateType::ALL.len()]>>,
    /// Bytes of memory that the simulation took for each frame of the machine.
    pub bytes_per_frame: f64,
    /// Frames by mobility in each pageblock, at the start.
    #[serde(skip)]
    pub blocks_at_start: Vec<BlockCounts>,
    /// The same at the end.
    #[serde(skip)]
    pub blocks_at_end: Vec<BlockCounts>,
}

/// A count of a policy's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamedCount {
    /// Its name.
    pub name: &'static str,
    /// Its meaning.
    pub meaning: &'static str,
    /// The count.
    pub value: u64,
}

impl From<Counter> for NamedCount {
    fn from(Counter { name, meaning, value }: Counter) -> NamedCount {
        NamedCount { name, meaning, value }
    }
}

/// Huge pages that could be allocated, counted as if nothing else were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Satisfiable {
    /// 2 MiB pages, at once.
    pub mib_2_now: u64,
    /// 1 GiB pages, at once.
    pub gib_1_now: u64,
    /// 2 MiB pages, after full compaction: no more than the free memory could fill.
    pub mib_2_after_compaction: u64,
    /// 1 GiB pages, after full compaction: no more than the free memory could fill.
    pub gib_1_after_compaction: u64,
}

impl SystemResult {
    /// The last measurement.
    pub fn end(&self) -> &Sample {
        self.samples.last().expect("a system is measured before the first event")
    }
}

/// The results of a run, and of what.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// Events in the trace.
    pub events: u64,
    /// Nanoseconds from the first event to the last.
    pub duration_ns: u64,
    /// Whether the run was stopped before the trace ended.
    pub interrupted: bool,
    /// Whether the systems that Linux's compaction works on were compacted.
    pub compacted: bool,
    /// Whether reclaim was simulated.
    pub reclaimed: bool,
    /// The systems, in the order requested.
    pub systems: Vec<SystemResult>,
}

/// Replays `source` under each system. `progress` is called with the number of events so far;
/// `cancel` ends the run early with what there is until then.
///
/// # Errors
/// Those of the source.
pub fn run(
    found: &InitialState,
    source: &mut dyn EventSource,
    options: &Options,
    progress: &mut dyn FnMut(u64),
    cancel: &AtomicBool,
) -> prairie_trace::Result<Results> {
    run_with(found, source, options, Vec::new(), progress, cancel)
}

/// Does what [`run`] does with `guests` after the systems, in the same pass. A fault of a guest
/// interrupts it.
///
/// # Errors
/// Those of the source.
pub fn run_with(
    found: &InitialState,
    source: &mut dyn EventSource,
    options: &Options,
    guests: Vec<Guest>,
    progress: &mut dyn FnMut(u64),
    cancel: &AtomicBool,
) -> prairie_trace::Result<Results> {
    let mut runners: Vec<Seat> =
        options.systems.iter().map(|allocator| seat(allocator, found, options)).collect();
    let faults: Vec<Arc<Faults>> = guests.iter().map(|guest| guest.faults.clone()).collect();
    runners.extend(guests.into_iter().map(|guest| guest_seat(guest, found, options)));
    let is_stopped =
        || cancel.load(Ordering::Relaxed) || faults.iter().any(|faults| faults.first().is_some());
    let mut clock = Clock::default();
    let mut events = 0;
    let mut feed = |hand: &mut dyn FnMut(Batch<'_>)| -> prairie_trace::Result<bool> {
        if is_stopped() {
            return Ok(true);
        }
        while let Some(batch) = source.next_batch()? {
            let origin_ns = clock.see(batch);
            events += batch.len() as u64;
            // Names come from the source, which lends the batch.
            if options.reclaim && batch.iter().any(names_a_process) {
                let copy = batch.to_vec();
                let kswapds = kswapds(&copy, source.texts());
                hand(Batch { events: &copy, origin_ns, kswapds: &kswapds });
            } else {
                hand(Batch { events: batch, origin_ns, kswapds: &[] });
            }
            progress(events);
            if is_stopped() {
                return Ok(true);
            }
        }
        Ok(false)
    };
    let (interrupted, systems) = if options.parallel && runners.len() > 1 {
        run_parallel(runners, &mut feed)?
    } else {
        run_in_turn(runners, &mut feed)?
    };
    let (duration_ns, compacted) = (clock.duration(), options.compact);
    let reclaimed = options.reclaim;
    Ok(Results { events, duration_ns, interrupted, compacted, reclaimed, systems })
}

/// Events, as every runner gets them.
#[derive(Clone, Copy)]
struct Batch<'a> {
    events: &'a [Event],
    /// The instant that counts as zero.
    origin_ns: u64,
    /// Processes among them that are kswapds.
    kswapds: &'a [i32],
}

fn names_a_process(event: &Event) -> bool {
    matches!(event.what, EventKind::Process { .. })
}

/// The processes that these events name `kswapd0` or with another number.
fn kswapds(events: &[Event], texts: &Texts) -> Vec<i32> {
    let is_kswapd = |event: &&Event| match event.what {
        EventKind::Process { name } => texts.get(name).starts_with("kswapd"),
        _ => false,
    };
    events.iter().filter(is_kswapd).map(|event| event.pid).collect()
}

type Feed<'a> = dyn FnMut(&mut dyn FnMut(Batch<'_>)) -> prairie_trace::Result<bool> + 'a;

/// A runner, and whether it stays on the calling thread.
struct Seat {
    runner: Run,
    stays: bool,
}

fn run_in_turn(
    mut runners: Vec<Seat>,
    feed: &mut Feed<'_>,
) -> prairie_trace::Result<(bool, Vec<SystemResult>)> {
    let interrupted = feed(&mut |batch| {
        for seat in &mut runners {
            seat.runner.apply(batch);
        }
    })?;
    Ok((interrupted, runners.into_iter().map(|seat| seat.runner.finish()).collect()))
}

/// Batches that may wait for a system. More would only take memory.
const QUEUED: usize = 4;

fn run_parallel(
    runners: Vec<Seat>,
    feed: &mut Feed<'_>,
) -> prairie_trace::Result<(bool, Vec<SystemResult>)> {
    type Shared = Arc<(Vec<Event>, u64, Vec<i32>)>;
    std::thread::scope(|scope| {
        let mut senders: Vec<SyncSender<Shared>> = Vec::new();
        // In the order of the results.
        let mut places = Vec::new();
        let mut staying = Vec::new();
        for Seat { mut runner, stays } in runners {
            if stays {
                places.push(Place::Here(staying.len()));
                staying.push(runner);
                continue;
            }
            let (sender, receiver) = sync_channel::<Shared>(QUEUED);
            senders.push(sender);
            places.push(Place::Thread(scope.spawn(move || {
                for shared in receiver {
                    let (events, origin_ns, kswapds) = &*shared;
                    runner.apply(Batch { events, origin_ns: *origin_ns, kswapds });
                }
                runner.finish()
            })));
        }
        let fed = feed(&mut |batch| {
            let Batch { events, origin_ns, kswapds } = batch;
            let shared: Shared = Arc::new((events.to_vec(), origin_ns, kswapds.to_vec()));
            for sender in &senders {
                // A thread that is gone has panicked; joining it below says so.
                let _ = sender.send(shared.clone());
            }
            for runner in &mut staying {
                runner.apply(batch);
            }
        });
        drop(senders);
        let mut stayed: Vec<_> = staying.into_iter().map(|runner| Some(runner.finish())).collect();
        let join = |place| match place {
            Place::Here(at) => stayed[at].take().expect("each place is named once"),
            Place::Thread(thread) => {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }
        };
        let results = places.into_iter().map(join).collect();
        Ok((fed?, results))
    })
}

/// Where a system runs.
enum Place<'scope> {
    /// On the calling thread, as the one with this number.
    Here(usize),
    /// On a thread of its own.
    Thread(std::thread::ScopedJoinHandle<'scope, SystemResult>),
}

/// First and last instant of a stream whose times need not ascend.
#[derive(Default)]
struct Clock {
    first: Option<u64>,
    last: u64,
}

impl Clock {
    /// Takes note of a batch; returns the instant that counts as zero.
    fn see(&mut self, batch: &[Event]) -> u64 {
        let first = *self.first.get_or_insert(batch[0].time_ns);
        self.last = batch.iter().map(|event| event.time_ns).fold(self.last, u64::max);
        first
    }

    fn duration(&self) -> u64 {
        self.last.saturating_sub(self.first.unwrap_or(self.last))
    }
}

fn seat(allocator: &Allocator, found: &InitialState, options: &Options) -> Seat {
    let site = Site {
        cpus_per_node: found.cpus_per_node(),
        pagesets: &found.pagesets,
        kernelcore: options.kernelcore,
        compacts: options.compact,
        ..Site::new(&found.layout, World::Replay)
    };
    let (name, mut summary) = (allocator.name().to_owned(), allocator.summary());
    if options.compact && allocator.compacts_in_replay() {
        summary += "; compacted as Linux does";
    }
    Seat { runner: Run::new(name, summary, found, allocator.build(&site), options), stays: false }
}

fn guest_seat(guest: Guest, found: &InitialState, options: &Options) -> Seat {
    let Guest { name, summary, build, stays, .. } = guest;
    let placement = build(&found.layout);
    Seat { runner: Run::new(name, summary, found, placement, options), stays }
}

/// A system that is being run.
struct Run {
    name: String,
    summary: String,
    initial: Initial,
    replay: Replay<AnyPlacement>,
    sampler: Sampler,
    events: u64,
    blocks_at_start: Vec<BlockCounts>,
}

impl Run {
    fn new(
        name: String,
        summary: String,
        found: &InitialState,
        placement: AnyPlacement,
        options: &Options,
    ) -> Run {
        let replay = match options.reclaim {
            false => Replay::new(found, placement, options.initial),
            true => Replay::reclaiming(found, placement, options.initial),
        };
        let mut run = Run {
            name,
            summary,
            initial: options.initial,
            blocks_at_start: replay.table().blocks().to_vec(),
            replay,
            sampler: Sampler::new(options.sample_every_ns, options.expected_ns),
            events: 0,
        };
        let first = run.measure(0);
        run.sampler.samples.push(first);
        run
    }

    fn measure(&self, time_ns: u64) -> Sample {
        let replay = &self.replay;
        let failed = replay.counts().failed_allocations;
        let (layout, table) = (replay.layout(), replay.table());
        Sample::take(layout, table, replay.placement(), time_ns, self.events, failed)
    }

    fn apply(&mut self, Batch { events, origin_ns, kswapds }: Batch<'_>) {
        for &pid in kswapds {
            self.replay.learn_kswapd(pid);
        }
        let mut rest = events;
        while !rest.is_empty() {
            let now = |event: &Event| event.time_ns.saturating_sub(origin_ns);
            // Up to the next sample, without stopping in between.
            let due_ns = self.sampler.due_ns;
            let before = rest.iter().position(|event| now(event) >= due_ns);
            let (events, later) = rest.split_at(before.unwrap_or(rest.len()));
            self.replay.apply_all(events);
            self.events += events.len() as u64;
            let latest = events.iter().map(now).fold(0, u64::max);
            self.sampler.latest_ns = self.sampler.latest_ns.max(latest);
            if let Some(next) = later.first() {
                let sample = self.measure(due_ns);
                self.sampler.keep(sample, now(next));
            }
            rest = later;
        }
    }

    fn finish(mut self) -> SystemResult {
        let end = self.measure(self.sampler.latest_ns);
        let satisfiable = Satisfiable {
            mib_2_now: huge_pages_on_lists(&end),
            gib_1_now: end.free_blocks.gib_1,
            mib_2_after_compaction: end.satisfiable_after_compaction(Order::HUGE),
            gib_1_after_compaction: end.satisfiable_after_compaction(Order::GIGANTIC),
        };
        self.sampler.samples.push(end);
        SystemResult {
            system: self.name,
            parts: self.summary,
            initial: self.initial,
            counts: *self.replay.counts(),
            counters: self.replay.counters().into_iter().map(NamedCount::from).collect(),
            satisfiable,
            pageblocks_by_type: (0..self.replay.layout().zones().len())
                .map(|zone| self.replay.placement().pageblocks(zone))
                .collect(),
            bytes_per_frame: self.replay.table().bytes_per_frame(),
            blocks_at_end: self.replay.table().blocks().to_vec(),
            blocks_at_start: self.blocks_at_start,
            sample_every_ns: self.sampler.interval_ns,
            samples: self.sampler.samples,
        }
    }
}

/// 2 MiB pages in the blocks on the free lists.
fn huge_pages_on_lists(sample: &Sample) -> u64 {
    let pages = |blocks: &[u64]| -> u64 {
        blocks.iter().skip(Order::HUGE.index()).enumerate().map(|(j, count)| count << j).sum()
    };
    sample.zones.iter().map(|zone| pages(&zone.free_blocks)).sum()
}

/// Decides when to measure, by the trace's own time, so that all systems are measured at the same
/// instants.
struct Sampler {
    interval_ns: u64,
    /// How many samples are kept.
    most: usize,
    /// The interval at which the expected length of the trace has that many samples.
    fitting_ns: u64,
    due_ns: u64,
    latest_ns: u64,
    samples: Vec<Sample>,
}

/// The interval that sampling starts with when nothing is known.
const FIRST_INTERVAL_NS: u64 = 1_000_000;

impl Sampler {
    fn new(every_ns: Option<u64>, expected_ns: Option<u64>) -> Sampler {
        // At most what doubling produces in a trace that is never idle.
        let fits = expected_ns.unwrap_or(0) / SAMPLES as u64 / FIRST_INTERVAL_NS;
        let first = FIRST_INTERVAL_NS << fits.checked_ilog2().unwrap_or(0);
        let interval_ns = every_ns.unwrap_or(first).max(1);
        let most = if every_ns.is_some() { MAX_SAMPLES } else { SAMPLES };
        Sampler {
            interval_ns,
            most,
            fitting_ns: expected_ns.unwrap_or(0) / most as u64,
            due_ns: interval_ns,
            latest_ns: 0,
            samples: Vec::new(),
        }
    }

    /// Keeps a measurement and sets the next instant, the first one after `now`.
    fn keep(&mut self, sample: Sample, now: u64) {
        self.samples.push(sample);
        if self.samples.len() > self.most {
            self.lengthen();
        }
        let next = (now / self.interval_ns).saturating_add(1);
        self.due_ns = next.saturating_mul(self.interval_ns);
    }

    /// Doubles the interval, more than once if the rest of the trace calls for it, and drops the
    /// samples in between.
    fn lengthen(&mut self) {
        loop {
            self.interval_ns = self.interval_ns.saturating_mul(2);
            if self.interval_ns >= self.fitting_ns {
                break;
            }
        }
        let interval = self.interval_ns;
        self.samples.retain(|sample| sample.time_ns.is_multiple_of(interval));
    }
}
