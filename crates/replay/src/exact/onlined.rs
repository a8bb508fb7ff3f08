//! Memory that comes online during a recording (`online_pages`).
//!
//! The kernel frees a memory block in the largest blocks, each with an event: the frames were not there
//! at the first snapshot, and nothing has named them before. They come to the tails of the free lists,
//! movable. Until all of them are free, the block is isolated; it is opened pageblock by pageblock in
//! the same order, so that the lists end as if each had been freed to its list at once.
//!
//! A zone may get its first memory so, or grow. Its limits, the reserves of the zones below it, and all
//! watermarks follow, as a probe reports ([`limits`](super::limits)).

use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};

use prairie_frames::layout::{LayoutError, Zone, ZoneSpan};
use prairie_frames::{Frame, Layout, Order, Pfn, ZoneKind};
use prairie_trace::{Event, EventKind};

use super::act::{Act, Action, Edge, Resized};
use super::marks::Mark;
use super::probes::ProbeReading;
use super::recording::{Recording, RecordingError};
use super::snapshot::{SECTION, Snapshot};
use super::threads::By;
use crate::initial_state::zone_spans;

/// What depends on a zone's size, besides its watermarks and the limits of its lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneSize {
    /// Frames that the allocator has.
    pub managed: u64,
    /// Frames kept from requests that could have used a higher zone.
    pub lowmem_reserve: [u64; ZoneKind::ALL.len()],
}

/// The layout of a machine with zones as large as they are in any of its snapshots, with the memory that
/// they have in the first.
///
/// # Errors
/// If two zones claim the same frame. Memory that changes zones is in another in each snapshot.
pub fn layout(snapshots: Vec<&Snapshot>) -> Result<Layout, RecordingError> {
    let mut spans: Vec<ZoneSpan> = Vec::new();
    let mut found = Err(LayoutError::Empty);
    for (place, snapshot) in snapshots.iter().enumerate() {
        for span in zone_spans(&snapshot.zones) {
            let span = if place == 0 { span } else { absent(span) };
            widen(&mut spans, span);
        }
        found = Layout::new(spans.clone());
        if let Err(source) = found {
            return Err(RecordingError::Layout { name: snapshot.name.clone(), source });
        }
    }
    let name = String::new();
    found.map_err(|source| RecordingError::Layout { name, source })
}

/// Takes a span of a zone over into those known.
fn widen(spans: &mut Vec<ZoneSpan>, other: ZoneSpan) {
    let same = |span: &&mut ZoneSpan| (span.node, span.kind) == (other.node, other.kind);
    match spans.iter_mut().find(same) {
        None => spans.push(other),
        Some(_) if other.spanned == 0 => {}
        Some(known) if known.spanned > 0 => {
            let end = |span: &ZoneSpan| span.start.0 + span.spanned;
            let end = end(known).max(end(&other));
            known.start = known.start.min(other.start);
            known.spanned = end - known.start.0;
        }
        Some(known) => (known.start, known.spanned) = (other.start, other.spanned),
    }
}

/// A zone without the memory that it has later.
fn absent(span: ZoneSpan) -> ZoneSpan {
    let (watermarks, lowmem_reserve) = Default::default();
    ZoneSpan { managed: 0, watermarks, lowmem_reserve, ..span }
}

/// The frames that leave with a mark, and the number of events before it.
fn removal((at, mark): &(usize, Mark)) -> Option<(usize, Range<u64>)> {
    let Mark::Probe { told: ProbeReading::Removed { pfn, frames }, .. } = *mark else {
        return None;
    };
    Some((*at, pfn.0..pfn.0.saturating_add(frames)))
}

