//! Runs of frames that are freed as larger blocks.
//!
//! Since 7.2 `vfree` logs each frame and then returns each run of consecutive frames as the largest
//! aligned blocks that it holds (`free_prepared_contig_range`). A block has no event of its own,
//! but the next event that names it has its size: it leaves a per-CPU list as it entered it. Blocks
//! of orders without such lists go to the free lists, and the next event takes them from there.

use std::collections::HashMap;

use prairie_frames::placement::linux::version::RUNS_AS_BLOCKS;
use prairie_frames::{Frame, KernelVersion, Order};

use super::act::goes_through_cpu;
use super::act::{Act, Action};

/// The first release that frees runs as blocks.
pub const RUNS: KernelVersion = RUNS_AS_BLOCKS.since;

/// Turns the frees of frames in a row in `acts[..until]` into frees of the blocks that they went back
/// as, each at the last of its frames. From there on probes report the blocks.
pub fn join(acts: &mut [Act], until: usize, frames: usize) {
    let (next, split) = next_events(acts, frames);
    for run in runs(&acts[..until]) {
        let mut at = 0;
        let evidence = evidence_in(acts, &run, &next);
        while at < run.len() {
            let Some(order) = block_at(acts, &run[at..], &next, &split, evidence) else {
                at += 1;
                continue;
            };
            let last = at + order.frames() as usize - 1;
            for &part in &run[at..last] {
                acts[part] = Act { frame: Frame::NONE, action: Action::Joined, ..acts[part] };
            }
            let first = acts[run[last]].frame.align_down(order);
            acts[run[last]] = Act { frame: first, order, ..acts[run[last]] };
            at = last + 1;
        }
    }
}

/// The next event on a freed frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Next {
    /// Nothing names it again.
    #[default]
    Nothing,
    /// It leaves a per-CPU list as the first of a block of this order.
    Listed(Order),
    /// It leaves the free lists: it was on no per-CPU list.
    Free,
    /// Something else.
    Other,
}

/// What the later events on the blocks of a run say about all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Evidence {
    Nothing,
    /// Some frames went back as larger blocks.
    Blocks,
    /// Frames that could have been in a larger block went back one by one.
    Frames,
}

fn evidence_in(acts: &[Act], run: &[usize], next: &HashMap<usize, Next>) -> Evidence {
    let mut evidence = Evidence::Nothing;
    for (at, free) in run.iter().enumerate() {
        match next.get(free) {
            Some(&Next::Listed(Order::BASE)) => {
                let frame = acts[*free].frame;
                let upper = frame.align_down(Order::new(1).expect("an order")) != frame;
                if upper && at > 0 {
                    return Evidence::Frames;
                }
            }
            Some(Next::Listed(_)) => evidence = Evidence::Blocks,
            _ => {}
        }
    }
    evidence
}

/// The largest aligned block that the frees at the beginning of a run can have gone back as.
fn block_at(
    acts: &[Act],
    run: &[usize],
    next: &HashMap<usize, Next>,
    split: &HashMap<usize, Order>,
    evidence: Evidence,
) -> Option<Order> {
    let first = acts[run[0]].frame;
    let of = |free: &usize| next.get(free).copied().unwrap_or_default();
    (1..=Order::LARGEST_FREE.get()).rev().filter_map(Order::new).find(|&order| {
        let size = order.frames() as usize;
        if first.align_down(order) != first || size > run.len() {
            return false;
        }
        if of(&run[0]) == Next::Listed(order) {
            return true;
        }
        let parts = &run[..size];
        if evidence == Evidence::Frames
            || !parts.iter().all(|f| matches!(of(f), Next::Nothing | Next::Free))
        {
            return false;
        }
        // A larger block that is freed frame by frame was split, as vmalloc does.
        let allocated = split.get(&run[0]).copied();
        match (parts.iter().any(|free| of(free) == Next::Free), goes_through_cpu(order)) {
            // Single frames would have come to a list first.
            (true, through_cpu) => !through_cpu,
            // No event has named it since: it has its allocated size, if that is known.
            (false, _) if allocated.is_some_and(|known| known > Order::BASE) => {
                allocated == Some(order)
            }
            (false, true) => evidence == Evidence::Blocks || order == Order::HUGE,
            (false, false) => evidence == Evidence::Blocks || allocated.is_none(),
        }
    })
}

/// Frees of single frames in a row by one thread, one after the other on its CPU but for what an
/// interrupt does in between.
fn runs(acts: &[Act]) -> Vec<Vec<usize>> {
    /// Runs that are open at once on a CPU.
    const OPEN: usize = 4;
    let mut found = Vec::new();
    let mut open: HashMap<u16, Vec<Vec<usize>>> = HashMap::new();
    let single = |act: &Act| act.action == Action::Free && act.order == Order::BASE;
    for (index, act) in acts.iter().enumerate().filter(|(_, act)| act.frame != Frame::NONE) {
        if !single(act) {
            continue;
        }
        let runs = open.entry(act.cpu).or_default();
        let goes_on = |run: &Vec<usize>| {
            let last = acts[run[run.len() - 1]];
            last.thread == act.thread && last.frame.offset(1) == act.frame
        };
        if let Some(at) = runs.iter().rposition(goes_on) {
            runs[at].push(index);
            let run = runs.remove(at);
            runs.push(run);
            continue;
        }
        if runs.len() == OPEN {
            found.push(runs.remove(0));
        }
        runs.push(vec![index]);
    }
    found.extend(open.into_values().flatten());
    found.retain(|run| run.len() > 1);
    found
}

