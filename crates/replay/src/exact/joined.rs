//! Runs of frames that are freed as larger blocks.
//!
//! Since 7.1 `vfree` logs each frame and then returns each run of frames in a row as the largest
//! aligned blocks that it holds (`free_prepared_contig_range`). A block has no event of its own, but
//! the next event that names it has its size: it leaves a per-CPU list as it came there.

use std::collections::HashMap;

use prairie_frames::placement::linux::Version;
use prairie_frames::{Frame, Order};

use super::act::{Act, Action};

/// The first release that frees runs as blocks (mm: page_alloc: optimize free_contig_range).
pub const RUNS: Version = Version::new(7, 1);

/// Turns the frees of frames in a row into frees of the blocks that they went back as, each at the
/// last of its frames.
pub fn join(acts: &mut [Act], frames: usize) {
    let next = next_block(acts, frames);
    for run in runs(acts) {
        let mut at = 0;
        while at < run.len() {
            let first = acts[run[at]].frame;
            let order = next.get(&run[at]).copied().filter(|&order| {
                order > Order::BASE
                    && first.align_down(order) == first
                    && at + order.frames() as usize <= run.len()
            });
            let Some(order) = order else {
                at += 1;
                continue;
            };
            let last = at + order.frames() as usize - 1;
            for &part in &run[at..last] {
                acts[part] = Act { frame: Frame::NONE, action: Action::Joined, ..acts[part] };
            }
            acts[run[last]] = Act { frame: first, order, ..acts[run[last]] };
            at = last + 1;
        }
    }
}

/// Frees of single frames in a row by one thread, one after the other on its CPU.
fn runs(acts: &[Act]) -> Vec<Vec<usize>> {
    let mut found = Vec::new();
    let mut open: HashMap<u16, Vec<usize>> = HashMap::new();
    for (index, act) in acts.iter().enumerate().filter(|(_, act)| act.frame != Frame::NONE) {
        let run = open.entry(act.cpu).or_default();
        let single = act.action == Action::Free && act.order == Order::BASE;
        let goes_on = run.last().is_some_and(|&last: &usize| {
            single && acts[last].thread == act.thread && acts[last].frame.offset(1) == act.frame
        });
        if !goes_on {
            let ended = std::mem::take(run);
            found.extend((ended.len() > 1).then_some(ended));
        }
        if single {
            run.push(index);
        }
    }
    found.extend(open.into_values().filter(|run| run.len() > 1));
    found
}

/// For each free of a frame, the size of the block that next leaves a per-CPU list from there.
fn next_block(acts: &[Act], frames: usize) -> HashMap<usize, Order> {
    let mut last_freed: Vec<Option<usize>> = vec![None; frames];
    let mut found = HashMap::new();
    for (index, act) in acts.iter().enumerate().filter(|(_, act)| act.frame != Frame::NONE) {
        let block = act.frame.index()..act.frame.index() + act.order.frames() as usize;
        let freed = last_freed[act.frame.index()];
        last_freed[block].fill(None);
        match act.action {
            Action::Free if act.order == Order::BASE => {
                last_freed[act.frame.index()] = Some(index);
            }
            Action::Alloc(..) | Action::Drain(_) => {
                found.extend(freed.map(|freed| (freed, act.order)));
            }
            _ => {}
        }
    }
    found
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

    fn frees(acts: &[Act]) -> Vec<(u32, u8)> {
        let free = acts.iter().filter(|act| act.action == Action::Free);
        free.map(|act| (act.frame.0, act.order.get())).collect()
    }

    #[test]
    fn a_run_is_joined_where_the_block_leaves_as_one() {
        let mut acts: Vec<Act> = (4..12).map(|frame| act(frame, 0, Action::Free)).collect();
        acts.extend([alloc(4, 2), alloc(8, 1), alloc(10, 0), alloc(11, 0)]);
        join(&mut acts, 64);
        assert_eq!(frees(&acts), [(4, 2), (8, 1), (10, 0), (11, 0)]);
        // At the last of its frames.
        assert_eq!((acts[2].action, acts[3].action), (Action::Joined, Action::Free));
    }

    #[test]
    fn a_drain_gives_the_size_too() {
        let mut acts: Vec<Act> = (4..8).map(|frame| act(frame, 0, Action::Free)).collect();
        acts.push(act(4, 2, Action::Drain(MigrateType::Unmovable)));
        join(&mut acts, 64);
        assert_eq!(frees(&acts), [(4, 2)]);
    }

    #[test]
    fn frames_that_leave_one_by_one_stay_apart() {
        let mut acts: Vec<Act> = (4..8).map(|frame| act(frame, 0, Action::Free)).collect();
        acts.extend((4..8).map(|frame| alloc(frame, 0)));
        let before = frees(&acts);
        join(&mut acts, 64);
        assert_eq!(frees(&acts), before);
        // Not a run: another thread's, or not in a row.
        let mut acts = vec![act(4, 0, Action::Free), act(6, 0, Action::Free), alloc(4, 1)];
        join(&mut acts, 64);
        assert_eq!(frees(&acts), [(4, 0), (6, 0)]);
    }
}
