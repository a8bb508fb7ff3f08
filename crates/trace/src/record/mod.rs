//! Records a Linux machine's page allocator: tracepoints through `perf_event_open`, into a trace.
//!
//! One thread checks the rings of all CPUs fifty times a second, decodes what is in them and brings
//! it into order; another takes the snapshot and writes. Events are switched on before the snapshot
//! begins, so that no change is missed: each run of frames carries the time at which it was read,
//! and a replay knows which events it already shows.
//!
//! Needs root: the kernel shows tracepoints, physical frame numbers and page flags to root only.

mod border;
pub(crate) mod cgroups;
pub(crate) mod collect;
mod command;
pub(crate) mod decode;
mod merge;
pub(crate) mod names;
mod perf_record;
mod pins;
mod probes;
pub(crate) mod ring;
pub(crate) mod stacks;
mod store;
pub(crate) mod tracefs;
pub(crate) mod tracepoint;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use prairie_host::{Capture, Kallsyms, Roots, monotonic_ns};

use self::collect::{Batch, Collector};
pub use self::command::Command;
use self::decode::{Decoder, Tracepoint, kernel_types};
use self::names::Names;
pub use self::pins::PinCounts;
use self::probes::Probes;
use self::ring::{RequestedTracepoint, Ring};
use self::store::{Shared, Store};
use self::tracepoint::Format;
use crate::{Error, Metadata, Origin, Recording, Result, Summary};

/// What this user has to change where the kernel refuses.
fn for_refused() -> &'static str {
    prairie_host::remedy::by_user(
        "run as root (sudo), or with CAP_PERFMON, CAP_SYS_ADMIN and CAP_IPC_LOCK, outside a \
         container",
        "run outside a container, with CAP_PERFMON, CAP_SYS_ADMIN and CAP_IPC_LOCK",
    )
}

/// The polling interval of the rings. A ring of 16 MiB takes 190,000 events meanwhile.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Steps that may wait to be written, some 48 bytes each. Beyond them the rings are left alone, so
/// that events are lost and counted rather than memory exhausted.
const MAX_BUFFERED_EVENTS: u64 = 1 << 24;

/// The default size of a CPU's ring.
pub const RING_BYTES: usize = 16 << 20;

/// When a recording ends; an interruption ends it in any case.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Until {
    /// After this time, counted from the end of the snapshot.
    Elapsed(Duration),
    /// When this command, started after the snapshot, ends.
    Ended(Vec<OsString>),
    /// Only when interrupted.
    Interrupted,
}

/// Options of a recording.
pub struct Options<'a> {
    /// When to stop.
    pub until: Until,
    /// Bytes of each CPU's ring; rounded up to a power of two.
    pub ring_bytes: usize,
    /// Whether to record the call chains of allocations that are not movable.
    pub stacks: bool,
    /// Whether to record also what moves between the per-CPU lists and the zones.
    pub per_cpu_lists: bool,
    /// Whether to record long-term pins. Sets probes in the kernel for the time of the
    /// recording.
    pub pins: bool,
    /// Whether processes that are neither the kernel's nor started by this one, as the command
    /// and what it starts are, go by the name `other`: for recordings that are passed on.
    pub hide_others: bool,
    /// Threads that read the snapshot.
    pub threads: usize,
    /// The host's files: [`Roots::live`], unless a test has others.
    pub roots: Roots,
    /// Set by anyone to stop.
    pub interrupted: &'a AtomicBool,
    /// Called before the recording begins with what is wanted and cannot be recorded; all else is.
    pub left_out: &'a mut dyn FnMut(&Error),
    /// Called at every poll of the rings.
    pub progress: &'a mut dyn FnMut(Progress),
}

/// How far a recording is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Events read so far.
    pub events: u64,
    /// Lost events.
    pub lost: u64,
    /// Since the end of the snapshot; `None` while it is being taken.
    pub elapsed: Option<Duration>,
}

