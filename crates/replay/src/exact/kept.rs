//! Frames that compaction takes back.
//!
//! Since 6.9 compaction logs `mm_page_free` of a target that nothing moved into, and puts it back on a
//! list of its own (`compaction_free`). When compaction gives such a frame up, it logs the same again,
//! and the frame then comes to a list.

use std::collections::HashSet;

use prairie_frames::{Frame, KernelVersion};

use super::act::{Act, Action};
use super::threads::By;

/// The first release that logs such frames as freed.
const LOGGED: KernelVersion = KernelVersion::new(6, 9);

/// Marks the frees of frames that compaction keeps. From act `lists_from` on, the record says when a
/// freed block comes to a list.
pub fn mark(acts: &mut [Act], version: KernelVersion, lists_from: Option<usize>, frames: usize) {
    if version < LOGGED {
        return;
    }
    let next = next_actions(acts, frames);
    let mut isolated: HashSet<Frame> = HashSet::new();
    for (index, (act, next)) in acts.iter_mut().zip(next).enumerate() {
        if act.frame == Frame::NONE || act.is_aside() {
            continue;
        }
        let block = (0..act.order.frames()).map(|inside| act.frame.offset(inside));
        if let Action::Isolated { .. } = act.action {
            isolated.extend(block);
            continue;
        }
        let stays = match next {
            Some(Action::Free) => true,
            Some(Action::Listed | Action::PastLists { .. }) => false,
            _ => lists_from.is_some_and(|from| index >= from),
        };
        if act.action == Action::Free
            && act.by == By::Compaction
            && stays
            && block.clone().all(|frame| isolated.contains(&frame))
        {
            *act = Act { frame: Frame::NONE, action: Action::Kept, ..*act };
            continue;
        }
        for frame in block {
            isolated.remove(&frame);
        }
    }
}

/// For each act, the next one that names its first frame.
fn next_actions(acts: &[Act], frames: usize) -> Vec<Option<Action>> {
    let mut next = vec![None; acts.len()];
    let mut last = vec![None; frames];
    for (index, act) in acts.iter().enumerate().rev() {
        if act.frame == Frame::NONE || act.is_aside() {
            continue;
        }
        next[index] = last[act.frame.index()];
        let first = act.frame.index();
        last[first..first + act.order.frames() as usize].fill(Some(act.action));
    }
    next
}

#[cfg(test)]
mod tests {
    use prairie_frames::{MigrateType, Order};
    use prairie_trace::GfpFlags;

    use super::*;

    fn act(by: By, action: Action) -> Act {
        Act { cpu: 0, frame: Frame(4), order: Order::BASE, action, by, time_ns: 0, thread: 1 }
    }

    /// Which frees stay, of a frame that compaction isolated before `acts`.
    fn freed(
        acts: &[(By, Action)],
        version: KernelVersion,
        lists_from: Option<usize>,
    ) -> Vec<bool> {
        let isolated = (By::Compaction, Action::Isolated { searched: false });
        let all = std::iter::once(&isolated).chain(acts);
        let mut all: Vec<Act> = all.map(|&(by, action)| act(by, action)).collect();
        mark(&mut all, version, lists_from, 8);
        let frees = all.iter().filter(|act| matches!(act.action, Action::Free | Action::Kept));
        frees.map(|act| act.action == Action::Free).collect()
    }

    #[test]
    fn compaction_logs_frames_that_it_keeps() {
        let (free, user) = ((By::Compaction, Action::Free), (By::Program, Action::Free));
        let listed = (By::Program, Action::Listed);
        let (old, new) = (KernelVersion::V6_1, KernelVersion::new(6, 12));
        assert_eq!(freed(&[free, free, free, listed], new, Some(0)), [false, false, true]);
        // Something moved into the frame in the end.
        assert_eq!(freed(&[free, user, listed], new, Some(0)), [false, true]);
        // Where no probe reports that frames come to lists, another free shows that it did not.
        assert_eq!(freed(&[free, free], new, None), [false, true]);
        assert_eq!(freed(&[free, free], old, None), [true, true]);
    }

    #[test]
    fn a_frame_that_was_allocated_since_is_not_compactions() {
        let gfp = GfpFlags(0);
        let taken = (By::Program, Action::Alloc(MigrateType::Movable, gfp));
        let free = (By::Compaction, Action::Free);
        let new = KernelVersion::new(6, 12);
        assert_eq!(freed(&[taken, free], new, Some(0)), [true]);
    }
}
