//! Memory that comes online during a recording (`online_pages`).
//!
//! The kernel frees a memory block in the largest blocks, each with an event: the frames were not there
//! at the first snapshot, and nothing has named them before. They come to the tails of the free lists,
//! movable. Until all of them are free, the block is isolated; it is opened pageblock by pageblock in
//! the same order, so that the lists end as if each had been freed to its list at once.
//!
//! A zone may get its first memory so, or grow. Its limits, the reserves of the zones below it, and all
//! watermarks follow, as a probe reports ([`limits`](super::limits)).

use std::ops::Range;

use prairie_frames::layout::{Zone, ZoneSpan};
use prairie_frames::{Layout, Order, Pfn, ZoneKind};
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

/// The frames that leave with a mark, and the number of events before it.
fn removal((at, mark): &(usize, Mark)) -> Option<(usize, Range<u64>)> {
    let Mark::Probe { told: ProbeReading::Removed { pfn, frames }, .. } = *mark else {
        return None;
    };
    Some((*at, pfn.0..pfn.0.saturating_add(frames)))
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
            ProbeReading::Offline { pfn } => {
                let zone = self.block(pfn, Order::BASE).and_then(|at| self.layout.zone_of(at));
                let action = zone.map(|zone| Action::Resized(Resized::Disabled(zone)));
                let act = action.map(|action| Act { cpu, ..Act::aside(action, time_ns) });
                self.acts.extend(act);
                return true;
            }
            ProbeReading::Stays => {
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

    use super::super::opened::tests::{act, aside, online};
    use super::super::zones::tests::snapshot;
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

    const BEGIN: Action = Action::Snapshot(0, Edge::Begin);
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
