//! A recording from boot as a list of what the page allocator did, frame by frame.

use std::collections::{BTreeMap, HashMap};

use prairie_frames::layout::LayoutError;
use prairie_frames::{Frame, Layout, Order, Pfn};
use prairie_trace::{Event, EventKind, EventSource};

use super::act::{Act, Action, Edge};
use super::lost;
use super::probes::{ProbeReading, Probes};
use super::snapshot::Snapshot;
use super::threads::{By, Threads};
use crate::initial_state::zone_spans;

/// What stands between the events of pages.
enum Mark {
    /// A snapshot, by its place among those given.
    Snapshot(usize, Edge),
    /// A sign of reclaim or compaction.
    Reclaim,
    /// A probe on a CPU; for a block that compaction took, whether no scan did.
    Probe { cpu: u16, told: ProbeReading, searched: bool },
    /// All memory was compacted on request.
    CompactMemory,
}

/// A scan that took a number of frames has ended: the last blocks taken were found by it, those
/// before by searches.
fn mark_scanned(marks: &mut [(usize, Mark)], taken: &mut Vec<usize>, mut frames: u64) {
    for at in taken.drain(..).rev() {
        if let (_, Mark::Probe { told: ProbeReading::Isolated { order, .. }, searched, .. }) =
            &mut marks[at]
        {
            *searched = frames < order.frames();
            frames = frames.saturating_sub(order.frames());
        }
    }
}

/// A recording from boot.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The machine's zones, from the first snapshot.
    pub layout: Layout,
    /// The actions, in order.
    pub acts: Vec<Act>,
    /// The snapshots that the trace has markers for, in the order of their markers.
    pub snapshots: Vec<Snapshot>,
    /// CPUs that did anything.
    pub cpus: u16,
    /// Where pure allocation ends: the first act after the first sign of reclaim or compaction.
    pub reclaim: Option<usize>,
    /// Acts on frames of no zone, left out.
    pub outside: u64,
    /// Acts put in: a refill that was not traced ([`lost`]).
    pub put_back: u64,
}

/// Why a trace cannot be validated against a kernel.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// Reading it failed.
    #[error(transparent)]
    Trace(#[from] prairie_trace::Error),
    /// A snapshot's zones are those of no machine.
    #[error("the zones of the snapshot {name}: {source}")]
    Layout {
        /// The snapshot.
        name: String,
        /// The error.
        source: LayoutError,
    },
    /// No snapshot fits.
    #[error(
        "the trace has no marker \"snapshot NAME begin\" for any of the snapshots given ({0}); \
         record with vm/record"
    )]
    NoMarkers(String),
    /// The first snapshot has no frames.
    #[error("the first snapshot, {0}, has no kpageflags: which frames were free is not known")]
    NoFlags(String),
    /// The events that a replay to the frame needs are not in it.
    #[error("the trace has no {0} events; record them from boot on, as vm/record does")]
    NoEvents(&'static str),
}

/// Signs of reclaim and compaction among the markers of an imported trace.
const RECLAIM: [&str; 4] = [
    "mm_vmscan_kswapd_wake",
    "mm_vmscan_direct_reclaim_begin",
    "mm_compaction_isolate_freepages",
    "mm_compaction_end",
];

