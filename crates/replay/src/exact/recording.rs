//! A recording from boot as a list of what the page allocator did, frame by frame.

use std::collections::{BTreeMap, HashMap};

use prairie_frames::layout::LayoutError;
use prairie_frames::placement::linux::version::{ADAPTIVE_LISTS, LISTS_BY_TYPE};
use prairie_frames::{Frame, KernelVersion, Layout, Order, Pfn, ZoneKind};
use prairie_trace::{Event, EventKind, EventSource};

use super::act::{Act, Action, Edge, Resized};
use super::marks::{Mark, Told};
use super::probes::{ListReading, ProbeReading};
use super::snapshot::Snapshot;
use super::threads::By;
use super::{at_once, joined, kept, lost, opened, zones};

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
    /// Blocks handed over by several threads at once that were put before others ([`at_once`]).
    pub reordered_hand_overs: u64,
    /// The kernel's release.
    pub version: KernelVersion,
    /// The kernel's numbers of per-CPU lists when it updated its statistics, and the zone of the
    /// layout that each is about.
    pub readings: Vec<(usize, ListReading)>,
    /// Whether the record says when the limits of per-CPU lists were set.
    pub names_limits: bool,
    /// The act from which on the record says when each freed block reached its list, if it does.
    pub lists_from: Option<usize>,
}

/// Orders of larger blocks freed, by first frame, until they come to a per-CPU list.
type Freed = HashMap<Pfn, Order>;

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
    /// It names a CPU that no machine has.
    #[error("CPU {0} in the trace: expected less than {MAX_CPUS}, the most that Linux supports")]
    Cpu(u16),
    /// The events that a replay to the frame needs are not in it.
    #[error(
        "the trace has no {0} events: without --against its allocations and frees can be replayed; a \
         comparison with the kernel needs a recording from boot on, as vm/record makes it"
    )]
    NoEvents(&'static str),
    /// Memory came or went without an event.
    #[error(
        "the snapshot {name}: {zone} has {frames} frames where the trace accounts for {expected}; \
         which memory went offline or came online is not recorded"
    )]
    Size {
        /// The snapshot.
        name: String,
        /// The zone.
        zone: ZoneKind,
        /// Frames that it has.
        frames: u64,
        /// Frames that it has by the events.
        expected: u64,
    },
    /// Memory was isolated, and stayed online.
    #[error(
        "memory was isolated to go offline and stayed online: the order of its free blocks is not \
         known from then on; record again"
    )]
    Stays,
}

/// The first release whose fallback claims a pageblock and takes from it in one step, as moving a
/// block between lists has become part of converting its pageblock.
const CLAIMS: KernelVersion = LISTS_BY_TYPE.since;

/// The most CPUs that Linux supports (`NR_CPUS` on x86-64).
const MAX_CPUS: u16 = 8192;

impl Recording {
    /// A recording of one CPU in which nothing happens.
    pub fn empty(layout: Layout, version: KernelVersion) -> Recording {
        Recording {
            layout,
            acts: Vec::new(),
            snapshots: Vec::new(),
            cpus: 1,
            reclaim: None,
            outside: 0,
            put_back: 0,
            reordered_hand_overs: 0,
            version,
            readings: Vec::new(),
            names_limits: false,
            lists_from: None,
        }
    }