/// Leaves out how the kernel opens pageblocks of memory that comes online. From 6.10 on it splits a free
/// block for the first pageblock, takes the second from the free lists as compaction does, and frees it
/// again, and then they merge (`unset_migratetype_isolate`). Compaction never takes isolated memory.
pub fn mark_opened(acts: &mut [Act]) {
    let mut isolated: HashSet<usize> = HashSet::new();
    for act in acts {
        match act.action {
            Action::HandOver => isolated.extend(pageblocks(act)),
            // The last step of putting memory online.
            Action::Resized(_) => isolated.clear(),
            Action::Isolated { .. } | Action::Retyped(_) | Action::Regrouped(_)
                if isolated.contains(&act.frame.pageblock()) =>
            {
                *act = Act { frame: Frame::NONE, action: Action::Opened, ..*act };
            }
            _ => {}
        }
    }
}

/// Adds acts that say when memory came online, where no probe reports that this set the watermarks, as
/// during boot. Returns the place of each in the old list.
pub fn note(acts: &mut Vec<Act>, from: usize) -> Vec<usize> {
    let ends: Vec<usize> = (from..acts.len()).filter(|&at| ends_online(acts, at)).collect();
    for &end in ends.iter().rev() {
        let action = Action::Resized(Resized::Online);
        acts.insert(end + 1, Act { frame: Frame::NONE, order: Order::BASE, action, ..acts[end] });
    }
    ends
}

/// Whether an act hands over the last of some memory sections, and no probe says that watermarks are set
/// next.
fn ends_online(acts: &[Act], at: usize) -> bool {
    let act = &acts[at];
    let ends = |act: &Act| act.frame.offset(act.order.frames()).index().is_multiple_of(SECTION);
    if act.action != Action::HandOver || !ends(act) {
        return false;
    }
    let mut later = acts[at + 1..].iter().filter(|later| later.action != Action::Opened);
    let next = later.next();
    let own = next.into_iter().chain(later).find(|later| later.thread == act.thread);
    next.is_none_or(|next| next.action != Action::HandOver)
        && own.is_none_or(|own| !matches!(own.action, Action::Resized(_)))
}

/// The pageblocks of an act's block.
pub fn pageblocks(act: &Act) -> RangeInclusive<usize> {
    act.frame.pageblock()..=act.frame.offset(act.order.frames() - 1).pageblock()
}

impl Recording {
    /// Which events from `boot` on put memory online: frees of blocks that the first snapshot does not
    /// have, and that nothing has named before.
    pub(super) fn put_online(
        &self,
        (events, marks): (&[Event], &[(usize, Mark)]),
        boot: usize,
        first: &Snapshot,
    ) -> Vec<bool> {
        let mut named = vec![false; self.layout.frames() as usize];
        let mut removed = marks.iter().filter_map(removal).peekable();
        let mut gone: Vec<Range<u64>> = Vec::new();
        let put = |(index, event): (usize, &Event)| {
            while let Some((_, pfns)) = removed.next_if(|&(at, _)| at <= index) {
                for frame in pfns.clone().filter_map(|pfn| self.layout.frame(Pfn(pfn))) {
                    named[frame.index()] = false;
                }
                gone.push(pfns);
            }
            let (pfn, order) = match event.what {
                EventKind::Alloc { pfn, order, .. }
                | EventKind::Free { pfn, order }
                | EventKind::ZoneLocked { pfn, order, .. } => (pfn, order),
                _ => return false,
            };
            let Some(frame) = self.block(pfn, order) else { return false };
            let block = frame.index()..frame.index() + order.frames() as usize;
            let is_free = matches!(event.what, EventKind::Free { .. });
            let fresh = is_free && !named[block.clone()].contains(&true);
            named[block].fill(true);
            let gone = gone.iter().any(|pfns| pfns.contains(&pfn.0));
            fresh && (gone || !first.has_memory(pfn))
        };
        let put: Vec<bool> = events.iter().enumerate().map(put).collect();
        put[boot..].to_vec()
    }

