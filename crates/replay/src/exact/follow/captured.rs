//! Blocks that direct compaction gives directly to the request that it is for.
//!
//! A thread that compacts memory for a request keeps the first block of that size that its own frees
//! complete, before it comes to a free list (`compaction_capture`). The record has the allocation of
//! a block that nothing took from a list.

use std::collections::HashMap;

use prairie_frames::free_area::End;
use prairie_frames::{Frame, MigrateType, Order};

use super::{Direct, Follow, NEVER};
use crate::exact::act::{Act, Action};
use crate::exact::threads::By;

/// For each act of a thread while it compacts memory for a request: the allocation of the block that
/// it captures, if it captures one.
pub(super) fn captures(acts: &[Act], frames: usize) -> Vec<u32> {
    let captured = captured_allocations(acts, frames);
    let mut found = vec![NEVER; acts.len()];
    let mut ends_with: HashMap<i32, u32> = HashMap::new();
    for (index, act) in acts.iter().enumerate().rev() {
        if let Action::Alloc(..) = act.action {
            let allocation = if captured[index] { index as u32 } else { NEVER };
            ends_with.insert(act.thread, allocation);
        } else if let Some(&allocation) = ends_with.get(&act.thread) {
            found[index] = allocation;
        }
    }
    // What reports that a block came to a list does not say on whose account.
    let mut works_for: HashMap<i32, By> = HashMap::new();
    for (act, found) in acts.iter().zip(&mut found) {
        match (act.action, act.by) {
            (Action::Alloc(..), _) => drop(works_for.remove(&act.thread)),
            (_, By::Program) => {}
            (_, by) => drop(works_for.insert(act.thread, by)),
        }
        if works_for.get(&act.thread) != Some(&By::Compaction) {
            *found = NEVER;
        }
    }
    for (freed, allocation) in completed(acts, &captured, frames) {
        found[freed] = allocation;
    }
    found
}

/// The last free into each captured block, with the allocation of the block, if the thread that captures
/// it made the free. Nothing need show that the thread compacts then: it may not have isolated anything,
/// and it may allocate smaller blocks for what it does before it logs the captured one.
fn completed(acts: &[Act], captured: &[bool], frames: usize) -> Vec<(usize, u32)> {
    let mut last: Vec<u32> = vec![NEVER; frames];
    let mut found = Vec::new();
    for (index, act) in acts.iter().enumerate() {
        if act.frame == Frame::NONE || act.is_aside() {
            continue;
        }
        let block = act.frame.index()..act.frame.index() + act.order.frames() as usize;
        if captured[index] {
            let freed = last[block.clone()].iter().filter(|&&last| last != NEVER).max();
            let own = freed.filter(|&&freed| acts[freed as usize].thread == act.thread);
            found.extend(own.map(|&freed| (freed as usize, index as u32)));
        }
        last[block].fill(index as u32);
    }
    found
}

/// Which acts allocate a larger block that did not leave a list as such.
fn captured_allocations(acts: &[Act], frames: usize) -> Vec<bool> {
    let mut last: Vec<Option<(Order, Action)>> = vec![None; frames];
    let mut captured = vec![false; acts.len()];
    for (index, act) in acts.iter().enumerate() {
        if act.frame == Frame::NONE || act.is_aside() {
            continue;
        }
        let first = act.frame.index();
        if matches!(act.action, Action::Alloc(..)) && act.order > Order::BASE {
            captured[index] = last[first].is_some_and(|(order, action)| {
                let lists = matches!(action, Action::Locked(_) | Action::Free | Action::Listed);
                !lists || order != act.order
            });
        }
        last[first..first + act.order.frames() as usize].fill(Some((act.order, act.action)));
    }
    captured
}

impl Follow<'_> {
    /// Frees a block that is on no list into the free lists of a type, unless the thread that frees it
    /// captures the block that it completes.
    pub(super) fn give(
        &mut self,
        index: usize,
        (frame, order): (Frame, Order),
        migrate_type: MigrateType,
        end: Option<End>,
    ) {
        let machine = &mut self.machine;
        let request = self.captures[index];
        let allocation = self.recording.acts.get(request as usize).filter(|allocation| {
            !self.captured.contains(&request)
                && machine.linux.zone_index(allocation.frame) == machine.linux.zone_index(frame)
        });
        let Some(allocation) = allocation else {
            machine.linux.give_to_lists(&mut machine.table, frame, order, migrate_type, end);
            return;
        };
        let block = ((frame, order), migrate_type, end);
        let wanted = allocation.order;
        let Some(guessed) = machine.linux.give_or_capture(&mut machine.table, block, wanted) else {
            return;
        };
        if guessed != allocation.frame {
            machine.undo_take(guessed, wanted, migrate_type);
        }
        self.captured.insert(request);
        self.direct.insert(allocation.frame, Direct { guessed: Some(guessed), act: index });
        self.result.hidden.captured += 1;
    }
}

#[cfg(test)]
mod tests {
    use prairie_trace::GfpFlags;

    use super::*;

    fn act(thread: i32, by: By, action: Action, frame: u32, order: u8) -> Act {
        let order = Order::new(order).unwrap();
        Act { cpu: 0, frame: Frame(frame), order, action, by, time_ns: 0, thread }
    }

    #[test]
    fn a_thread_that_compacts_captures_what_left_no_list() {
        let (movable, gfp) = (MigrateType::Movable, GfpFlags(0));
        let drain = |thread, by, frame| act(thread, by, Action::Drain(movable), frame, 0);
        let alloc = |thread, frame| act(thread, By::Program, Action::Alloc(movable, gfp), frame, 9);
        let acts = [
            drain(1, By::Program, 0),
            drain(1, By::Compaction, 1),
            drain(2, By::Program, 2),
            act(1, By::Program, Action::PastLists { to_tail: false }, 4, 2),
            alloc(1, 0),
            act(1, By::Compaction, Action::Locked(movable), 512, 9),
            alloc(1, 512),
        ];
        assert_eq!(captures(&acts, 1024), [NEVER, 4, NEVER, 4, NEVER, NEVER, NEVER]);
    }

    #[test]
    fn the_last_free_into_a_captured_block_completes_it() {
        let (movable, gfp) = (MigrateType::Movable, GfpFlags(0));
        let act = |action, frame, order| act(1, By::Program, action, frame, order);
        let acts = [
            act(Action::Drain(movable), 0, 0),
            act(Action::Drain(movable), 7, 0),
            act(Action::Locked(movable), 600, 1),
            act(Action::Alloc(movable, gfp), 600, 1),
            act(Action::Alloc(movable, gfp), 0, 9),
        ];
        assert_eq!(captures(&acts, 1024), [NEVER, 4, NEVER, NEVER, NEVER]);
    }
}
