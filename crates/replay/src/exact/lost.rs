//! Restores refills that were not traced.
//!
//! The kernel switches the events of its command line off and on again while it boots
//! (`event_trace_enable_again`), and counts nothing of what happens meanwhile: mostly a few
//! allocations, now and then a whole refill of a per-CPU list. The sign is a run of blocks that are
//! allocated although nothing ever took them from the free lists. At the first event no block is on
//! a per-CPU list, so each must have come through one.
//!
//! A refill is made for the allocation of its first block. Where that has no event either, both
//! happened while nothing was traced: in the longest silence of the record.
//!
//! How large a refill can be follows from those before it. All orders share the zone's batch. Before
//! 6.7 a refill of single frames is a batch, since then it may be twice the last one on its CPU
//! (`nr_pcp_alloc`).

use std::iter;
use std::ops::Range;

use prairie_frames::placement::linux::BATCH_SCALE_MAX;
use prairie_frames::{Frame, Layout, MigrateType, Order};

use super::act::{Act, Action};
use super::threads::By;

/// Possible batch sizes of the kernel: one less than a power of two (`zone_batchsize`).
pub const BATCHES: [u32; 5] = [63, 31, 15, 7, 3];

/// The largest order that is refilled by several blocks at once.
const LARGEST: u8 = 3;

/// Refills of single frames: runs that leave the free lists together, and whose first frame is then
/// allocated.
pub fn refills(acts: &[Act]) -> impl Iterator<Item = &[Act]> {
    let is_locked = |act: &Act| act.order == Order::BASE && matches!(act.action, Action::Locked(_));
    let mut runs = acts
        .chunk_by(move |act, next| {
            is_locked(act)
                && act.order == next.order
                && act.action == next.action
                && act.cpu == next.cpu
        })
        .peekable();
    let refill = move || {
        let run = runs.next()?;
        let next = runs.peek().map(|next| next[0]);
        let handed_out =
            |next: Act| matches!(next.action, Action::Alloc(..)) && next.frame == run[0].frame;
        Some((run.len() > 1 && next.is_some_and(handed_out)).then_some(run))
    };
    iter::from_fn(refill).flatten()
}

/// The batch of the zone in which a whole refill of single frames was made.
pub fn batch_of(refill: &[Act]) -> Option<u32> {
    let frames = refill.len() as u32;
    BATCHES.into_iter().find(|batch| frames.is_multiple_of(*batch))
}

/// Inserts the missing refills before the allocations of `acts[..end]`. Refills may double if the
/// lists are `adaptive`. Returns the number of blocks inserted.
pub fn put_back(acts: &mut Vec<Act>, end: usize, layout: &Layout, adaptive: bool) -> u64 {
    let mut end = end;
    let mut total = 0;
    for order in (0..=LARGEST).filter_map(Order::new) {
        let put = put_back_of(acts, end, (layout, adaptive), order);
        total += put;
        end += put;
    }
    total as u64
}

/// The same for the first missing refill of an order.
fn put_back_of(
    acts: &mut Vec<Act>,
    end: usize,
    (layout, adaptive): (&Layout, bool),
    order: Order,
) -> usize {
    let elsewhere = elsewhere(&acts[..end], layout.frames() as usize, order);
    let sizes = |first: usize| sizes(&acts[..first], acts[first], layout, adaptive);
    let Some(run) = first_orphans(&acts[..end], &elsewhere, order, sizes) else { return 0 };
    let unnamed = run.last.0 + 1 - run.unnamed..run.last.0 + 1;
    let left = left_over(&acts[..run.first_act], &run, &elsewhere).into_iter();
    let left: Vec<u32> = left.take_while(|frame| !unnamed.contains(frame)).collect();
    let mut refill = run.refill(&left, &elsewhere);
    let mut at = run.first_act;
    if order > Order::BASE && refill[0].frame != acts[run.first_act].frame {
        at = silence(&acts[..=run.first_act]);
        for act in &mut refill {
            act.time_ns = acts[at].time_ns;
        }
    }
    acts.splice(at..at, refill.iter().copied());
    refill.len()
}

/// The act after the longest silence, from the kernel's first thread on.
fn silence(acts: &[Act]) -> usize {
    let begin = acts.iter().position(|act| act.thread == INIT).unwrap_or(0);
    let gap = |&at: &usize| acts[at].time_ns.saturating_sub(acts[at - 1].time_ns);
    (begin.max(1)..acts.len()).max_by_key(gap).unwrap_or(0)
}

/// The thread that switches the events.
const INIT: i32 = 1;