    /// Checks that the trace accounts for the size of each zone at each snapshot.
    pub(super) fn check_sizes(&self) -> Result<(), RecordingError> {
        let mut isolated = false;
        for (at, act) in self.acts.iter().enumerate() {
            match act.action {
                Action::Isolates => isolated = true,
                Action::Removed => isolated = false,
                Action::Resized(Resized::Enabled) if isolated => return Err(RecordingError::Stays),
                Action::Snapshot(place, Edge::End) => self.check_sizes_at(at, place)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn check_sizes_at(&self, at: usize, place: usize) -> Result<(), RecordingError> {
        let snapshot = &self.snapshots[place];
        let spans = zone_spans(&snapshot.zones);
        for (zone, expected) in self.layout.zones().iter().zip(self.managed(at)) {
            let ZoneSpan { node, kind: zone, .. } = zone.span;
            let now = spans.iter().find(|span| (span.node, span.kind) == (node, zone));
            let frames = now.map_or(0, |span| span.managed);
            // Some frames of boot are given to the allocator late. Memory comes and goes in sections.
            if frames.abs_diff(expected) >= SECTION as u64 / 2 {
                let name = snapshot.name.clone();
                return Err(RecordingError::Size { name, zone, frames, expected });
            }
        }
        Ok(())
    }

    /// The act with which the first snapshot begins.
    pub(super) fn first_snapshot(&self) -> usize {
        let begins = |act: &Act| act.action == Action::Snapshot(0, Edge::Begin);
        self.acts.iter().position(begins).unwrap_or(self.acts.len())
    }

    /// The act from which on memory that is handed over comes online: late initialization ends before
    /// the watermarks are set (`page_alloc_init_late`), and in any case before the first snapshot.
    pub(super) fn initialized(&self) -> usize {
        let sets = |act: &Act| act.action == Action::Resized(Resized::Boot);
        let first = self.first_snapshot();
        self.acts[..first].iter().position(sets).unwrap_or(first)
    }

    /// Adds what a probe reports of memory that goes offline; false if it reports something else.
    pub(super) fn goes_offline(&mut self, cpu: u16, told: ProbeReading, time_ns: u64) -> bool {
        let (pfn, frames, action) = match told {
            ProbeReading::Closed { pfn, frames } => (pfn, frames, Action::Isolates),
            ProbeReading::Removed { pfn, frames } => (pfn, frames, Action::Removed),
            ProbeReading::Offline { pfn, .. } => {
                let zone = self.block(pfn, Order::BASE).and_then(|at| self.layout.zone_of(at));
                let action = zone.map(|zone| Action::Resized(Resized::Disabled(zone)));
                let act = action.map(|action| Act { cpu, ..Act::aside(action, time_ns) });
                self.acts.extend(act);
                return true;
            }
            ProbeReading::Stays { .. } => {
                let action = Action::Resized(Resized::Enabled);
                self.acts.push(Act { cpu, ..Act::aside(action, time_ns) });
                return true;
            }
            _ => return false,
        };
        let pageblock = Order::HUGE.frames() as usize;
        for pfn in (pfn.0..pfn.0.saturating_add(frames)).step_by(pageblock) {
            self.add((cpu, 0), (Pfn(pfn), Order::HUGE), action, By::Program, time_ns);
        }
        true
    }

    /// Whether memory comes online or goes offline.
    pub(super) fn grows(&self) -> bool {
        let later = &self.acts[self.initialized()..];
        later.iter().any(|act| matches!(act.action, Action::HandOver | Action::Removed))
    }

    /// Frames that the allocator has in each zone at an act, from what it has at the first snapshot.
    pub(super) fn managed(&self, at: usize) -> Vec<u64> {
        let zones = self.layout.zones();
        let mut managed: Vec<u64> = zones.iter().map(|zone| zone.span.managed).collect();
        let first = self.first_snapshot();
        for act in &self.acts[first.min(at)..first.max(at)] {
            let grows = act.action == Action::HandOver;
            if (grows || act.action == Action::Removed)
                && let Some(zone) = self.layout.zone_of(act.frame)
            {
                let (frames, size) = (act.order.frames(), managed[zone]);
                managed[zone] =
                    if (at < first) == grows { size.saturating_sub(frames) } else { size + frames };
            }
        }
        managed
    }
}

/// The kernel's `vm.lowmem_reserve_ratio` of ZONE_DMA, ZONE_DMA32, and ZONE_NORMAL.
const RATIOS: [u64; 3] = [256, 256, 32];

/// Frames that each zone of this `managed` size keeps from requests that could have used a higher zone
/// (`setup_per_zone_lowmem_reserve`).
pub fn reserves(layout: &Layout, managed: &[u64]) -> Vec<[u64; ZoneKind::ALL.len()]> {
    let zones = || layout.zones().iter().zip(managed);
    let of = |(zone, &size): (&Zone, &u64)| {
        let span = &zone.span;
        ZoneKind::ALL.map(|highest| {
            let above = zones().filter(|(other, _)| {
                let kind = other.span.kind;
                other.span.node == span.node && span.kind < kind && kind <= highest
            });
            let frames: u64 = above.map(|(_, size)| size).sum();
            let ratio = RATIOS.get(span.kind as usize).filter(|_| size > 0);
            ratio.map_or(0, |ratio| frames / ratio)
        })
    };
    zones().map(of).collect()
}

#[cfg(test)]
mod tests {
    use prairie_frames::layout::Watermarks;
    use prairie_frames::{KernelVersion, MigrateType, Pfn};

    use super::*;

    const BLOCK: u32 = SECTION as u32;

    fn zone(kind: ZoneKind, start: u32, frames: u32, managed: u32) -> ZoneSpan {
        ZoneSpan {
            node: 0,
            kind,
            start: Pfn(start.into()),
            spanned: frames.into(),
            managed: managed.into(),
            watermarks: Watermarks::default(),
            lowmem_reserve: Default::default(),
        }
    }

    /// A machine with a section of DMA32 memory and two of Normal, which has `managed` frames.
    fn recording(acts: Vec<Act>, managed: u32) -> Recording {
        let zones = vec![
            zone(ZoneKind::Dma32, 0, BLOCK, BLOCK),
            zone(ZoneKind::Normal, BLOCK, 2 * BLOCK, managed),
        ];
        let layout = Layout::new(zones).unwrap();
        Recording { acts, ..Recording::empty(layout, KernelVersion::V6_1) }
    }

    fn act(action: Action, frame: u32, order: Order) -> Act {
        Act { frame: Frame(frame), order, thread: 1, ..Act::aside(action, 0) }
    }

    /// A section comes online.
    fn online(section: u32) -> Vec<Act> {
        let frames = (section * BLOCK..(section + 1) * BLOCK).step_by(1024);
        frames.map(|frame| act(Action::HandOver, frame, Order::LARGEST_FREE)).collect()
    }

    fn aside(action: Action) -> Act {
        Act { thread: 1, ..Act::aside(action, 0) }
    }

    const BEGIN: Action = Action::Snapshot(0, Edge::Begin);
    const WRITTEN: Action =
        Action::Resized(Resized::Watermarks { min_free_kib: 4096, scale_factor: 10 });

    fn snapshot(zones: &[(&str, u32, u32)]) -> Snapshot {
        let text: String = zones
            .iter()
            .map(|(name, start, frames)| {
                format!(
                    "Node 0, zone {name}\n  pages free 1\n        min 1\n        low 2\n        \
                     high 3\n        spanned {frames}\n        present {frames}\n        managed \
                     {frames}\n        protection: (0, 0, 0)\n  start_pfn: {start}\n"
                )
            })
            .collect();
        Snapshot::new("any", ["Page block order: 9\nPages per block:  512\n", &text], None).unwrap()
    }

    #[test]
    fn zones_are_as_large_as_in_any_snapshot_and_have_the_memory_of_the_first() {
        let first =
            snapshot(&[("DMA32", 0, BLOCK), ("Normal", 4 * BLOCK, BLOCK), ("Movable", 0, 0)]);
        let second = snapshot(&[
            ("DMA32", 0, BLOCK),
            ("Normal", 3 * BLOCK, 3 * BLOCK),
            ("Movable", 7 * BLOCK, BLOCK),
        ]);
        let third =
            snapshot(&[("DMA32", 0, BLOCK), ("Normal", 4 * BLOCK, BLOCK), ("Movable", 0, 0)]);
        let layout = layout(vec![&first, &second, &third]).unwrap();
        let spans = layout.zones().iter().map(|zone| &zone.span);
        let found: Vec<_> =
            spans.map(|span| (span.kind, span.start.0, span.spanned, span.managed)).collect();
        let block = u64::from(BLOCK);
        let of = [
            (ZoneKind::Dma32, 0, block, block),
            (ZoneKind::Normal, 3 * block, 3 * block, block),
            (ZoneKind::Movable, 7 * block, block, 0),
        ];
        assert_eq!(found, of);
    }

    #[test]
    fn memory_that_changes_zones_is_refused_by_name() {
        let mut second = snapshot(&[("DMA32", 0, BLOCK), ("Movable", BLOCK - 1024, 1024)]);
        second.name = "moved".into();
        let error = layout(vec![&snapshot(&[("DMA32", 0, BLOCK)]), &second]).unwrap_err();
        let text = "the zones of the snapshot moved: two zones claim the frame 0x7c00";
        assert_eq!(error.to_string(), text);
    }

    /// A section goes offline.
    fn offline(section: u32, action: Action) -> Vec<Act> {
        let frames = (section * BLOCK..(section + 1) * BLOCK).step_by(512);
        frames.map(|frame| act(action, frame, Order::HUGE)).collect()
    }

    #[test]
    fn memory_that_leaves_without_a_report_is_refused() {
        let checked = |acts: Vec<Act>| {
            let later = [acts, vec![aside(Action::Snapshot(1, Edge::End))]].concat();
            let acts = [vec![aside(BEGIN)], online(1), later].concat();
            let snapshots = vec![
                snapshot(&[("DMA32", 0, BLOCK)]),
                snapshot(&[("DMA32", 0, BLOCK), ("Normal", 0, 0)]),
            ];
            Recording { snapshots, ..recording(acts, 0) }.check_sizes()
        };
        let unreported = checked(Vec::new()).unwrap_err().to_string();
        let text = "the snapshot any: Normal has 0 frames where the trace accounts for 32768; which \
                    memory went offline or came online is not recorded";
        assert_eq!(unreported, text);
        assert!(checked(offline(1, Action::Removed)).is_ok());
        let stays = vec![aside(Action::Resized(Resized::Enabled))];
        let removed = offline(1, Action::Removed);
        let isolated = offline(1, Action::Isolates);
        let vain = checked([isolated, stays.clone(), removed.clone()].concat());
        assert!(matches!(vain, Err(RecordingError::Stays)));
        assert!(checked([stays, removed].concat()).is_ok(), "refused before it was isolated");
    }

    #[test]
    fn a_free_of_memory_that_was_not_there_puts_it_online() {
        let mut first = snapshot(&[("DMA32", 0, BLOCK)]);
        first.flags = Some(vec![1; SECTION]);
        let event = |what| Event { time_ns: 0, pid: 1, cpu: 0, what };
        let free = |pfn: u32, order| event(EventKind::Free { pfn: Pfn(pfn.into()), order });
        let block = |frame| free(frame, Order::LARGEST_FREE);
        let (pfn, migrate_type) = (Pfn(u64::from(2 * BLOCK) + 5), MigrateType::Movable);
        let taken = event(EventKind::ZoneLocked { pfn, order: Order::BASE, migrate_type });
        let events = [
            block(0),
            block(1024),
            block(BLOCK),
            block(2 * BLOCK),
            taken,
            free(2 * BLOCK + 5, Order::BASE),
        ];
        let put = recording(Vec::new(), 0).put_online((&events, &[]), 1, &first);
        assert_eq!(put, [false, true, true, false, false]);
        // Memory that is there comes back, and nothing else.
        let told = ProbeReading::Removed { pfn: Pfn(0), frames: 1024 };
        let marks = [(2, Mark::Probe { cpu: 0, told, searched: true })];
        let events = [block(0), block(1024), block(0), block(1024), block(0)];
        let put = recording(Vec::new(), 0).put_online((&events, &marks), 0, &first);
        assert_eq!(put, [false, false, true, false, false]);
    }

    #[test]
    fn what_opens_a_pageblock_that_comes_online_takes_nothing() {
        let second = Frame(BLOCK + 512);
        let take = act(Action::Isolated { searched: false }, second.0, Order::HUGE);
        let retyped = act(Action::Retyped(MigrateType::Movable), second.0, Order::BASE);
        let mut acts = online(1);
        acts.extend([take, retyped, act(Action::Isolated { searched: false }, 0, Order::HUGE)]);
        acts.extend([aside(WRITTEN), take]);
        mark_opened(&mut acts);
        let opened: Vec<_> = acts.iter().map(|act| act.action == Action::Opened).collect();
        assert_eq!(opened[32..], [true, true, false, false, false], "compaction takes it later");
        assert!(acts[32..34].iter().all(|act| act.frame == Frame::NONE));
    }

    #[test]
    fn the_last_block_of_a_section_sets_watermarks_unless_a_probe_reports_it() {
        let alloc = act(Action::Free, 7, Order::BASE);
        let ends = |later: &[Act]| {
            let mut acts = [online(1), later.to_vec()].concat();
            let ends = note(&mut acts, 0);
            let online = Action::Resized(Resized::Online);
            assert!(ends.iter().enumerate().all(|(n, end)| acts[end + 1 + n].action == online));
            ends
        };
        assert_eq!(ends(&[]), [31]);
        assert_eq!(ends(&[alloc]), [31]);
        assert_eq!(ends(&online(2)), [63], "of several in a row, nothing shows the first");
        assert_eq!(ends(&[alloc, online(2).remove(0)]), [31]);
        assert_eq!(ends(&[aside(Action::Opened), aside(WRITTEN), alloc]), [0; 0]);
        let other = Act { thread: 2, ..alloc };
        assert_eq!(ends(&[other, aside(WRITTEN)]), [0; 0], "an interrupt, or another CPU");
        let mut part = online(1);
        part.truncate(30);
        assert_eq!(note(&mut part, 0), [0; 0]);
    }

    #[test]
    fn the_first_snapshot_has_what_came_online_before() {
        let late = act(Action::HandOver, 0, Order::LARGEST_FREE);
        let acts = [
            vec![late, aside(Action::Resized(Resized::Boot))],
            online(1),
            vec![aside(BEGIN)],
            online(2),
        ]
        .concat();
        let recording = recording(acts, BLOCK);
        assert_eq!((recording.initialized(), recording.grows()), (1, true));
        let normal = |at: usize| recording.managed(at)[1] / u64::from(BLOCK);
        assert_eq!([2, 34, 35, 67].map(normal), [0, 1, 1, 2]);
        assert_eq!(recording.managed(0)[0], u64::from(BLOCK) - 1024, "late initialization");
    }

    #[test]
    fn a_zone_is_smaller_without_what_went_offline() {
        let acts = [vec![aside(BEGIN)], offline(1, Action::Isolates), offline(1, Action::Removed)]
            .concat();
        let recording = recording(acts, 2 * BLOCK);
        assert!(recording.grows());
        let normal = |at: usize| recording.managed(at)[1];
        assert_eq!([65, 129].map(normal), [2 * u64::from(BLOCK), u64::from(BLOCK)]);
    }

    #[test]
    fn zones_keep_a_part_of_those_above() {
        let layout = recording(Vec::new(), 0).layout;
        let kept = |managed: [u64; 2]| reserves(&layout, &managed);
        assert_eq!(kept([32_768, 0]), [[0; 6]; 2]);
        let found = kept([32_768, 65_536]);
        assert_eq!(found[0][ZoneKind::Dma32 as usize], 0);
        assert_eq!(found[0][ZoneKind::Normal as usize], 256);
        assert_eq!(found[0][ZoneKind::Movable as usize], 256);
        assert_eq!(found[1], [0; 6]);
    }
}
