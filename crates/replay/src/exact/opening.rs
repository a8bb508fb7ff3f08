//! The free lists at the first event, inferred from what follows.

use prairie_frames::layout::Zone;
use prairie_frames::placement::linux::version::{DEFERRED_MOVABLE, LISTS_BY_TYPE};
use prairie_frames::{Frame, Layout, MigrateType, Order};

use super::act::{Act, Action, Edge};
use super::differences::{Difference, DifferenceKind};
use super::opened;
use super::recording::Recording;

/// Memory as it was when the trace began.
#[derive(Clone, Debug)]
pub struct Opening {
    /// Free blocks in the order in which boot freed them: ascending, to the tails of their lists.
    pub free: Vec<(Frame, Order, MigrateType)>,
    /// Places in `free` of the blocks whose type no event shows.
    pub unshown: Vec<usize>,
    /// The type of each pageblock, by its number.
    pub pageblocks: Vec<MigrateType>,
    /// Pageblocks in holes of a zone: they have no type.
    pub holes: Vec<usize>,
    /// Pageblocks without a frame on the free lists at any time: only the counts of a snapshot show
    /// their type.
    pub silent_pageblocks: Vec<usize>,
    /// The number of these that got another type from the first snapshot's counts.
    pub settled: u64,
}

/// The state of a frame by the first event that names it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    Unnamed,
    /// It was on the free lists, of this type.
    Free(MigrateType),
    /// It was in use, or not there yet.
    Used,
}

impl Opening {
    /// Infers the frames that were free.
    ///
    /// A frame whose first event takes it off the free lists was free. A frame with another first
    /// event was in use. A frame without an event before the first snapshot was in the state of the
    /// snapshot. No merge was pending, so free frames form the largest aligned blocks that they
    /// can. A block's list is that of the first event on it; parts without an event follow their
    /// pageblock.
    pub fn of(recording: &Recording) -> Opening {
        let layout = &recording.layout;
        let frames = layout.frames() as usize;
        let mut first = vec![First::Unnamed; frames];
        let mut named = vec![false; frames];
        let mut early = true;
        for act in &recording.acts {
            if matches!(act.action, Action::Snapshot(0, Edge::Begin)) {
                early = false;
            }
            let start = act.frame;
            if start == Frame::NONE {
                continue;
            }
            for frame in start.index()..start.index() + act.order.frames() as usize {
                named[frame] |=
                    !matches!(act.action, Action::Alloc(..) | Action::Free | Action::Listed)
                        && !matches!(act.action, Action::PastLists { .. });
                if early && first[frame] == First::Unnamed {
                    first[frame] = match act.action {
                        Action::Locked(migrate_type) => First::Free(migrate_type),
                        Action::Fallback { from, .. } => First::Free(from),
                        Action::Isolated { .. } | Action::Picked | Action::Removed => {
                            First::Free(MigrateType::Movable)
                        }
                        Action::Retyped(_) | Action::Regrouped(_) | Action::Isolates => {
                            First::Unnamed
                        }
                        _ => First::Used,
                    };
                }
            }
        }
        let later = later_types(recording);
        let snapshot = &recording.snapshots[0];
        let was_free = |frame: u32| match first[frame as usize] {
            First::Free(_) => true,
            First::Used => false,
            First::Unnamed => snapshot.is_free(layout.pfn(Frame(frame))),
        };
        let (mut pageblocks, shown) = pageblock_types(recording);
        let mut free = Vec::new();
        let mut unshown = Vec::new();
        for zone in layout.zones() {
            let mut at = zone.start.0;
            while at < zone.end.0 {
                let Some(order) = largest_free(at, zone.end.0, &was_free) else {
                    at += 1;
                    continue;
                };
                let frame = Frame(at);
                let shown = shown_type(frame, order, &first, &later);
                if shown.is_none() {
                    unshown.push(free.len());
                }
                let otherwise = match order >= Order::HUGE {
                    true => MigrateType::Movable,
                    false => pageblocks[frame.pageblock()],
                };
                free.push((frame, order, shown.unwrap_or(otherwise)));
                at += order.frames() as u32;
            }
        }
        let silent = |block: &usize| {
            let range = block << Order::HUGE.get()..(block + 1) << Order::HUGE.get();
            !shown[*block] && range.clone().all(|frame| !named[frame] && !was_free(frame as u32))
        };
        // What lies on a foreign list is left of a pageblock that was claimed before.
        for &(frame, order, migrate_type) in &free {
            let last = Frame(frame.0 + order.frames() as u32 - 1).pageblock();
            for block in (frame.pageblock()..=last).filter(|&block| !shown[block]) {
                pageblocks[block] = migrate_type;
            }
        }
        let within = |zone: &Zone| zone.start.pageblock()..=Frame(zone.end.0 - 1).pageblock();
        let hole = |block: &usize| {
            let range = block << Order::HUGE.get()..(block + 1) << Order::HUGE.get();
            let present = |frame: usize| snapshot.is_present(layout.pfn(Frame(frame as u32)));
            !snapshot.has_memory(layout.pfn(Frame(range.start as u32)))
                || !range.clone().any(present)
        };
        let (mut holes, silent): (Vec<usize>, Vec<usize>) =
            layout.zones().iter().flat_map(within).filter(silent).partition(hole);
        holes.extend(onlined_pageblocks(recording));
        Opening { free, unshown, pageblocks, holes, silent_pageblocks: silent, settled: 0 }
    }

