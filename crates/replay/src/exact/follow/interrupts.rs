//! Frees by interrupts that find a per-CPU list in use.
//!
//! Until 6.2, and 6.1.57, interrupts were off while a list was in use. Since then an interrupt that wants
//! it goes past it, without an event. Where frames are freed as a batch, the record shows it: the list
//! is in use from the first that comes to it to the last. Releases do not matter here: with interrupts
//! off nothing is freed in between.

use std::collections::{HashMap, HashSet};

use prairie_frames::Frame;

use crate::exact::act::Action;
use crate::exact::act::goes_through_cpu;
use crate::exact::recording::Recording;

/// The acts that are frees between two frames of one batch that come to a list, on its CPU.
pub(super) fn frees(recording: &Recording) -> HashSet<usize> {
    let mut found = HashSet::new();
    let batched = batched_frees(recording);
    for cpu in 0..recording.cpus {
        // Batches on this CPU: a new one begins with the first free after a frame came to a list.
        let mut batch = 0u32;
        let mut of_frame: HashMap<Frame, u32> = HashMap::new();
        let mut last_came = None;
        let mut between: Vec<usize> = Vec::new();
        let acts = recording.acts.iter().enumerate().filter(|(_, act)| act.cpu == cpu);
        for (index, act) in acts {
            match act.action {
                Action::Free if batched.contains(&index) => {
                    if last_came == Some(batch) {
                        batch += 1;
                    }
                    of_frame.insert(act.frame, batch);
                }
                Action::Free if goes_through_cpu(act.order) => between.push(index),
                Action::Listed => {
                    let came = of_frame.remove(&act.frame);
                    if came.is_some() && came == last_came {
                        // Another thread runs there only while the lists are not in use, and those
                        // of other zones are not.
                        let zone = |frame| recording.layout.zone_of(frame);
                        let locked = |&free: &usize| {
                            let free = &recording.acts[free];
                            free.thread == act.thread && zone(free.frame) == zone(act.frame)
                        };
                        found.extend(between.drain(..).filter(locked));
                    }
                    between.clear();
                    last_came = came;
                }
                _ => {}
            }
        }
    }
    found
}

/// Frees that are followed by the frame's coming to a list as one of a batch.
fn batched_frees(recording: &Recording) -> HashSet<usize> {
    let mut freed: HashMap<Frame, usize> = HashMap::new();
    let mut found = HashSet::new();
    for (index, act) in recording.acts.iter().enumerate() {
        match act.action {
            Action::Free => drop(freed.insert(act.frame, index)),
            Action::Listed => found.extend(freed.remove(&act.frame)),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use prairie_frames::layout::{Watermarks, ZoneSpan};
    use prairie_frames::{KernelVersion, Layout, Order, Pfn, ZoneKind};

    use super::*;
    use crate::exact::act::Act;
    use crate::exact::threads::By;

    fn act(action: Action, frame: u32, thread: i32) -> Act {
        let (order, by) = (Order::BASE, By::Program);
        Act { cpu: 0, frame: Frame(frame), order, action, by, time_ns: 0, thread }
    }

    fn recording(acts: Vec<Act>) -> Recording {
        let zone = ZoneSpan {
            node: 0,
            kind: ZoneKind::Normal,
            start: Pfn(0),
            spanned: 512,
            managed: 512,
            watermarks: Watermarks::default(),
            lowmem_reserve: [0; 6],
        };
        let layout = Layout::new(vec![zone]).unwrap();
        Recording { acts, ..Recording::empty(layout, KernelVersion::V6_1) }
    }

    /// Thread 7 frees frames 1 and 2 as a batch. Frame 3 is freed in between, frame 4 after it.
    #[test]
    fn a_free_between_frames_of_a_batch_goes_past_the_list() {
        let past = |thread| {
            let acts = vec![
                act(Action::Free, 1, 7),
                act(Action::Free, 2, 7),
                act(Action::Listed, 1, 7),
                act(Action::Free, 3, thread),
                act(Action::Listed, 2, 7),
                act(Action::Free, 4, 7),
            ];
            frees(&recording(acts))
        };
        assert_eq!(past(7), HashSet::from([3]));
        // Another thread only runs while the list is not in use.
        assert_eq!(past(8), HashSet::new());
    }
}