    /// Reads all events of a trace beside the snapshots that were taken meanwhile. Takes memory
    /// in proportion to both: what happened unseen is found out by looking ahead.
    ///
    /// # Errors
    /// If reading fails, the trace names a CPU that no machine has, no snapshot has its marker in the
    /// trace, the first has no page flags, or the trace has not the events that it takes.
    pub fn read(
        source: &mut dyn EventSource,
        mut given: Vec<Snapshot>,
        version: KernelVersion,
    ) -> Result<Recording, RecordingError> {
        let Told { events, accounts, marks, readings, last_cpu } = Told::read(source, &given)?;
        if last_cpu >= MAX_CPUS {
            return Err(RecordingError::Cpu(last_cpu));
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
        let shown = order.iter().map(|&snapshot| &given[snapshot]).collect();
        let layout = zones::layout(shown)
            .map_err(|(name, source)| RecordingError::Layout { name, source })?;
        let acts = Vec::with_capacity(events.len());
        let mut recording = Recording { acts, readings, ..Recording::empty(layout, version) };
        recording.find_zones();
        let boot = marks.iter().find(|mark| begins(mark).is_some()).map_or(0, |mark| mark.0);
        let mut late = recording.handed_over(&events[..boot]);
        late.extend(recording.put_online((&events, &marks), boot, &given[first]));
        let mut marks = marks.into_iter().peekable();
        let mut freed = Freed::new();
        for (index, event) in events.iter().enumerate() {
            while let Some((_, mark)) = marks.next_if(|&(at, _)| at <= index) {
                recording.mark(&order, mark, event.time_ns);
            }
            recording.push(event, late[index], accounts[index], &mut freed);
        }
        let end_ns = events.last().map_or(0, |event| event.time_ns);
        for (_, mark) in marks {
            recording.mark(&order, mark, end_ns);
        }
        let mut kept: Vec<Option<Snapshot>> = given.drain(..).map(Some).collect();
        recording.snapshots = order.iter().filter_map(|&snapshot| kept[snapshot].take()).collect();
        recording.correct();
        recording.check()?;
        Ok(recording)
    }

    /// Corrects what the order of events gets wrong, or leaves out.
    fn correct(&mut self) {
        let frames = self.layout.frames() as usize;
        kept::mark(&mut self.acts, self.version, self.lists_from, frames);
        self.note_online();
        if self.version >= joined::RUNS {
            let until = self.lists_from.unwrap_or(self.acts.len());
            joined::join(&mut self.acts, until, frames);
        }
        // A fallback drops probe reports that may lie before the mark.
        let count = self.acts.len();
        self.reclaim = self.reclaim.map(|act| act.min(count));
        let end = self.until_reclaim();
        self.reordered_hand_overs = at_once::order_hand_overs(&mut self.acts, end, frames);
        self.put_lost_back();
    }

    /// Takes note of memory that comes online.
    fn note_online(&mut self) {
        let from = self.initialized();
        opened::mark_opened(&mut self.acts[from..]);
        let ends = opened::note(&mut self.acts, from);
        let moved = |act: usize| act + ends.iter().filter(|&&end| end < act).count();
        self.reclaim = self.reclaim.map(moved);
        self.lists_from = self.lists_from.map(moved);
    }

    /// Puts a refill back that was not traced, before the first snapshot.
    fn put_lost_back(&mut self) {
        let end = self.first_snapshot();
        let adaptive = self.version >= ADAPTIVE_LISTS.since;
        self.put_back = lost::put_back(&mut self.acts, end, &self.layout, adaptive);
        self.reclaim = self.reclaim.map(|act| act + self.put_back as usize);
        self.lists_from = self.lists_from.map(|act| act + self.put_back as usize);
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
            let whole = |(_, fresh): &(usize, Option<Order>)| fresh.is_some_and(is_whole);
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
            Mark::Aside((cpu, thread), action) => {
                self.cpus = self.cpus.max(cpu + 1);
                self.names_limits |= action == Action::Resized(Resized::Boot);
                self.acts.push(Act { cpu, thread, ..Act::aside(action, time_ns) });
            }
            Mark::Reclaim => {
                self.reclaim.get_or_insert(self.acts.len());
            }
            Mark::Returned { cpu, thread, block, action } => {
                self.returned((cpu, thread), block, action, time_ns);
            }
            Mark::Snapshot(snapshot, edge) => {
                if let Some(place) = order.iter().position(|&given| given == snapshot) {
                    self.acts.push(Act::aside(Action::Snapshot(place, edge), time_ns));
                }
            }
            Mark::Probe { cpu, told, searched } => {
                if self.goes_offline(cpu, told, time_ns) {
                    return;
                }
                let (pfn, order, action) = match told {
                    ProbeReading::Isolated { pfn, order } => {
                        (pfn, order, Action::Isolated { searched })
                    }
                    ProbeReading::Scanned { .. }
                    | ProbeReading::Bulk { .. }
                    | ProbeReading::Bulked { .. }
                    | ProbeReading::Decay(_)
                    | ProbeReading::Resized(_)
                    | ProbeReading::Listed { .. }
                    | ProbeReading::PastLists { .. }
                    | ProbeReading::Offline { .. }
                    | ProbeReading::Closed { .. }
                    | ProbeReading::Removed { .. }
                    | ProbeReading::Stays => return,
                    ProbeReading::Retyped { pfn, migrate_type, moves: false } => {
                        (pfn, Order::BASE, Action::Retyped(migrate_type))
                    }
                    ProbeReading::Retyped { pfn, migrate_type, moves: true } => {
                        (pfn, Order::BASE, Action::Regrouped(migrate_type))
                    }
                    ProbeReading::Picked { pfn } => (pfn, Order::BASE, Action::Picked),
                };
                self.add((cpu, 0), (pfn, order), action, By::Compaction, time_ns);
            }
        }
    }