/// Blocks that the refill of an orphan may have fetched, smallest first, given what was done before.
fn sizes(before: &[Act], orphan: Act, layout: &Layout, adaptive: bool) -> Vec<u32> {
    let zone = layout.zone_of(orphan.frame).map(|zone| &layout.zones()[zone]);
    let in_zone = |refill: &&[Act]| zone.is_some_and(|zone| zone.contains(refill[0].frame));
    let batch = refills(before).find(in_zone).and_then(batch_of);
    let single = orphan.order == Order::BASE;
    let Some(batch) = batch else {
        return BATCHES.into_iter().rev().map(|batch| refilled(batch, orphan.order)).collect();
    };
    if !single || !adaptive {
        return vec![refilled(batch, orphan.order)];
    }
    let on_cpu = refills(before).filter(in_zone).filter(|refill| refill[0].cpu == orphan.cpu);
    let most = on_cpu.last().map_or(batch, |last| 2 * last.len() as u32).max(batch);
    (0..=BATCH_SCALE_MAX).map(|doubled| batch << doubled).take_while(|&size| size <= most).collect()
}

/// Blocks that are allocated and come from nowhere: in a row, but for some that were allocated
/// without an event.
struct Orphans {
    first_act: usize,
    /// Blocks that the refill may have fetched.
    sizes: Vec<u32>,
    order: Order,
    time_ns: u64,
    thread: i32,
    cpu: u16,
    migrate_type: MigrateType,
    last: Frame,
    /// Blocks from the first one to the last.
    orphans: u32,
    /// Blocks before the last one, itself included, that nothing named until then.
    unnamed: u32,
    /// Blocks of the refill that come before the first: the refill before had left them.
    begun_with: u32,
}

impl Orphans {
    /// The run that begins with an allocation, which is the act `first_act`.
    fn begin(
        (first_act, act): (usize, &Act),
        sizes: Vec<u32>,
        migrate_type: MigrateType,
        unnamed: u32,
    ) -> Orphans {
        let Act { cpu, frame: last, order, time_ns, thread, .. } = *act;
        let (orphans, begun_with) = (1, 0);
        Orphans {
            first_act,
            sizes,
            order,
            time_ns,
            thread,
            cpu,
            migrate_type,
            last,
            orphans,
            unnamed,
            begun_with,
        }
    }

    /// Whether a later frame may have come with the same refill: nothing between was named, and the
    /// largest refill has room.
    fn may_extend_to(&self, frame: Frame, named: &[bool]) -> bool {
        frame > self.last
            && self.blocks_to(frame) + self.orphans <= self.most()
            && !named[self.last.offset(self.size().into()).index()..frame.index()].contains(&true)
    }

    /// Goes on with a frame elsewhere, if all blocks so far are what the refill before had `left`, and
    /// too few for a refill: this one then split another block. Of the frames up to the new one,
    /// `unnamed` were not named.
    fn go_on(&mut self, left: &[u32], frame: Frame, unnamed: u32) {
        let first = self.last.0 + 1 - self.orphans;
        let is_rest = left.first() == Some(&first) && left.last() == Some(&self.last.0);
        let least = self.sizes.iter().copied().min().unwrap_or(0);
        if is_rest && (left.len() as u32) < least {
            self.begun_with = self.orphans;
            (self.last, self.orphans, self.unnamed) = (frame, 1, unnamed);
        }
    }

    /// Blocks that may be missing in a row.
    fn most(&self) -> u32 {
        self.sizes.iter().copied().fold(refilled(BATCHES[0], self.order), u32::max)
    }

    /// Frames of a block.
    fn size(&self) -> u32 {
        self.order.frames() as u32
    }

    /// Blocks from the last one to `frame`, which is further on.
    fn blocks_to(&self, frame: Frame) -> u32 {
        (frame.0 - self.last.0) / self.size()
    }