/// For each free of a frame, the next event that names it; and the size of the block that it was
/// allocated in, where an event shows it.
fn next_events(acts: &[Act], frames: usize) -> (HashMap<usize, Next>, HashMap<usize, Order>) {
    let mut allocated = vec![None; frames];
    let mut split = HashMap::new();
    let mut last_freed: Vec<Option<usize>> = vec![None; frames];
    let mut found = HashMap::new();
    for (index, act) in acts.iter().enumerate() {
        if act.frame == Frame::NONE || act.is_aside() {
            continue;
        }
        let block = act.frame.index()..act.frame.index() + act.order.frames() as usize;
        if let Action::Alloc(..) = act.action {
            allocated[block.clone()].fill(Some(act.order));
        }
        for (at, freed) in last_freed[block].iter_mut().enumerate() {
            let Some(freed) = freed.take() else { continue };
            let next = match act.action {
                Action::Alloc(..) | Action::Drain(_) if at == 0 => Next::Listed(act.order),
                Action::Locked(_) | Action::Fallback { .. } | Action::Isolated { .. } => Next::Free,
                _ => Next::Other,
            };
            found.insert(freed, next);
        }
        if act.action == Action::Free && act.order == Order::BASE {
            last_freed[act.frame.index()] = Some(index);
            if let Some(order) = allocated[act.frame.index()].take() {
                split.insert(index, order);
            }
        }
    }
    (found, split)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exact::threads::By;
    use prairie_frames::MigrateType;
    use prairie_trace::GfpFlags;

    fn act(frame: u32, order: u8, action: Action) -> Act {
        let order = Order::new(order).unwrap();
        Act { cpu: 0, frame: Frame(frame), order, action, by: By::Program, time_ns: 0, thread: 1 }
    }

    fn alloc(frame: u32, order: u8) -> Act {
        act(frame, order, Action::Alloc(MigrateType::Unmovable, GfpFlags(0)))
    }

    fn join_all(acts: &mut [Act]) {
        join(acts, acts.len(), 64);
    }

    fn frees(acts: &[Act]) -> Vec<(u32, u8)> {
        let free = acts.iter().filter(|act| act.action == Action::Free);
        free.map(|act| (act.frame.0, act.order.get())).collect()
    }

    #[test]
    fn a_run_is_joined_where_the_block_leaves_as_one() {
        let mut acts: Vec<Act> = (4..12).map(|frame| act(frame, 0, Action::Free)).collect();
        acts.extend([alloc(4, 2), alloc(8, 1), alloc(10, 0), alloc(11, 0)]);
        join_all(&mut acts);
        assert_eq!(frees(&acts), [(4, 2), (8, 1), (10, 0), (11, 0)]);
        // At the last of its frames.
        assert_eq!((acts[2].action, acts[3].action), (Action::Joined, Action::Free));
    }

    #[test]
    fn a_drain_gives_the_size_too() {
        let mut acts: Vec<Act> = (4..8).map(|frame| act(frame, 0, Action::Free)).collect();
        acts.push(act(4, 2, Action::Drain(MigrateType::Unmovable)));
        join_all(&mut acts);
        assert_eq!(frees(&acts), [(4, 2)]);
    }

    #[test]
    fn frames_that_leave_one_by_one_stay_apart() {
        let mut acts: Vec<Act> = (4..8).map(|frame| act(frame, 0, Action::Free)).collect();
        acts.extend((4..8).map(|frame| alloc(frame, 0)));
        let before = frees(&acts);
        join_all(&mut acts);
        assert_eq!(frees(&acts), before);
        // Not a run: another thread's, or not in a row.
        let mut acts = vec![act(4, 0, Action::Free), act(6, 0, Action::Free), alloc(4, 1)];
        join_all(&mut acts);
        assert_eq!(frees(&acts), [(4, 0), (6, 0)]);
    }

    #[test]
    fn an_interrupt_does_not_end_a_run() {
        let mut acts: Vec<Act> = (4..8).map(|frame| act(frame, 0, Action::Free)).collect();
        acts.insert(2, act(20, 0, Action::Free));
        acts.push(alloc(4, 2));
        join_all(&mut acts);
        assert_eq!(frees(&acts), [(20, 0), (4, 2)]);
    }

    #[test]
    fn a_block_too_large_for_lists_is_next_taken_from_the_free_lists() {
        let mut acts: Vec<Act> = (16..32).map(|frame| act(frame, 0, Action::Free)).collect();
        acts.push(act(16, 3, Action::Locked(MigrateType::Unmovable)));
        let mut singles = acts.clone();
        join_all(&mut acts);
        assert_eq!(frees(&acts), [(16, 4)]);
        // Frames that went back one by one come from a per-CPU list.
        singles.push(act(25, 0, Action::Drain(MigrateType::Unmovable)));
        let before = frees(&singles);
        join_all(&mut singles);
        assert_eq!(frees(&singles), before);
    }

    #[test]
    fn a_split_block_that_nothing_names_again_goes_back_whole() {
        let run = || (4..6).map(|frame| act(frame, 0, Action::Free));
        let mut split: Vec<Act> = std::iter::once(alloc(4, 1)).chain(run()).collect();
        join_all(&mut split);
        assert_eq!(frees(&split), [(4, 1)]);
        let mut single: Vec<Act> = [alloc(4, 0), alloc(5, 0)].into_iter().chain(run()).collect();
        join_all(&mut single);
        assert_eq!(frees(&single), [(4, 0), (5, 0)]);
    }
}