    /// A freed block reached its list, as a probe reports.
    fn returned(
        &mut self,
        place: (u16, i32),
        (pfn, order): (Pfn, Order),
        action: Action,
        time_ns: u64,
    ) {
        /// Acts back to which the same may have been said.
        const NEAR: usize = 16;
        let Some(frame) = self.block(pfn, order) else { return };
        let near = self.acts.len().saturating_sub(NEAR);
        let same = |act: &Act| (act.frame, act.order) == (frame, order);
        // Late initialization has an act of its own.
        if self.acts[near..].iter().any(|act| act.action == Action::HandOver && same(act)) {
            return;
        }
        // The event before the first report of the probe says the same.
        if self.acts.last().is_some_and(|act| act.action == Action::Listed && same(act)) {
            self.acts.pop();
        }
        if action == Action::Listed {
            self.lists_from.get_or_insert(self.acts.len());
        }
        self.add(place, (pfn, order), action, By::Program, time_ns);
    }

    fn push(&mut self, event: &Event, deferred: bool, by: By, freed: &mut Freed) {
        let (pfn, order, action) = match event.what {
            EventKind::Alloc { pfn, order, migrate_type, gfp, .. } => {
                (pfn, order, Action::Alloc(migrate_type, gfp))
            }
            EventKind::AllocFailed { order, migrate_type, gfp, .. } => {
                let action = Action::Refused(migrate_type, gfp);
                let act = Act {
                    cpu: event.cpu,
                    thread: event.pid,
                    order,
                    ..Act::aside(action, event.time_ns)
                };
                self.acts.push(act);
                return;
            }
            EventKind::Free { pfn, order } if deferred => (pfn, order, Action::HandOver),
            EventKind::Free { pfn, order } => {
                match order {
                    Order::BASE => freed.remove(&pfn),
                    larger => freed.insert(pfn, larger),
                };
                (pfn, order, Action::Free)
            }
            // The probe says so, and the size.
            EventKind::FreeBatched { .. } if self.lists_from.is_some() => return,
            EventKind::FreeBatched { pfn } => {
                (pfn, freed.remove(&pfn).unwrap_or(Order::BASE), Action::Listed)
            }
            EventKind::ZoneLocked { pfn, order, migrate_type } => {
                (pfn, order, Action::Locked(migrate_type))
            }
            EventKind::PcpuDrain { pfn, order, migrate_type } => {
                (pfn, order, Action::Drain(migrate_type))
            }
            EventKind::Extfrag {
                pfn,
                order,
                fallback_order: found,
                migrate_type: wanted,
                fallback_type: from,
                change_ownership,
            } => {
                let fallback = Action::Fallback { wanted, from, found, change_ownership };
                if self.version < CLAIMS {
                    (pfn, found, fallback)
                } else {
                    return self.fallback(event, (pfn, order), fallback, by);
                }
            }
            _ => return,
        };
        self.add((event.cpu, event.pid), (pfn, order), action, by, event.time_ns);
    }