    /// The refill: the smallest that has room for the orphans. It begins where the frames
    /// begin that nothing named, or ends with the orphans if those are more; what else is in it was
    /// allocated unseen, and nothing else can have taken it from the free lists. It may have begun
    /// with what the refill before had left of a block (`left_over`).
    fn refill(&self, left_over: &[u32], elsewhere: &[bool]) -> Vec<Act> {
        let size = self.size();
        let end = self.last.0 + size;
        let least = self.orphans + self.begun_with;
        let fitting = self.sizes.iter().copied().filter(|&blocks| blocks >= least);
        let range = |blocks: u32| {
            let begin = end - self.unnamed.min(blocks) * size;
            begin..begin + blocks * size
        };
        let is_free_for = |range: &Range<u32>| {
            elsewhere.get(end as usize..range.end as usize).is_some_and(|it| !it.contains(&true))
        };
        let known = end - self.orphans * size..end;
        let mut found = fitting.flat_map(|blocks| {
            let rest = blocks.saturating_sub(left_over.len() as u32);
            let beside = (rest >= self.orphans).then(|| (left_over, range(rest)));
            let alone = (self.begun_with == 0).then(|| (&[][..], range(blocks)));
            [alone, beside].into_iter().flatten()
        });
        let begun_with = left_over.len().min(self.begun_with as usize);
        let known = (&left_over[..begun_with], known);
        let (before, range) = found.find(|(_, range)| is_free_for(range)).unwrap_or(known);
        let act = |frame| Act {
            cpu: self.cpu,
            frame: Frame(frame),
            order: self.order,
            action: Action::Locked(self.migrate_type),
            by: By::Program,
            time_ns: self.time_ns,
            thread: self.thread,
        };
        before.iter().copied().chain(range.step_by(size as usize)).map(act).collect()
    }
}

/// Blocks of an order that a refill fetches (`__rmqueue_pcplist`).
fn refilled(batch: u32, order: Order) -> u32 {
    match order {
        Order::BASE => batch,
        larger => (batch >> larger.get()).max(2),
    }
}

/// What the last refill before a run of orphans left of the block that it split last: frames that
/// nothing ever named as they left the free lists, beside the last one that it took.
fn left_over(before: &[Act], run: &Orphans, elsewhere: &[bool]) -> Vec<u32> {
    if run.order > Order::BASE {
        return Vec::new();
    }
    let is_refill = |act: &&Act| {
        act.action == Action::Locked(run.migrate_type)
            && act.cpu == run.cpu
            && act.order == Order::BASE
    };
    let Some(taken) = before.iter().rfind(is_refill) else { return Vec::new() };
    let mut named = vec![false; elsewhere.len()];
    for act in before.iter().filter(|act| names(act)) {
        named[act.frame.index()..act.frame.index() + act.order.frames() as usize].fill(true);
    }
    let is_left = |frame: &u32| {
        let at = *frame as usize;
        named.get(at) == Some(&false) && !elsewhere[at]
    };
    (taken.frame.0 + 1..).take_while(is_left).collect()
}

/// Frames that did not come with a missing refill of an order: before anything else the record shows
/// them leaving the free lists, or allocated in a block of another order, which must have come with
/// another refill. What is taken of a pageblock that a fallback claimed has an act of its own; the
/// rest stays free.
fn elsewhere(acts: &[Act], frames: usize, order: Order) -> Vec<bool> {
    let mut named = vec![false; frames];
    let mut elsewhere = vec![false; frames];
    for act in acts.iter().filter(|act| names(act)) {
        let leaves = match act.action {
            Action::Locked(_) => true,
            Action::Alloc(..) => act.order != order,
            _ => false,
        };
        for frame in act.frame.index()..act.frame.index() + act.order.frames() as usize {
            elsewhere[frame] |= leaves && !named[frame];
            named[frame] = true;
        }
    }
    elsewhere
}

/// Whether an act shows where a block is from then on: not if it stays free.
fn names(act: &Act) -> bool {
    act.frame != Frame::NONE && !matches!(act.action, Action::Fallback { .. })
}

