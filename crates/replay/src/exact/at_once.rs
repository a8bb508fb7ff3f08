//! Orders blocks that several threads free at once.
//!
//! Late initialization runs on several CPUs. A free is logged before its thread takes the zone's lock,
//! and a virtual CPU may be paused in between, so the record's order of two threads' frees need not be
//! that of the free list. A block reaches the list after its event and before the next event of its
//! thread. All join at the tail, so the block that leaves first also came first.

use std::collections::{BTreeMap, HashMap, VecDeque};

use prairie_frames::{Frame, Order};

use super::act::{Act, Action};

/// What no later act names.
const NEVER: usize = usize::MAX;

/// Puts blocks of the largest order that several threads handed over at once in the order in which
/// acts before `end` name them, as far as the record allows it. The memory has `frames` frames.
/// Returns the number of blocks that came earlier than the record had them.
pub fn order_hand_overs(acts: &mut [Act], end: usize, frames: usize) -> u64 {
    let Some(last) = acts.iter().rposition(is_hand_over) else { return 0 };
    let blocks = blocks(&acts[..end], last + 1, frames);
    let (mut moved, mut at) = (0, 0);
    for run in acts[..=last].chunk_by_mut(|one, next| is_hand_over(one) && is_hand_over(next)) {
        let blocks = &blocks[at..at + run.len()];
        at += run.len();
        if run.iter().any(|act| act.thread != run[0].thread) {
            moved += merge(run, blocks);
        }
    }
    moved
}

/// A block that was handed over.
#[derive(Clone, Copy)]
struct Block {
    /// The act that logs it.
    logged: usize,
    /// The next act of its thread: it is on the free list by then.
    arrived: usize,
    /// The next act that names a frame of it.
    named: usize,
}

fn is_hand_over(act: &Act) -> bool {
    act.action == Action::HandOver && act.order == Order::LARGEST_FREE
}

/// The first `count` acts as blocks; only entries of hand-overs are used.
fn blocks(acts: &[Act], count: usize, frames: usize) -> Vec<Block> {
    let mut named = vec![NEVER; frames];
    let mut arrived = HashMap::new();
    let mut blocks = vec![Block { logged: 0, arrived: NEVER, named: NEVER }; count];
    for (index, act) in acts.iter().enumerate().rev() {
        if act.is_aside() {
            continue;
        }
        let next = arrived.insert(act.thread, index).unwrap_or(NEVER);
        if act.frame == Frame::NONE {
            continue;
        }
        let first = act.frame.index();
        let block = &mut named[first..first + act.order.frames() as usize];
        if index < count {
            let named = block.iter().copied().min().unwrap_or(NEVER);
            blocks[index] = Block { logged: index, arrived: next, named };
        }
        block.fill(index);
    }
    blocks
}

/// Merges the queues of the threads: of the blocks that may be next, the one that is named first.
fn merge(run: &mut [Act], blocks: &[Block]) -> u64 {
    let mut queues: BTreeMap<i32, VecDeque<usize>> = BTreeMap::new();
    for (at, act) in run.iter().enumerate() {
        queues.entry(act.thread).or_default().push_back(at);
    }
    let mut order = Vec::with_capacity(run.len());
    while order.len() < run.len() {
        let heads = || queues.values().filter_map(|queue| queue.front().copied());
        let soonest = heads().map(|at| blocks[at].arrived).min().unwrap_or(NEVER);
        let may_be_next = heads().filter(|&at| blocks[at].logged < soonest);
        let Some(next) = may_be_next.min_by_key(|&at| (blocks[at].named, at)) else { break };
        order.push(next);
        queues.entry(run[next].thread).or_default().pop_front();
    }
    let sorted: Vec<Act> = order.iter().map(|&at| run[at]).collect();
    run.copy_from_slice(&sorted);
    order.iter().enumerate().filter(|&(place, &was)| place < was).count() as u64
}

#[cfg(test)]
mod tests {
    use prairie_frames::MigrateType;

    use super::super::threads::By;
    use super::*;

    const SIZE: u32 = 1024;

    fn act(cpu: u16, block: u32, action: Action) -> Act {
        let (by, time_ns, thread) = (By::Program, 0, i32::from(cpu));
        Act {
            cpu,
            frame: Frame(block * SIZE),
            order: Order::LARGEST_FREE,
            action,
            by,
            time_ns,
            thread,
        }
    }

    fn handed(cpu: u16, block: u32) -> Act {
        act(cpu, block, Action::HandOver)
    }

    fn taken(block: u32) -> Act {
        let order = Order::BASE;
        Act { order, ..act(9, block, Action::Locked(MigrateType::Movable)) }
    }

    fn ordered(mut acts: Vec<Act>) -> (Vec<u32>, u64) {
        let end = acts.len();
        let moved = order_hand_overs(&mut acts, end, 16 * SIZE as usize);
        let blocks = acts.iter().filter(|act| act.action == Action::HandOver);
        (blocks.map(|act| act.frame.0 / SIZE).collect(), moved)
    }

    #[test]
    fn the_block_that_leaves_first_came_first() {
        // As recordings had it: CPU 0 logged its block first, and stood still.
        let acts = vec![handed(0, 9), handed(1, 2), handed(1, 3), taken(2), taken(3), taken(9)];
        assert_eq!(ordered(acts), (vec![2, 3, 9], 2));
    }

    #[test]
    fn a_thread_that_goes_on_has_handed_its_block_over() {
        let mut acts = vec![handed(0, 9), handed(1, 2), handed(0, 10), handed(1, 3)];
        acts.extend([taken(2), taken(3), taken(9), taken(10)]);
        assert_eq!(ordered(acts), (vec![2, 9, 3, 10], 2));
    }

    #[test]
    fn a_thread_keeps_its_order() {
        let acts = vec![handed(0, 9), handed(0, 8), handed(1, 2), taken(8), taken(2), taken(9)];
        assert_eq!(ordered(acts), (vec![9, 8, 2], 0));
    }

    #[test]
    fn what_is_never_named_stays() {
        assert_eq!(ordered(vec![handed(0, 9), handed(1, 2)]), (vec![9, 2], 0));
    }
}