/// A finished recording.
#[derive(Debug)]
#[non_exhaustive]
pub struct Recorded {
    /// The file's size and rows.
    pub summary: Summary,
    /// Lost events.
    pub lost_events: u64,
    /// Long-term pins, where they were recorded.
    pub pins: Option<PinCounts>,
    /// CPUs that came online meanwhile: what they did is missing.
    pub unseen_cpus: Vec<u16>,
    /// How the command ended; `None` if there was none, or it outlived an interruption.
    pub status: Option<ExitStatus>,
    /// How long the snapshot took, from switching the events on.
    pub snapshot_ns: u64,
}

/// Records into the file `path`. The file appears only when it is complete.
///
/// # Errors
/// [`Error::Record`] where the machine does not let itself be recorded, the command cannot be
/// started, or the snapshot was interrupted; [`Error::Write`]. No file is left then.
pub fn record(path: &Path, mut options: Options<'_>) -> Result<Recorded> {
    let symbols = if options.stacks { read_symbols(&options.roots)? } else { Kallsyms::default() };
    let pagetypeinfo = std::fs::read_to_string(options.roots.proc.join("pagetypeinfo")).ok();
    let types = kernel_types(pagetypeinfo.as_deref());
    let tracepoints = wanted_tracepoints(&options);
    let paths: Vec<&str> = tracepoints.iter().map(|t| t.path()).collect();
    let mounts = options.roots.proc.join("self/mounts");
    let mut formats = tracefs::formats(&mounts, &paths)?;
    let optional: Vec<Tracepoint> = Tracepoint::stalls().chain(Tracepoint::border()).collect();
    let optional_paths: Vec<&str> = optional.iter().map(|t| t.path()).collect();
    formats.extend(tracefs::available(&mounts, &optional_paths)?);
    let present = optional.into_iter().filter(|t| formats.contains_key(t.path()));
    let mut tracepoints: Vec<Tracepoint> = tracepoints.into_iter().chain(present).collect();
    // Removed at the end, after the rings that use them.
    let probes = options.pins.then(|| Probes::set(&options.roots, &mounts));
    let probes = probes.and_then(|set| set.inspect_err(|error| (options.left_out)(error)).ok());
    if let Some(probes) = &probes {
        let paths: Vec<&str> = probes.tracepoints().map(Tracepoint::path).collect();
        formats.extend(tracefs::formats(&mounts, &paths)?);
        tracepoints.extend(probes.tracepoints());
    }
    let cpus = online_cpus(&options.roots)?;
    let mut recording = Recording {
        cpus: cpus.clone(),
        ring_bytes: options.ring_bytes.next_power_of_two() as u64,
        stacks: options.stacks,
        per_cpu_lists: options.per_cpu_lists,
        pins: probes.is_some(),
        others_hidden: options.hide_others,
        kernel_migrate_types: types.iter().map(|t| t.name().to_owned()).collect(),
        tracepoint_formats: formats.clone(),
        ..Recording::default()
    };
    if let Until::Ended(command) = &options.until {
        recording.command =
            Some(command.iter().map(|word| word.to_string_lossy().into_owned()).collect());
    }
    let (wanted, decoders) = plan(&tracepoints, &formats, &types, options.stacks)?;
    let own = std::process::id().cast_signed();
    let store = Store::create(path, symbols, Names::new(options.hide_others, own))?;
    let rings = open_rings(&cpus, options.ring_bytes.next_power_of_two(), &wanted)?;
    let mut collector = Collector::new(rings, &decoders);
    recording.started_ns = monotonic_ns();
    collector.enable().map_err(refused("switching the kernel's tracepoints on"))?;
    run(store, collector, &mut options, recording)
}