impl Recording {
    /// Reads all events of a trace beside the snapshots that were taken meanwhile. Takes memory
    /// in proportion to both: what happened unseen is found out by looking ahead.
    ///
    /// # Errors
    /// If reading fails, no snapshot has its marker in the trace, the first has no page flags, or
    /// the trace has not the events that it takes.
    pub fn read(
        source: &mut dyn EventSource,
        mut given: Vec<Snapshot>,
    ) -> Result<Recording, RecordingError> {
        let mut events: Vec<Event> = Vec::new();
        let mut marks = Vec::new();
        let mut probes = Probes::default();
        let mut threads = Threads::default();
        let mut accounts = Vec::new();
        // By thread: marks of the blocks that compaction took and of which no scan has told yet.
        let mut taken: HashMap<i32, Vec<usize>> = HashMap::new();
        while let Some(batch) = source.next_batch()? {
            let batch = batch.to_vec();
            for event in batch {
                let EventKind::Marker { text } = event.what else {
                    accounts.push(threads.event(&event));
                    events.push(event);
                    continue;
                };
                let text = source.texts().get(text);
                if threads.marker(event.pid, text) {
                    marks.push((events.len(), Mark::CompactMemory));
                }
                if let Some((snapshot, edge)) = mark_of(text, &given) {
                    marks.push((events.len(), Mark::Snapshot(snapshot, edge)));
                    continue;
                }
                if RECLAIM.iter().any(|sign| text.starts_with(sign)) {
                    marks.push((events.len(), Mark::Reclaim));
                }
                match probes.take(event.pid, text) {
                    Some(ProbeReading::Scanned { frames }) => {
                        let taken = taken.entry(event.pid).or_default();
                        mark_scanned(&mut marks, taken, frames);
                    }
                    Some(told) => {
                        if let ProbeReading::Isolated { .. } = told {
                            taken.entry(event.pid).or_default().push(marks.len());
                        }
                        let searched = true;
                        marks.push((events.len(), Mark::Probe { cpu: event.cpu, told, searched }));
                    }
                    None => {}
                }
            }
        }
        let begins = |(_, mark): &(usize, Mark)| match *mark {
            Mark::Snapshot(snapshot, Edge::Begin) => Some(snapshot),
            _ => None,
        };
        let order: Vec<usize> = marks.iter().filter_map(begins).collect();
        let Some(&first) = order.first() else {
            let names: Vec<_> = given.iter().map(|snapshot| snapshot.name.as_str()).collect();
            return Err(RecordingError::NoMarkers(names.join(", ")));
        };
        if given[first].flags.is_none() {
            return Err(RecordingError::NoFlags(given[first].name.clone()));
        }
        let layout = Layout::new(zone_spans(&given[first].zones))
            .map_err(|source| RecordingError::Layout { name: given[first].name.clone(), source })?;
        let mut recording = Recording {
            layout,
            acts: Vec::with_capacity(events.len()),
            snapshots: Vec::new(),
            cpus: 1,
            reclaim: None,
            outside: 0,
            put_back: 0,
        };
        let late = recording.handed_over(&events);
        let mut marks = marks.into_iter().peekable();
        for (index, event) in events.iter().enumerate() {
            while let Some((_, mark)) = marks.next_if(|&(at, _)| at <= index) {
                recording.mark(&order, mark, event.time_ns);
            }
            recording.push(event, late[index], accounts[index]);
        }
        let end_ns = events.last().map_or(0, |event| event.time_ns);
        for (_, mark) in marks {
            recording.mark(&order, mark, end_ns);
        }
        let mut kept: Vec<Option<Snapshot>> = given.drain(..).map(Some).collect();
        recording.snapshots = order.iter().filter_map(|&snapshot| kept[snapshot].take()).collect();
        recording.put_lost_back();
        recording.check()?;
        Ok(recording)
    }

    /// Puts a refill back that was not traced, before the first snapshot.
    fn put_lost_back(&mut self) {
        let first = |act: &Act| act.action == Action::Snapshot(0, Edge::Begin);
        let Some(end) = self.acts.iter().position(first) else { return };
        self.put_back = lost::put_back(&mut self.acts, end, self.layout.frames() as usize);
        self.reclaim = self.reclaim.map(|act| act + self.put_back as usize);
    }

    /// Which events hand over memory whose initialization was deferred (`page_alloc_init_late`):
    /// threads free whole pageblocks that nothing has named before, and single frames before and
    /// after them. Names are not sufficient: worker threads help, and free other memory later.
    fn handed_over(&self, events: &[Event]) -> Vec<bool> {
        let mut named = vec![false; self.layout.frames() as usize];
        let mut by_thread: BTreeMap<i32, Vec<(usize, Option<Order>)>> = BTreeMap::new();
        for (index, event) in events.iter().enumerate() {
            let (pfn, order) = match event.what {
                EventKind::Alloc { pfn, order, .. }
                | EventKind::Free { pfn, order }
                | EventKind::ZoneLocked { pfn, order, .. } => (pfn, order),
                _ => continue,
            };
            let Some(frame) = self.block(pfn, order) else { continue };
            let block = frame.index()..frame.index() + order.frames() as usize;
            let is_free = matches!(event.what, EventKind::Free { .. });
            let fresh = is_free && !named[block.clone()].contains(&true);
            by_thread.entry(event.pid).or_default().push((index, fresh.then_some(order)));
            named[block].fill(true);
        }
        let mut handed_over = vec![false; events.len()];
        for did in by_thread.values() {
            let whole = |(_, fresh): &(usize, Option<Order>)| *fresh == Some(Order::HUGE);
            let (Some(mut first), Some(mut last)) =
                (did.iter().position(whole), did.iter().rposition(whole))
            else {
                continue;
            };
            while first > 0 && did[first - 1].1.is_some() {
                first -= 1;
            }
            while did.get(last + 1).is_some_and(|(_, fresh)| fresh.is_some()) {
                last += 1;
            }
            for &(index, fresh) in &did[first..=last] {
                handed_over[index] = fresh.is_some();
            }
        }
        handed_over
    }