fn first_orphans(
    acts: &[Act],
    elsewhere: &[bool],
    order: Order,
    sizes: impl Fn(usize) -> Vec<u32>,
) -> Option<Orphans> {
    let size = order.frames() as usize;
    let mut named = vec![false; elsewhere.len()];
    let mut found: Option<Orphans> = None;
    let unnamed_to = |frame: Frame, named: &[bool]| {
        let before = (0..frame.index()).rev().take_while(|&at| !named[at] && !elsewhere[at]);
        (before.count() / size) as u32 + 1
    };
    for (index, act) in acts.iter().enumerate().filter(|(_, act)| names(act)) {
        let block = act.frame.index()..act.frame.index() + act.order.frames() as usize;
        let orphan = match act.action {
            Action::Alloc(migrate_type, _) if act.order == order => {
                (!named[block.clone()].contains(&true)).then_some(migrate_type)
            }
            _ => None,
        };
        match (&mut found, orphan) {
            (None, Some(migrate_type)) => {
                let unnamed = unnamed_to(act.frame, &named);
                let sizes = sizes(index);
                found = Some(Orphans::begin((index, act), sizes, migrate_type, unnamed));
            }
            (Some(run), Some(migrate_type))
                if migrate_type == run.migrate_type
                    && act.cpu == run.cpu
                    && run.may_extend_to(act.frame, &named) =>
            {
                let more = run.blocks_to(act.frame);
                run.last = act.frame;
                run.orphans += more;
                run.unnamed += more;
            }
            (Some(run), Some(migrate_type))
                if (migrate_type, act.cpu) == (run.migrate_type, run.cpu)
                    && run.begun_with == 0 =>
            {
                let left = left_over(&acts[..run.first_act], run, elsewhere);
                run.go_on(&left, act.frame, unnamed_to(act.frame, &named));
            }
            _ => {}
        }
        named[block].fill(true);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use prairie_frames::layout::{Watermarks, ZoneSpan};
    use prairie_frames::{Pfn, ZoneKind};
    use prairie_trace::GfpFlags;

    const UNMOVABLE: MigrateType = MigrateType::Unmovable;

    fn act(frame: u32, action: Action) -> Act {
        let (by, time_ns, thread) = (By::Program, 0, 1);
        Act { cpu: 0, frame: Frame(frame), order: Order::BASE, action, by, time_ns, thread }
    }

    fn locked(frame: u32) -> Act {
        act(frame, Action::Locked(UNMOVABLE))
    }

    fn alloc(frame: u32) -> Act {
        act(frame, Action::Alloc(UNMOVABLE, GfpFlags(0)))
    }

    fn of_order(order: u8, time_ns: u64, act: Act) -> Act {
        Act { order: Order::new(order).unwrap(), time_ns, ..act }
    }

    fn locked_frames(acts: &[Act]) -> Vec<u32> {
        let locked = acts.iter().filter(|act| matches!(act.action, Action::Locked(_)));
        locked.map(|act| act.frame.0).collect()
    }

    fn put(acts: &mut Vec<Act>, end: usize, frames: usize) -> u64 {
        put_of(acts, end, frames, true)
    }

    fn put_of(acts: &mut Vec<Act>, end: usize, frames: usize, adaptive: bool) -> u64 {
        let span = ZoneSpan {
            node: 0,
            kind: ZoneKind::Dma32,
            start: Pfn(0),
            spanned: frames as u64,
            managed: frames as u64,
            watermarks: Watermarks::default(),
            lowmem_reserve: Default::default(),
        };
        put_back(acts, end, &Layout::new(vec![span]).unwrap(), adaptive)
    }

    #[test]
    fn a_refill_between_two_others_is_put_back_whole() {
        // 3 to 9 is missing; its first two frames were allocated while nothing was traced.
        let mut acts = vec![locked(2), alloc(2)];
        acts.extend((5..=9).map(alloc));
        acts.extend([locked(10), alloc(10)]);
        let end = acts.len();
        assert_eq!(put(&mut acts, end, 64), 7);
        assert_eq!(locked_frames(&acts), [2, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert!(matches!(acts[9].action, Action::Alloc(..)), "before the first of its allocations");
        let end = acts.len();
        assert_eq!(put(&mut acts, end, 64), 0, "nothing is missing any more");
    }

    #[test]
    fn a_refill_is_as_large_as_the_one_before_where_lists_do_not_adapt() {
        // As a recording of 6.1 had it: 8 to 14 is missing, and 8 to 11 were allocated unseen.
        let mut acts: Vec<Act> = (1..=7).map(locked).chain((1..=7).map(alloc)).collect();
        acts.extend((12..=14).map(alloc));
        let end = acts.len();
        assert_eq!(put_of(&mut acts, end, 64, false), 7);
        assert_eq!(locked_frames(&acts), Vec::from_iter(1..=14));
    }

    #[test]
    fn a_refill_reaches_beyond_what_was_handed_out() {
        // As a recording had it: 4 to 10 is missing, 4 and 10 were allocated unseen.
        let mut acts = vec![locked(3), alloc(3)];
        acts.extend((5..=9).map(alloc));
        acts.extend([locked(11), alloc(11)]);
        assert_eq!(put(&mut acts, 9, 64), 7);
        assert_eq!(locked_frames(&acts), [3, 4, 5, 6, 7, 8, 9, 10, 11]);
    }

    #[test]
    fn what_was_allocated_in_bulk_lies_between() {
        // As a recording had it: 0 to 14 is missing; 9 to 12 were allocated in bulk.
        let mut acts: Vec<Act> = (3..=8).map(alloc).collect();
        acts.extend([locked(40), alloc(40), alloc(13)]);
        let end = acts.len();
        assert_eq!(put(&mut acts, end, 64), 15);
        assert_eq!(locked_frames(&acts), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 40]);
    }

    #[test]
    fn a_refill_begins_with_what_the_one_before_left() {
        // As a recording had it: the refill before ended with frame 10 of a block of two; frame 11
        // and those from 24 on are missing, and 38 left the free lists later.
        let mut acts = vec![locked(9), locked(10), locked(12), alloc(12), locked(23), alloc(23)];
        acts.push(locked(10));
        acts.extend((27..=37).map(alloc));
        acts.extend([locked(38), alloc(38)]);
        let end = acts.len();
        assert_eq!(put(&mut acts, end, 64), 15);
        let put: Vec<u32> = locked_frames(&acts)[5..20].to_vec();
        assert_eq!(put, [11, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37]);
    }

    #[test]
    fn a_refill_goes_on_elsewhere_after_what_the_one_before_left() {
        // As a recording had it, with 120 frames: the refill before ended with frame 10 of a block of
        // two. Its other frame and the 14 from 21 on are missing; the next refill begins with 35.
        let mut acts = vec![locked(12), alloc(12), locked(20), alloc(20), locked(9), locked(10)];
        acts.extend([alloc(9), alloc(10), alloc(11)]);
        acts.extend((21..35).map(alloc));
        acts.extend([locked(35), alloc(35)]);
        let end = acts.len();
        assert_eq!(put(&mut acts, end, 64), 15);
        let put = locked_frames(&acts)[4..19].to_vec();
        assert_eq!(put, [11].into_iter().chain(21..35).collect::<Vec<u32>>());
        assert_eq!(acts[23].frame, Frame(11), "before the first of its allocations");
    }

    #[test]
    fn a_refill_of_larger_blocks_is_put_back_where_nothing_was_traced() {
        // As a recording had it: 16 to 31 are missing, between two refills of the order below from
        // one claimed pageblock. The first block of the refill was allocated unseen, the second much
        // later.
        let (found, from) = (Order::HUGE, MigrateType::Movable);
        let claim = Action::Fallback { wanted: UNMOVABLE, from, found, change_ownership: true };
        let mut acts = vec![of_order(9, 1, act(0, claim)), of_order(2, 1, locked(0))];
        acts.extend([4, 8].map(|frame| of_order(2, 2, locked(frame))));
        acts.extend([of_order(2, 900, alloc(8)), of_order(2, 901, locked(12))]);
        acts.extend([32, 36].map(|frame| of_order(2, 901, locked(frame))));
        acts.extend([of_order(3, 1200, alloc(24)), of_order(3, 1201, locked(40))]);
        let end = acts.len();
        assert_eq!(put(&mut acts, end, 512), 2);
        assert_eq!(locked_frames(&acts), [0, 4, 8, 16, 24, 12, 32, 36, 40]);
        let put = &acts[4..6];
        assert!(put.iter().all(|act| act.order.get() == 3 && act.time_ns == 900));
    }

    #[test]
    fn a_refill_is_twice_the_one_before() {
        // As a recording had it, with 15 for 3: refills of 3 and 6, then one of 12 that is missing,
        // beside one of two blocks of order 2. It began with frame 9, and its next was 20; both
        // were allocated unseen, as was the first block of the other.
        let mut acts: Vec<Act> = (0..3).map(locked).collect();
        acts.push(alloc(0));
        acts.extend((3..9).map(locked));
        acts.extend([alloc(3), of_order(1, 1, locked(10)), of_order(1, 2, alloc(10))]);
        acts.extend((21..=30).map(|frame| Act { time_ns: 900, ..alloc(frame) }));
        acts.push(of_order(2, 901, alloc(16)));
        acts.extend([31, 40, 41].map(|frame| Act { time_ns: 902, ..locked(frame) }));
        let end = acts.len();
        assert_eq!(put(&mut acts, end, 64), 14);
        let mut put: Vec<u32> = locked_frames(&acts)[10..24].to_vec();
        put.sort_unstable();
        assert_eq!(put, [9, 12, 16, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30]);
    }

    #[test]
    fn no_more_is_put_back_than_can_be_missing() {
        // Frame 4 was named before and 10 left the free lists later: no batch fits between.
        let mut acts = vec![locked(4), alloc(4), alloc(5), alloc(6), alloc(7), alloc(8)];
        acts.extend([locked(10), alloc(10)]);
        assert_eq!(put(&mut acts, 8, 64), 4);
        assert_eq!(locked_frames(&acts), [4, 5, 6, 7, 8, 10]);
    }

    #[test]
    fn a_whole_record_is_left_alone() {
        let mut acts = vec![locked(1), alloc(1), act(1, Action::Free), alloc(1)];
        assert_eq!(put(&mut acts, 4, 64), 0);
        assert_eq!(acts.len(), 4);
    }
}
