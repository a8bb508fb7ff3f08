//! What the kernel does with a memory block that comes online, after its frames are free.
//!
//! It opens the block pageblock by pageblock, and then sets watermarks.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use prairie_frames::{Frame, Order};

use super::act::{Act, Action, Resized};
use super::snapshot::SECTION;

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

#[cfg(test)]
pub(super) mod tests {
    use prairie_frames::MigrateType;

    use super::*;

    const BLOCK: u32 = SECTION as u32;

    pub(crate) fn act(action: Action, frame: u32, order: Order) -> Act {
        Act { frame: Frame(frame), order, thread: 1, ..Act::aside(action, 0) }
    }

    /// A section comes online.
    pub(crate) fn online(section: u32) -> Vec<Act> {
        let frames = (section * BLOCK..(section + 1) * BLOCK).step_by(1024);
        frames.map(|frame| act(Action::HandOver, frame, Order::LARGEST_FREE)).collect()
    }

    pub(crate) fn aside(action: Action) -> Act {
        Act { thread: 1, ..Act::aside(action, 0) }
    }

    pub(crate) const WRITTEN: Action =
        Action::Resized(Resized::Watermarks { min_free_kib: 4096, scale_factor: 10 });

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
}
