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
use std::ops::RangeInclusive;

use prairie_frames::layout::{Zone, ZoneSpan};
use prairie_frames::{Frame, Layout, Order, ZoneKind};

use super::act::{Act, Action, Edge, Resized};
use super::recording::Recording;
use super::snapshot::{SECTION, Snapshot};
use crate::initial_state::zone_spans;

/// What depends on a zone's size, besides its watermarks and the limits of its lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneSize {
    /// Frames that the allocator has.
    pub managed: u64,
    /// Frames kept from requests that could have used a higher zone.
    pub lowmem_reserve: [u64; ZoneKind::ALL.len()],
}

/// The zones of a machine, as large as they are in any of its snapshots, with the memory that they have
/// in the first.
pub fn spans<'a>(mut snapshots: impl Iterator<Item = &'a Snapshot>) -> Vec<ZoneSpan> {
    let mut spans = snapshots.next().map_or(Vec::new(), |first| zone_spans(&first.zones));
    for later in snapshots.flat_map(|snapshot| zone_spans(&snapshot.zones)) {
        if later.spanned == 0 {
            continue;
        }
        let same = |span: &&mut ZoneSpan| (span.node, span.kind) == (later.node, later.kind);
        match spans.iter_mut().find(same) {
            Some(known) if known.spanned > 0 => {
                let end = |span: &ZoneSpan| span.start.0 + span.spanned;
                let end = end(known).max(end(&later));
                known.start = known.start.min(later.start);
                known.spanned = end - known.start.0;
            }
            Some(known) => (known.start, known.spanned) = (later.start, later.spanned),
            None => spans.push(absent(later)),
        }
    }
    spans
}

/// A zone before it has memory.
fn absent(span: ZoneSpan) -> ZoneSpan {
    let (watermarks, lowmem_reserve) = Default::default();
    ZoneSpan { managed: 0, watermarks, lowmem_reserve, ..span }
}

/// Leaves out how the kernel opens pageblocks of memory that comes online. From 6.10 on it splits a free
/// block for the first pageblock, takes the second from the free lists as compaction does, and frees it
/// again, whereupon they merge (`unset_migratetype_isolate`). Compaction never takes isolated memory.
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

    /// Whether memory comes online.
    pub(super) fn grows(&self) -> bool {
        let later = &self.acts[self.initialized()..];
        later.iter().any(|act| act.action == Action::HandOver)
    }

    /// Frames that the allocator has in each zone at an act, from what it has at the first snapshot.
    pub(super) fn managed(&self, at: usize) -> Vec<u64> {
        let zones = self.layout.zones();
        let mut managed: Vec<u64> = zones.iter().map(|zone| zone.span.managed).collect();
        let first = self.first_snapshot();
        for act in &self.acts[first.min(at)..first.max(at)] {
            if act.action == Action::HandOver
                && let Some(zone) = self.layout.zone_of(act.frame)
            {
                let (frames, size) = (act.order.frames(), managed[zone]);
                managed[zone] =
                    if at < first { size.saturating_sub(frames) } else { size + frames };
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