    fn mark(&mut self, order: &[usize], mark: Mark, time_ns: u64) {
        match mark {
            Mark::CompactMemory => self.acts.push(Act::aside(Action::CompactMemory, time_ns)),
            Mark::Reclaim => {
                self.reclaim.get_or_insert(self.acts.len());
            }
            Mark::Snapshot(snapshot, edge) => {
                if let Some(place) = order.iter().position(|&given| given == snapshot) {
                    self.acts.push(Act::aside(Action::Snapshot(place, edge), time_ns));
                }
            }
            Mark::Probe { cpu, told, searched } => {
                let (pfn, order, action) = match told {
                    ProbeReading::Isolated { pfn, order } => {
                        (pfn, order, Action::Isolated { searched })
                    }
                    ProbeReading::Scanned { .. } => return,
                    ProbeReading::Retyped { pfn, migrate_type } => {
                        (pfn, Order::BASE, Action::Retyped(migrate_type))
                    }
                    ProbeReading::Picked { pfn } => (pfn, Order::BASE, Action::Picked),
                };
                self.add(cpu, (pfn, order), action, By::Compaction, time_ns);
            }
        }
    }

    fn push(&mut self, event: &Event, deferred: bool, by: By) {
        let (pfn, order, action) = match event.what {
            EventKind::Alloc { pfn, order, migrate_type, gfp, .. } => {
                (pfn, order, Action::Alloc(migrate_type, gfp))
            }
            EventKind::AllocFailed { order, migrate_type, gfp, .. } => {
                let action = Action::Refused(migrate_type, gfp);
                let act = Act { cpu: event.cpu, order, ..Act::aside(action, event.time_ns) };
                self.acts.push(act);
                return;
            }
            EventKind::Free { pfn, order } if deferred => (pfn, order, Action::HandOver),
            EventKind::Free { pfn, order } => (pfn, order, Action::Free),
            EventKind::FreeBatched { pfn } => (pfn, Order::BASE, Action::Batched),
            EventKind::ZoneLocked { pfn, order, migrate_type } => {
                (pfn, order, Action::Locked(migrate_type))
            }
            EventKind::PcpuDrain { pfn, order, migrate_type } => {
                (pfn, order, Action::Drain(migrate_type))
            }
            EventKind::Extfrag {
                pfn,
                fallback_order,
                migrate_type,
                fallback_type,
                change_ownership,
                ..
            } => {
                let (wanted, from) = (migrate_type, fallback_type);
                (pfn, fallback_order, Action::Fallback { wanted, from, change_ownership })
            }
            _ => return,
        };
        self.add(event.cpu, (pfn, order), action, by, event.time_ns);
    }

    fn add(&mut self, cpu: u16, (pfn, order): (Pfn, Order), action: Action, by: By, time_ns: u64) {
        match self.block(pfn, order) {
            Some(frame) => {
                self.cpus = self.cpus.max(cpu + 1);
                self.acts.push(Act { cpu, frame, order, action, by, time_ns });
            }
            None => self.outside += 1,
        }
    }

    fn block(&self, pfn: Pfn, order: Order) -> Option<Frame> {
        let fits = order <= Order::LARGEST_FREE && pfn.is_aligned(order);
        let frame = self.layout.frame(pfn).filter(|_| fits)?;
        let zone = &self.layout.zones()[self.layout.zone_of(frame)?];
        (frame.offset(order.frames()) <= zone.end).then_some(frame)
    }

    fn check(&self) -> Result<(), RecordingError> {
        let has = |found: fn(&Action) -> bool| self.acts.iter().any(|act| found(&act.action));
        if !has(|action| matches!(action, Action::Locked(_))) {
            return Err(RecordingError::NoEvents("mm_page_alloc_zone_locked"));
        }
        if !has(|action| matches!(action, Action::Alloc(..))) {
            return Err(RecordingError::NoEvents("mm_page_alloc"));
        }
        Ok(())
    }

    /// The acts up to which pure allocation goes.
    pub fn until_reclaim(&self) -> usize {
        self.reclaim.unwrap_or(self.acts.len())
    }
}

/// `snapshot NAME begin` or `snapshot NAME end`.
fn mark_of(text: &str, given: &[Snapshot]) -> Option<(usize, Edge)> {
    let mut words = text.split_whitespace();
    if words.next() != Some("snapshot") {
        return None;
    }
    let name = words.next()?;
    let edge = match words.next()? {
        "begin" => Edge::Begin,
        "end" => Edge::End,
        _ => return None,
    };
    Some((given.iter().position(|snapshot| snapshot.name == name)?, edge))
}
