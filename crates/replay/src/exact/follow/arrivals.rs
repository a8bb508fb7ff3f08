//! Blocks that come to a list later than their free is logged.
//!
//! A free is logged before its block comes to a list. If its thread is preempted in between, what other
//! threads free meanwhile comes there first. Probes report when blocks come to a list; without them, the
//! sign is an allocation that gets a block from behind those that other threads have freed since.

use prairie_frames::Frame;

use super::Follow;
use crate::exact::act::{Act, Action};
use crate::exact::script::Moment;

impl Follow<'_> {
    /// Whether the block that an allocation got came to its list after those that seemed to be `ahead` of
    /// it: the thread that freed it does nothing between its free and theirs.
    pub(super) fn suspect_arrival(&mut self, index: usize, act: &Act, ahead: &[Frame]) {
        let acts = &self.recording.acts;
        let came = |frame: Frame| self.entered[frame.index()].0 as usize;
        let freed = came(act.frame);
        let Some(&Act { action: Action::Free, thread, .. }) = acts.get(freed) else { return };
        let own = |at: &usize| acts[*at].thread == thread;
        let resumed = (freed + 1..index).find(own).unwrap_or(index);
        if ahead.iter().all(|&frame| (freed..resumed).contains(&came(frame))) {
            self.found.arrivals.insert(freed, resumed);
        }
    }

    /// Blocks come to their lists that were freed before other acts.
    pub(super) fn arrive_before(&mut self, index: usize) {
        let due = self.known.arrivals.iter().filter(|&(_, &before)| before == index);
        let mut due: Vec<usize> = due.map(|(&freed, _)| freed).collect();
        due.sort_unstable();
        for freed in due {
            let act = self.recording.acts[freed];
            self.act(freed, &act);
        }
    }

    /// When a block that is freed comes to its list.
    pub(super) fn arrival_of(&self, index: usize) -> Moment {
        self.known.arrivals.get(&index).map_or(Moment::at(index), |&before| Moment::before(before))
    }
}