    /// Moves free blocks whose type no event shows to the lists on which the first snapshot counts
    /// more of them, where `differences` is what a replay differs by. Of several that fit, what is
    /// left of a claimed block is next to the pageblock claimed with it. Returns whether any moved.
    pub fn move_unshown(&mut self, layout: &Layout, differences: &[Difference]) -> bool {
        let mut moved = false;
        for (missing, surplus) in misplaced(differences) {
            let fits = |place: &&usize| {
                let (frame, order, migrate_type) = self.free[**place];
                layout.zone_of(frame) == Some(missing.zone)
                    && (order, migrate_type) == (missing.order, surplus)
            };
            let beside = |&&place: &&usize| {
                let (frame, order, _) = self.free[place];
                let buddy = Frame(frame.0 ^ order.frames() as u32).pageblock();
                self.pageblocks.get(buddy) != Some(&missing.migrate_type)
            };
            let Some(&place) = self.unshown.iter().filter(fits).min_by_key(beside) else {
                continue;
            };
            self.unshown.retain(|&other| other != place);
            let (frame, order, migrate_type) = &mut self.free[place];
            *migrate_type = missing.migrate_type;
            let last = Frame(frame.0 + order.frames() as u32 - 1).pageblock();
            self.pageblocks[frame.pageblock()..=last].fill(missing.migrate_type);
            moved = true;
        }
        moved
    }

    /// Gives silent pageblocks another type, whose frames cannot have been on the list of the one they
    /// have.
    pub fn retype(&mut self, blocks: &[usize]) {
        let wrong = |block: &usize| blocks.contains(block);
        for block in self.silent_pageblocks.extract_if(.., |block| wrong(block)) {
            self.pageblocks[block] = match self.pageblocks[block] {
                MigrateType::Movable => MigrateType::Unmovable,
                _ => MigrateType::Movable,
            };
        }
    }

    /// Gives silent pageblocks the types that are missing in the counts of the first snapshot,
    /// where `differences` is what a replay differs by. Nothing else depends on these types.
    pub fn settle(&mut self, layout: &Layout, differences: &[Difference]) {
        for difference in differences {
            let DifferenceKind::Pageblocks { migrate_type } = difference.what else { continue };
            let zone = &layout.zones()[difference.zone];
            let Some(migrate_type) = MigrateType::from_index(migrate_type) else { continue };
            let missing = difference.kernel.saturating_sub(difference.replay);
            for _ in 0..missing {
                let fits = |&block: &usize| {
                    let frame = first_frame(block, zone);
                    zone.contains(frame) && frame.pageblock() == block
                };
                let Some(at) = self.silent_pageblocks.iter().position(fits) else { break };
                self.pageblocks[self.silent_pageblocks.remove(at)] = migrate_type;
                self.settled += 1;
            }
        }
    }
}

/// Pageblocks that come online during the recording.
fn onlined_pageblocks(recording: &Recording) -> impl Iterator<Item = usize> + use<'_> {
    let later = recording.acts[recording.initialized()..].iter();
    let first = &recording.snapshots[0];
    // What goes offline and comes back may have been there.
    let comes = |act: &&Act| {
        act.action == Action::HandOver && !first.has_memory(recording.layout.pfn(act.frame))
    };
    later.filter(comes).flat_map(opened::pageblocks)
}

/// The first frame of a pageblock that lies in a zone, or after its start.
fn first_frame(block: usize, zone: &Zone) -> Frame {
    Frame((block << Order::HUGE.get()) as u32).max(zone.start)
}