/// The recording proper: the writing thread beside the collecting one, until it ends.
fn run(
    store: Store,
    mut collector: Collector,
    options: &mut Options<'_>,
    mut recording: Recording,
) -> Result<Recorded> {
    let shared = Shared::default();
    let roots = options.roots.clone();
    let (threads, started_ns) = (options.threads.max(1), recording.started_ns);
    thread::scope(|scope| {
        let (sender, batches) = channel();
        let shared = &shared;
        let roots = &roots;
        let storing = scope.spawn(move || store.run(roots, threads, started_ns, &batches, shared));
        let ended = || storing.is_finished();
        let collected = collect(&mut collector, options, &mut recording, (shared, &ended), &sender);
        drop(sender);
        let stored = storing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // What stopped the writing is the reason why collecting stopped, too.
        let (writer, before, pins) = stored?;
        let Collected { after, status, began_ns } = collected?;
        recording.out_of_order = collector.out_of_order();
        let lost_by_cpu = collector.lost_by_cpu().clone();
        let lost_events = lost_by_cpu.values().sum();
        let with_pins = recording.pins;
        let online = online_cpus(roots).unwrap_or_default();
        let unseen_cpus = not_among(&recording.cpus, online);
        let summary = writer.finish(Metadata {
            origin: Origin::Recorded,
            kernel_release: before.kernel_release.clone(),
            page_bytes: before.page_bytes,
            before: Some(before),
            after: Some(after),
            recording: Some(recording),
            lost_by_cpu,
            ..Metadata::default()
        })?;
        let snapshot_ns = began_ns.saturating_sub(started_ns);
        let pins = with_pins.then_some(pins);
        Ok(Recorded { summary, lost_events, pins, unseen_cpus, status, snapshot_ns })
    })
}

/// The summary at the end of the recording.
struct Collected {
    /// The machine's texts.
    after: Capture,
    /// How the command ended.
    status: Option<ExitStatus>,
    /// When the snapshot was complete.
    began_ns: u64,
}

/// Looks at the rings until the recording ends, or the writing thread has.
fn collect(
    collector: &mut Collector,
    options: &mut Options<'_>,
    recording: &mut Recording,
    (shared, writer_ended): (&Shared, &dyn Fn() -> bool),
    sender: &Sender<Batch>,
) -> Result<Collected> {
    let mut command = None;
    let mut began_ns = None;
    let mut ended = false;
    while !ended && !writer_ended() && !options.interrupted.load(Ordering::Relaxed) {
        let now_ns = monotonic_ns();
        if shared.waiting.load(Ordering::Relaxed) < MAX_BUFFERED_EVENTS
            && !hand_over(collector.collect(now_ns)?, shared, sender)
        {
            break;
        }
        if began_ns.is_none() && shared.snapshot_taken.load(Ordering::Acquire) {
            began_ns = Some(monotonic_ns());
            if let Until::Ended(words) = &options.until {
                command = Some(Command::start(words)?);
            }
        }
        let elapsed = began_ns.map(|began| Duration::from_nanos(now_ns.saturating_sub(began)));
        let lost = collector.lost_by_cpu().values().sum();
        (options.progress)(Progress { events: collector.events(), lost, elapsed });
        ended = match (&options.until, &mut command) {
            (Until::Elapsed(time), _) => elapsed.is_some_and(|elapsed| elapsed >= *time),
            (_, Some(command)) => command.has_ended(),
            _ => false,
        };
        if !ended {
            thread::sleep(POLL_INTERVAL);
        }
    }
    let after = texts(&options.roots)?;
    collector.disable().map_err(refused("switching the kernel's tracepoints off"))?;
    recording.ended_ns = monotonic_ns();
    if began_ns.is_none() {
        shared.interrupted.store(true, Ordering::Relaxed);
    }
    hand_over(collector.finish(recording.ended_ns)?, shared, sender);
    let began_ns = began_ns.unwrap_or(recording.ended_ns);
    Ok(Collected { after, status: command.and_then(Command::finish), began_ns })
}

/// The online CPUs that were not recorded.
fn not_among(recorded: &[u16], online: Vec<u16>) -> Vec<u16> {
    online.into_iter().filter(|cpu| !recorded.contains(cpu)).collect()
}

/// Gives a batch to the writing thread; false if that has ended.
fn hand_over(batch: Batch, shared: &Shared, sender: &Sender<Batch>) -> bool {
    shared.waiting.fetch_add(batch.steps.len() as u64, Ordering::Relaxed);
    sender.send(batch).is_ok()
}

/// The machine's texts, without its frames.
fn texts(roots: &Roots) -> Result<Capture> {
    let options = prairie_host::Options {
        frames: false,
        threads: 1,
        largest_processes: 0,
        interrupted: &AtomicBool::new(false),
        progress: &mut |_, _| {},
    };
    prairie_host::capture(roots, options).map_err(|error| Error::Record {
        what: "the state of memory at the end".into(),
        why: error.to_string(),
        remedy: for_refused().into(),
    })
}