    /// Converts a fallback of 6.10 or newer to the form of 6.1: the block found, then the block
    /// taken. On those kernels the event comes last; a block that itself leaves the lists of the
    /// other type has no event of its own, and a block from a pageblock that was claimed for a
    /// smaller one has an event before.
    fn fallback(&mut self, event: &Event, (pfn, order): (Pfn, Order), fallback: Action, by: By) {
        let Action::Fallback { wanted, found, change_ownership, .. } = fallback else { return };
        let (cpu, time_ns) = (event.cpu, event.time_ns);
        let place = (cpu, event.pid);
        // A block so large is always claimed: this one is of another type than the request that
        // captures it, and was on no list (`compaction_capture`).
        if !change_ownership && found >= Order::HUGE {
            return;
        }
        if change_ownership && found < Order::HUGE {
            let told = self.acts.iter().rposition(|act| act.cpu == cpu && !act.is_aside());
            let at = told.filter(|&at| {
                let taken = &self.acts[at];
                taken.action == Action::Locked(wanted)
                    && taken.frame != Frame::NONE
                    && self.layout.pfn(taken.frame) == pfn
            });
            self.add(place, (pfn, order), fallback, by, time_ns);
            if let Some(at) = at
                && let Some(act) = self.acts.pop()
            {
                self.acts.insert(at, act);
            }
            return;
        }
        self.drop_retyped(cpu, (pfn, found));
        self.add(place, (pfn, found), fallback, by, time_ns);
        self.add(place, (pfn, order), Action::Locked(wanted), by, time_ns);
    }

    /// Leaves out what a probe reports of the pageblocks that a fallback claims: the replay of the
    /// fallback retypes them itself.
    fn drop_retyped(&mut self, cpu: u16, (pfn, order): (Pfn, Order)) {
        let Some(start) = self.block(pfn, order) else { return };
        let claimed = |act: &Act| {
            act.cpu == cpu
                && matches!(act.action, Action::Retyped(_))
                && (start..start.offset(order.frames())).contains(&act.frame)
        };
        while self.acts.last().is_some_and(claimed) {
            self.acts.pop();
        }
    }

    /// Finds out which zone of the layout each reading is about: the kernel keeps the zones of a
    /// node in a row.
    fn find_zones(&mut self) {
        let mut known: Vec<u64> = self.readings.iter().map(|(_, lists)| lists.zone).collect();
        known.sort_unstable();
        known.dedup();
        if known.len() != self.layout.zones().len() {
            self.readings.clear();
        }
        let zones = self.layout.zones();
        let mut in_row: Vec<usize> = (0..zones.len()).collect();
        in_row.sort_by_key(|&zone| (zones[zone].span.node, zones[zone].span.kind));
        for (zone, lists) in &mut self.readings {
            *zone = in_row[known.binary_search(&lists.zone).unwrap_or(0)];
        }
    }

    pub(super) fn add(
        &mut self,
        (cpu, thread): (u16, i32),
        (pfn, order): (Pfn, Order),
        action: Action,
        by: By,
        time_ns: u64,
    ) {
        match self.block(pfn, order) {
            Some(frame) => {
                self.cpus = self.cpus.max(cpu + 1);
                self.acts.push(Act { cpu, frame, order, action, by, time_ns, thread });
            }
            None => self.outside += 1,
        }
    }

    pub(super) fn block(&self, pfn: Pfn, order: Order) -> Option<Frame> {
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
        if !has(|action| matches!(action, Action::Free | Action::HandOver)) {
            return Err(RecordingError::NoEvents("mm_page_free"));
        }
        self.check_sizes()
    }

    /// The acts up to which pure allocation goes.
    pub fn until_reclaim(&self) -> usize {
        self.reclaim.unwrap_or(self.acts.len())
    }
}

/// Whether late initialization hands memory over in blocks of an order: pageblocks, and larger blocks
/// in newer kernels.
fn is_whole(order: Order) -> bool {
    order >= Order::HUGE
}