/// What the first event on each frame shows, however late it is, where the frame leaves the free
/// lists with it and a free block's type is its pageblock's (6.10).
fn later_types(recording: &Recording) -> Vec<First> {
    let mut first = vec![First::Unnamed; recording.layout.frames() as usize];
    if recording.version < LISTS_BY_TYPE.since {
        return first;
    }
    for act in recording.acts.iter().filter(|act| act.frame != Frame::NONE) {
        let shown = match act.action {
            Action::Locked(migrate_type) => First::Free(migrate_type),
            Action::Fallback { from, .. } => First::Free(from),
            _ => First::Used,
        };
        let block = act.frame.index()..act.frame.index() + act.order.frames() as usize;
        for known in first[block].iter_mut().filter(|known| **known == First::Unnamed) {
            *known = shown;
        }
    }
    first
}

/// The largest aligned block that starts at `at`, ends by `end` and is free throughout.
fn largest_free(at: u32, end: u32, is_free: &impl Fn(u32) -> bool) -> Option<Order> {
    if !is_free(at) {
        return None;
    }
    let mut order = 0;
    while order < Order::LARGEST_FREE.get() {
        let size = 1u32 << order;
        let aligned = at.is_multiple_of(size << 1) && at + (size << 1) <= end;
        if !aligned || !(at + size..at + (size << 1)).all(is_free) {
            break;
        }
        order += 1;
    }
    Order::new(order)
}

/// A free block that is on no list where the kernel has one.
struct Missing {
    zone: usize,
    order: Order,
    migrate_type: MigrateType,
}

/// Free blocks that the kernel has on one list and a replay, as many of the order, on another: where
/// it misses them, and the type of the list where it has too many.
fn misplaced(differences: &[Difference]) -> Vec<(Missing, MigrateType)> {
    // By how many blocks the kernel has more, or fewer.
    let lists: Vec<(usize, u8, u8, i64)> = differences
        .iter()
        .filter_map(|at| match at.what {
            DifferenceKind::FreeBlocks { order, migrate_type } => {
                Some((at.zone, order, migrate_type, at.kernel as i64 - at.replay as i64))
            }
            _ => None,
        })
        .collect();
    let mut found = Vec::new();
    for &(zone, order, wanted, more) in lists.iter().filter(|list| list.3 > 0) {
        let others = lists.iter().filter(|other| (other.0, other.1) == (zone, order));
        for &(_, _, has, fewer) in others.filter(|other| other.3 < 0) {
            for _ in 0..more.min(-fewer) {
                let types = (MigrateType::from_index(wanted), MigrateType::from_index(has));
                let (Some(migrate_type), Some(has), Some(order)) =
                    (types.0, types.1, Order::new(order))
                else {
                    continue;
                };
                found.push((Missing { zone, order, migrate_type }, has));
            }
        }
    }
    found
}

/// The list that a free block was on, if an event shows it: one on it or, of less than a pageblock, on
/// its pageblock. Untouched pageblocks are movable, where nothing says otherwise.
fn shown_type(frame: Frame, order: Order, first: &[First], later: &[First]) -> Option<MigrateType> {
    let shown = |firsts: &[First], frames: std::ops::Range<usize>| {
        firsts[frames].iter().find_map(|first| match first {
            First::Free(migrate_type) => Some(*migrate_type),
            _ => None,
        })
    };
    let own = frame.index()..frame.index() + order.frames() as usize;
    if let Some(migrate_type) = shown(first, own.clone()) {
        return Some(migrate_type);
    }
    if order >= Order::HUGE {
        return shown(later, own);
    }
    let start = frame.align_down(Order::HUGE).index();
    shown(first, start..start + Order::HUGE.frames() as usize)
}