fn wanted_tracepoints(options: &Options<'_>) -> Vec<Tracepoint> {
    let mut tracepoints = Tracepoint::ALWAYS.to_vec();
    if options.per_cpu_lists {
        tracepoints.extend(Tracepoint::PER_CPU_LISTS);
    }
    tracepoints
}

/// The tracepoints of each ring, and their decoders. With stacks, allocations come as two events:
/// movable ones (number 1 in every kernel) as ever, the others with their call chains.
fn plan(
    tracepoints: &[Tracepoint],
    formats: &BTreeMap<String, String>,
    types: &[prairie_frames::MigrateType],
    stacks: bool,
) -> Result<(Vec<RequestedTracepoint>, Vec<Decoder>)> {
    plan_with(tracepoints, formats, types, |tracepoint| match tracepoint {
        Tracepoint::Alloc if stacks => vec![
            (Some("migratetype == 1".to_owned()), false),
            (Some("migratetype != 1".to_owned()), true),
        ],
        Tracepoint::Pin(_, flags) => vec![(Some(flags.filter()), false)],
        _ => vec![(None, stacks && is_begin(tracepoint))],
    })
}

/// The tracepoints of each ring that watches stalls, and their decoders. Of allocations it sees
/// huge pages only. With stacks, the beginnings of stalls come with their call chains.
pub(crate) fn plan_stalls(
    tracepoints: &[Tracepoint],
    formats: &BTreeMap<String, String>,
    types: &[prairie_frames::MigrateType],
    stacks: bool,
) -> Result<(Vec<RequestedTracepoint>, Vec<Decoder>)> {
    let huge = format!("order >= {}", prairie_frames::Order::HUGE.get());
    plan_with(tracepoints, formats, types, |tracepoint| {
        let filter = (tracepoint == Tracepoint::Alloc).then(|| huge.clone());
        vec![(filter, stacks && is_begin(tracepoint))]
    })
}

/// One event, with its decoder, for each filter that `requests` gives a tracepoint; the flag beside
/// the filter requests call chains.
fn plan_with(
    tracepoints: &[Tracepoint],
    formats: &BTreeMap<String, String>,
    types: &[prairie_frames::MigrateType],
    requests: impl Fn(Tracepoint) -> Vec<(Option<String>, bool)>,
) -> Result<(Vec<RequestedTracepoint>, Vec<Decoder>)> {
    let (mut wanted, mut decoders) = (Vec::new(), Vec::new());
    for &tracepoint in tracepoints {
        let format = Format::parse(&formats[tracepoint.path()])?;
        let decoder = Decoder::new(tracepoint, &format, types.to_vec())?;
        for (filter, chain) in requests(tracepoint) {
            wanted.push(RequestedTracepoint { id: format.id, filter, chain });
            decoders.push(decoder.clone());
        }
    }
    Ok((wanted, decoders))
}

/// Whether a stall begins at this tracepoint.
fn is_begin(tracepoint: Tracepoint) -> bool {
    matches!(tracepoint, Tracepoint::Stall(point) if point.is_begin())
}

pub(crate) fn open_rings(
    cpus: &[u16],
    bytes: usize,
    wanted: &[RequestedTracepoint],
) -> Result<Vec<Ring>> {
    allow_many_files();
    let open = |&cpu: &u16| match Ring::open(cpu, bytes, wanted) {
        Ok(ring) => Ok(Some(ring)),
        // Taken offline between being listed and now.
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
        Err(error) => Err(refused("watching the kernel's tracepoints")(error)),
    };
    cpus.iter().filter_map(|cpu| open(cpu).transpose()).collect()
}

/// A CPU takes half a dozen descriptors, and a process may have 1,024 by default.
fn allow_many_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If it is refused, opening the events will say what is missing.
    let _ = setrlimit(Resource::Nofile, limit);
}

pub(crate) fn refused(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |error| Error::Record {
        what: what.into(),
        remedy: match error.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => "raise the limit of open files (ulimit -n)".into(),
            Some(libc::ENOMEM | libc::EINVAL) => "try a smaller ring".into(),
            _ => for_refused().into(),
        },
        why: error.to_string(),
    }
}

