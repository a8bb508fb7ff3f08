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

use std::ops::Range;

use prairie_frames::{Frame, MigrateType, Order};

use super::act::{Act, Action};
use super::threads::By;

/// Possible batch sizes of the kernel: one less than a power of two (`zone_batchsize`).
pub const BATCHES: [u32; 5] = [63, 31, 15, 7, 3];

/// The largest order that is refilled by several blocks at once.
const LARGEST: u8 = 3;

/// Inserts the missing refills before the allocations of `acts[..end]`. The memory has `frames`
/// frames. Returns the number of blocks inserted.
pub fn put_back(acts: &mut Vec<Act>, end: usize, frames: usize) -> u64 {
    let mut end = end;
    let mut total = 0;
    for order in (0..=LARGEST).filter_map(Order::new) {
        let put = put_back_of(acts, end, frames, order);
        total += put;
        end += put;
    }
    total as u64
}

/// The same for the first missing refill of an order.
fn put_back_of(acts: &mut Vec<Act>, end: usize, frames: usize, order: Order) -> usize {
    let Some(run) = first_orphans(&acts[..end], frames, order) else { return 0 };
    let from_lists = from_lists(&acts[..end], frames);
    let mut refill = run.refill(&left_over(&acts[..run.first_act], &run, &from_lists), &from_lists);
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

/// Blocks that are allocated and come from nowhere: in a row, but for some that were allocated
/// without an event.
struct Orphans {
    first_act: usize,
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
}

impl Orphans {
    /// Whether a later frame may have come with the same refill: nothing between was named, and the
    /// largest batch has room.
    fn may_extend_to(&self, frame: Frame, named: &[bool]) -> bool {
        frame > self.last
            && self.blocks_to(frame) + self.orphans <= refilled(BATCHES[0], self.order)
            && !named[self.last.offset(self.size().into()).index()..frame.index()].contains(&true)
    }

    /// Frames of a block.
    fn size(&self) -> u32 {
        self.order.frames() as u32
    }

    /// Blocks from the last one to `frame`, which is further on.
    fn blocks_to(&self, frame: Frame) -> u32 {
        (frame.0 - self.last.0) / self.size()
    }

    /// The refill: the smallest batch that has room for the orphans. It begins where the frames
    /// begin that nothing named, or ends with the orphans if those are more; what else is in it was
    /// allocated unseen, and nothing else can have taken it from the free lists. It may have begun
    /// with what the refill before had left of a block (`left_over`).
    fn refill(&self, left_over: &[u32], from_lists: &[bool]) -> Vec<Act> {
        let size = self.size();
        let end = self.last.0 + size;
        let sizes = BATCHES.into_iter().rev().map(|batch| refilled(batch, self.order));
        let fitting = sizes.filter(|&blocks| blocks >= self.orphans);
        let range = |blocks: u32| {
            let begin = end - self.unnamed.min(blocks) * size;
            begin..begin + blocks * size
        };
        let is_free_for = |range: &Range<u32>| {
            from_lists.get(end as usize..range.end as usize).is_some_and(|it| !it.contains(&true))
        };
        let known = end - self.orphans * size..end;
        let mut found = fitting.flat_map(|blocks| {
            let rest = blocks.saturating_sub(left_over.len() as u32);
            let beside = (rest >= self.orphans).then(|| (left_over, range(rest)));
            [Some((&[][..], range(blocks))), beside].into_iter().flatten()
        });
        let (before, range) = found.find(|(_, range)| is_free_for(range)).unwrap_or((&[], known));
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
fn left_over(before: &[Act], run: &Orphans, from_lists: &[bool]) -> Vec<u32> {
    if run.order > Order::BASE {
        return Vec::new();
    }
    let is_refill = |act: &&Act| {
        act.action == Action::Locked(run.migrate_type)
            && act.cpu == run.cpu
            && act.order == Order::BASE
    };
    let Some(taken) = before.iter().rfind(is_refill) else { return Vec::new() };
    let mut named = vec![false; from_lists.len()];
    for act in before.iter().filter(|act| names(act)) {
        named[act.frame.index()..act.frame.index() + act.order.frames() as usize].fill(true);
    }
    let unnamed = run.last.0 + 1 - run.unnamed..run.last.0 + 1;
    let is_left = |frame: &u32| {
        let at = *frame as usize;
        named.get(at) == Some(&false) && !from_lists[at] && !unnamed.contains(frame)
    };
    (taken.frame.0 + 1..).take_while(is_left).collect()
}

/// Frames that the record shows leaving the free lists before anything else. What is taken of a
/// pageblock that a fallback claimed has an act of its own; the rest stays free.
fn from_lists(acts: &[Act], frames: usize) -> Vec<bool> {
    let mut named = vec![false; frames];
    let mut from_lists = vec![false; frames];
    for act in acts.iter().filter(|act| names(act)) {
        let leaves = matches!(act.action, Action::Locked(_));
        for frame in act.frame.index()..act.frame.index() + act.order.frames() as usize {
            from_lists[frame] |= leaves && !named[frame];
            named[frame] = true;
        }
    }
    from_lists
}

/// Whether an act shows where a block is from then on: not if it stays free.
fn names(act: &Act) -> bool {
    act.frame != Frame::NONE && !matches!(act.action, Action::Fallback { .. })
}

fn first_orphans(acts: &[Act], frames: usize, order: Order) -> Option<Orphans> {
    let size = order.frames() as usize;
    let mut named = vec![false; frames];
    let mut found: Option<Orphans> = None;
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
                let before = named[..act.frame.index()].rchunks_exact(size);
                let unnamed = before.take_while(|block| !block.contains(&true)).count() as u32 + 1;
                let (cpu, last) = (act.cpu, act.frame);
                found = Some(Orphans {
                    first_act: index,
                    order,
                    time_ns: act.time_ns,
                    thread: act.thread,
                    cpu,
                    migrate_type,
                    last,
                    orphans: 1,
                    unnamed,
                });
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
            _ => {}
        }
        named[block].fill(true);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
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

    fn locked_frames(acts: &[Act]) -> Vec<u32> {
        let locked = acts.iter().filter(|act| matches!(act.action, Action::Locked(_)));
        locked.map(|act| act.frame.0).collect()
    }

    #[test]
    fn a_refill_between_two_others_is_put_back_whole() {
        // 3 to 9 is missing; its first two frames were allocated while nothing was traced.
        let mut acts = vec![locked(2), alloc(2)];
        acts.extend((5..=9).map(alloc));
        acts.extend([locked(10), alloc(10)]);
        let end = acts.len();
        assert_eq!(put_back(&mut acts, end, 64), 7);
        assert_eq!(locked_frames(&acts), [2, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert!(matches!(acts[9].action, Action::Alloc(..)), "before the first of its allocations");
        let end = acts.len();
        assert_eq!(put_back(&mut acts, end, 64), 0, "nothing is missing any more");
    }

    #[test]
    fn a_refill_reaches_beyond_what_was_handed_out() {
        // As a recording had it: 4 to 10 is missing, 4 and 10 were allocated unseen.
        let mut acts = vec![locked(3), alloc(3)];
        acts.extend((5..=9).map(alloc));
        acts.extend([locked(11), alloc(11)]);
        assert_eq!(put_back(&mut acts, 9, 64), 7);
        assert_eq!(locked_frames(&acts), [3, 4, 5, 6, 7, 8, 9, 10, 11]);
    }

    #[test]
    fn what_was_allocated_in_bulk_lies_between() {
        // As a recording had it: 0 to 14 is missing; 9 to 12 were allocated in bulk.
        let mut acts: Vec<Act> = (3..=8).map(alloc).collect();
        acts.extend([locked(40), alloc(40), alloc(13)]);
        let end = acts.len();
        assert_eq!(put_back(&mut acts, end, 64), 15);
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
        assert_eq!(put_back(&mut acts, end, 64), 15);
        let put: Vec<u32> = locked_frames(&acts)[5..20].to_vec();
        assert_eq!(put, [11, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37]);
    }

    #[test]
    fn a_refill_of_larger_blocks_is_put_back_where_nothing_was_traced() {
        // As a recording had it: 16 to 31 are missing, between two refills of the order below from
        // one claimed pageblock. The first block of the refill was allocated unseen, the second much
        // later.
        let of_order = |order: u8, time_ns: u64, act: Act| Act {
            order: Order::new(order).unwrap(),
            time_ns,
            ..act
        };
        let (found, from) = (Order::HUGE, MigrateType::Movable);
        let claim = Action::Fallback { wanted: UNMOVABLE, from, found, change_ownership: true };
        let mut acts = vec![of_order(9, 1, act(0, claim)), of_order(2, 1, locked(0))];
        acts.extend([4, 8].map(|frame| of_order(2, 2, locked(frame))));
        acts.extend([of_order(2, 900, alloc(8)), of_order(2, 901, locked(12))]);
        acts.extend([32, 36].map(|frame| of_order(2, 901, locked(frame))));
        acts.extend([of_order(3, 1200, alloc(24)), of_order(3, 1201, locked(40))]);
        let end = acts.len();
        assert_eq!(put_back(&mut acts, end, 512), 2);
        assert_eq!(locked_frames(&acts), [0, 4, 8, 16, 24, 12, 32, 36, 40]);
        let put = &acts[4..6];
        assert!(put.iter().all(|act| act.order.get() == 3 && act.time_ns == 900));
    }

    #[test]
    fn no_more_is_put_back_than_can_be_missing() {
        // Frame 4 was named before and 10 left the free lists later: no batch fits between.
        let mut acts = vec![locked(4), alloc(4), alloc(5), alloc(6), alloc(7), alloc(8)];
        acts.extend([locked(10), alloc(10)]);
        assert_eq!(put_back(&mut acts, 8, 64), 4);
        assert_eq!(locked_frames(&acts), [4, 5, 6, 7, 8, 10]);
    }

    #[test]
    fn a_whole_record_is_left_alone() {
        let mut acts = vec![locked(1), alloc(1), act(1, Action::Free), alloc(1)];
        assert_eq!(put_back(&mut acts, 4, 64), 0);
        assert_eq!(acts.len(), 4);
    }
}