/// The type of every pageblock at the first event: movable where memory was initialized by then,
/// unmovable where that was deferred, and what shows before anything can have changed it: the
/// list a freed frame goes back to, or the request that is served with a freed frame. Also, for
/// which blocks it shows.
fn pageblock_types(recording: &Recording) -> (Vec<MigrateType>, Vec<bool>) {
    let layout = &recording.layout;
    let mut types = vec![MigrateType::Movable; layout.frames() as usize >> Order::HUGE.get()];
    if recording.version < DEFERRED_MOVABLE.since {
        mark_deferred(layout, &recording.acts[..recording.initialized()], &mut types);
    }
    let mut known = vec![false; types.len()];
    let mut shown = vec![false; types.len()];
    let mut freed = vec![false; layout.frames() as usize];
    for act in &recording.acts {
        if act.frame == Frame::NONE {
            continue;
        }
        let block = act.frame.pageblock();
        let shows = match act.action {
            Action::Drain(migrate_type) => Some(migrate_type),
            Action::Alloc(migrate_type, _) if freed[act.frame.index()] => Some(migrate_type),
            _ => None,
        };
        freed[act.frame.index()] =
            matches!(act.action, Action::Free | Action::Listed) && act.order == Order::BASE;
        if let Some(migrate_type) = shows
            && !known[block]
        {
            types[block] = migrate_type;
            known[block] = true;
            shown[block] = true;
        }
        // From here on the type may be another than at the beginning.
        if act.is_aside() || matches!(act.action, Action::Fallback { .. } | Action::HandOver) {
            let blocks = (act.order.frames() as usize).div_ceil(Order::HUGE.frames() as usize);
            known[block..block + blocks].fill(true);
        }
    }
    (types, shown)
}

/// Marks uninitialized memory as unmovable: in each zone, from the first frame that is handed over
/// late to the end. Each node defers its own.
fn mark_deferred(layout: &Layout, acts: &[Act], types: &mut [MigrateType]) {
    let late = |act: &&Act| act.action == Action::HandOver;
    for zone in layout.zones() {
        let first =
            acts.iter().filter(late).map(|act| act.frame).filter(|frame| zone.contains(*frame));
        if let Some(first) = first.min() {
            let end = Frame(zone.end.0 - 1).pageblock();
            types[first.pageblock()..=end].fill(MigrateType::Unmovable);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prairie_frames::layout::{Watermarks, ZoneSpan};
    use prairie_frames::{Pfn, ZoneKind};

    #[test]
    fn a_freed_frame_that_is_allocated_shows_the_type_of_its_pageblock() {
        let span = ZoneSpan {
            node: 0,
            kind: ZoneKind::Dma32,
            start: Pfn(0),
            spanned: 1024,
            managed: 1024,
            watermarks: Watermarks::default(),
            lowmem_reserve: Default::default(),
        };
        let shown = |actions: &[Action]| {
            let layout = Layout::new(vec![span.clone()]).unwrap();
            let mut recording = Recording::empty(layout, DEFERRED_MOVABLE.since);
            let act = |&action: &Action| Act { frame: Frame(512), ..Act::aside(action, 0) };
            recording.acts = actions.iter().map(act).collect();
            let (types, shown) = pageblock_types(&recording);
            shown[1].then_some(types[1])
        };
        let allocated = Action::Alloc(MigrateType::Unmovable, prairie_trace::GfpFlags(0));
        assert_eq!(shown(&[Action::Free, allocated]), Some(MigrateType::Unmovable));
        // A probe may report that the frame came to its list.
        assert_eq!(shown(&[Action::Free, Action::Listed, allocated]), Some(MigrateType::Unmovable));
        let left = Action::Locked(MigrateType::Unmovable);
        assert_eq!(shown(&[Action::Free, left, allocated]), None);
    }

    #[test]
    fn silent_pageblocks_get_the_types_that_their_own_zone_misses() {
        let zone = |kind, start| ZoneSpan {
            node: 0,
            kind,
            start: Pfn(start),
            spanned: 2048,
            managed: 2048,
            watermarks: Watermarks::default(),
            lowmem_reserve: Default::default(),
        };
        let zones = vec![zone(ZoneKind::Dma32, 0), zone(ZoneKind::Normal, 2048)];
        let layout = Layout::new(zones).unwrap();
        let mut opening = Opening {
            free: Vec::new(),
            unshown: Vec::new(),
            pageblocks: vec![MigrateType::Movable; 8],
            holes: Vec::new(),
            silent_pageblocks: vec![0, 1, 5],
            settled: 0,
        };
        let migrate_type = MigrateType::Unmovable.index() as u8;
        let what = DifferenceKind::Pageblocks { migrate_type };
        opening.settle(&layout, &[Difference { zone: 1, what, kernel: 2, replay: 0 }]);
        let unmovable = |block: usize| opening.pageblocks[block] == MigrateType::Unmovable;
        assert_eq!((0..8).filter(|&block| unmovable(block)).collect::<Vec<_>>(), [5]);
        assert_eq!((opening.settled, opening.silent_pageblocks), (1, vec![0, 1]));
    }
}