pub(crate) fn read_symbols(roots: &Roots) -> Result<Kallsyms> {
    let path = roots.proc.join("kallsyms");
    let text = std::fs::read_to_string(&path).map_err(Error::read(&path))?;
    Kallsyms::parse(&text).map_err(|error| Error::Record {
        what: "the kernel's symbols, which call chains need".into(),
        why: error.to_string(),
        remedy: for_refused().into(),
    })
}

/// The CPUs that are online: `0-3,5`.
pub(crate) fn online_cpus(roots: &Roots) -> Result<Vec<u16>> {
    let path = roots.sys.join("devices/system/cpu/online");
    let text = std::fs::read_to_string(&path).map_err(Error::read(&path))?;
    parse_cpus(text.trim()).ok_or_else(|| Error::Record {
        what: path.display().to_string(),
        why: format!("{:?} is no list of CPUs", text.trim()),
        remedy: "expected something like 0-3,5".into(),
    })
}

fn parse_cpus(list: &str) -> Option<Vec<u16>> {
    let mut cpus = Vec::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        cpus.extend(first.parse::<u16>().ok()?..=last.parse().ok()?);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_came_online_was_not_recorded() {
        assert_eq!(not_among(&[0, 1, 3], vec![0, 1, 2, 3, 4]), [2, 4]);
        assert!(not_among(&[0, 1], vec![0]).is_empty(), "one that went offline was");
    }

    #[test]
    fn lists_of_cpus() {
        assert_eq!(parse_cpus("0").unwrap(), [0]);
        assert_eq!(parse_cpus("0-2,5").unwrap(), [0, 1, 2, 5]);
        assert_eq!(parse_cpus(""), None);
        assert_eq!(parse_cpus("0-x"), None);
    }

    /// As where the disk is full: the writing thread no longer empties the queue.
    #[test]
    fn collecting_ends_with_the_writer_though_its_queue_is_full() {
        let shared = Shared::default();
        shared.waiting.store(MAX_BUFFERED_EVENTS, Ordering::Relaxed);
        let (sender, _batches) = channel();
        let (mut polls, interrupted) = (0, AtomicBool::new(false));
        let mut options = Options {
            until: Until::Interrupted,
            ring_bytes: 0,
            stacks: false,
            per_cpu_lists: false,
            pins: false,
            hide_others: false,
            threads: 1,
            roots: Roots::live(),
            interrupted: &interrupted,
            left_out: &mut |_| {},
            progress: &mut |_| {
                polls += 1;
                interrupted.store(polls == 5, Ordering::Relaxed);
            },
        };
        let mut collector = Collector::new(Vec::new(), &[]);
        let to = (&shared, &(|| true) as &dyn Fn() -> bool);
        let recording = &mut Recording::default();
        collect(&mut collector, &mut options, recording, to, &sender).unwrap();
        assert_eq!(polls, 0);
    }

    #[test]
    fn stacks_split_allocations_in_two() {
        let formats: BTreeMap<String, String> = [
            ("kmem/mm_page_alloc", include_str!("../../tests/fixtures/formats/mm_page_alloc-6.18")),
            ("kmem/mm_page_free", include_str!("../../tests/fixtures/formats/mm_page_free-6.18")),
        ]
        .map(|(path, text)| (path.to_owned(), text.to_owned()))
        .into();
        let tracepoints = [Tracepoint::Alloc, Tracepoint::Free];
        let filters = |stacks| {
            let (wanted, decoders) =
                plan(&tracepoints, &formats, &kernel_types(None), stacks).unwrap();
            assert_eq!(wanted.len(), decoders.len());
            wanted.into_iter().map(|w| (w.id, w.filter, w.chain)).collect::<Vec<_>>()
        };
        assert_eq!(filters(false), [(653, None, false), (655, None, false)]);
        assert_eq!(
            filters(true),
            [
                (653, Some("migratetype == 1".into()), false),
                (653, Some("migratetype != 1".into()), true),
                (655, None, false),
            ]
        );
    }
}
