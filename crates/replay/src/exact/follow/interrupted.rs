//! Blocks that a thread has taken, and not logged, before a free that finds the lists without them.
//!
//! The lists would be too full with the block, but nothing is drained. If the frees are of the thread
//! that logs the block, they are of an interrupt, and all of them came after the block was taken. That
//! matters for what they drain: as many frames as were freed since a block was taken.

use prairie_frames::Frame;
use prairie_frames::placement::linux::Tuning;

use super::late::PREEMPTED;
use super::{Follow, NEVER};
use crate::exact::act::{Act, Action};
use crate::exact::script::Moment;

impl Follow<'_> {
    /// Takes a block before a free that finds the lists full with it, and does not drain. The thread
    /// with whose name it frees logs the block later, if an interrupt frees. Otherwise the block is the
    /// next that the CPU logs of those that were on its lists.
    pub(super) fn take_before_free(&mut self, index: usize, cpu: u16, zone: usize) {
        let acts = &self.recording.acts;
        let allocates = |at: &usize| acts[*at].cpu == cpu && is_allocation(&acts[*at]);
        let soon = (index + 1..acts.len()).take(PREEMPTED).filter(allocates);
        let own = soon.clone().find(|&at| acts[at].thread == acts[index].thread);
        let began = self.first_of_interrupt(index);
        let came = |at: usize| self.entered[acts[at].frame.index()].0 as usize;
        if let Some(at) = own
            && self.left_before(at, index, (zone, cpu)).is_some()
            && came(at) < began
        {
            return self.take_before_frees((began, index), (zone, cpu), acts[at].frame);
        }
        // What threads log that took nothing before says nothing. What was ahead of a block and is still
        // there when it is logged shows that the block had left.
        let mut taken = soon.filter_map(|at| Some((at, self.left_before(at, index, (zone, cpu))?)));
        let first = taken.clone().next();
        let found = taken.find(|&(at, _)| self.has_others_ahead(at, (zone, cpu))).or(first);
        if let Some((at, began)) = found {
            self.take_before_frees((began, index), (zone, cpu), acts[at].frame);
        }
    }

    /// Whether blocks stand ahead of one on its list, and leave it later than an act logs that one.
    fn has_others_ahead(&self, at: usize, (zone, cpu): (usize, u16)) -> bool {
        let act = &self.recording.acts[at];
        let Action::Alloc(migrate_type, _) = act.action else { return false };
        let mut ahead = self
            .machine
            .linux
            .cached(zone, cpu, act.order, migrate_type)
            .take_while(|&listed| listed != act.frame);
        ahead.any(|frame| {
            let left = self.next[self.entered[frame.index()].0 as usize] as usize;
            let leaves = self.recording.acts.get(left).map(|leaves| leaves.action);
            left > at && matches!(leaves, Some(Action::Alloc(..) | Action::Drain(_)))
        })
    }

    /// The act before which a block left its list, if its allocation, which is logged with `at`, can
    /// have come before `index`: what is ahead of it came later.
    fn left_before(&self, at: usize, index: usize, (zone, cpu): (usize, u16)) -> Option<usize> {
        let act = &self.recording.acts[at];
        let Action::Alloc(migrate_type, _) = act.action else { return None };
        let lists = &self.machine.linux;
        let list = || lists.cached(zone, cpu, act.order, migrate_type);
        let came = |frame: Frame| self.entered[frame.index()].0 as usize;
        let ahead = || list().take_while(|&listed| listed != act.frame).map(came);
        let listed =
            lists.zone_index(act.frame) == zone && list().any(|listed| listed == act.frame);
        if !listed || ahead().any(|ahead| ahead < came(act.frame)) {
            return None;
        }
        let first = ahead().min().unwrap_or(index);
        let before = self.before_by_thread[at];
        (came(act.frame) < first && (before == NEVER || (before as usize) < first)).then_some(first)
    }

    /// Takes a block before frees that began with one act and go on with another.
    fn take_before_frees(
        &mut self,
        (began, index): (usize, usize),
        (zone, cpu): (usize, u16),
        frame: Frame,
    ) {
        let freed = self.freed_between(began, index, (zone, cpu));
        // Only what was freed before counts half.
        self.change_free_count((zone, cpu), |count| count.saturating_sub(freed));
        self.take_early(frame, Moment::before(began));
        self.change_free_count((zone, cpu), |count| count + freed);
    }

    /// Changes the number of frames that a CPU has freed to its lists in a row.
    fn change_free_count(&mut self, (zone, cpu): (usize, u16), change: impl Fn(u32) -> u32) {
        let tuning = self.machine.linux.tuning(zone, cpu);
        let free_count = change(tuning.free_count);
        self.machine.linux.set_tuning(zone, cpu, Tuning { free_count, ..tuning });
    }

    /// The first of the frees in a row that an act ends on its CPU. A drain between them would have
    /// found the block on its list.
    fn first_of_interrupt(&self, index: usize) -> usize {
        let acts = &self.recording.acts;
        let Act { cpu, thread, .. } = acts[index];
        let frees = |act: &Act| {
            let frees =
                matches!(act.action, Action::Free | Action::Listed | Action::PastLists { .. });
            act.thread == thread && (frees || act.is_aside())
        };
        let before = (0..=index).rev().filter(|&at| acts[at].cpu == cpu);
        before.take_while(|&at| frees(&acts[at])).last().unwrap_or(index)
    }

    /// Frames that came to a CPU's lists for a zone between two acts.
    fn freed_between(&self, from: usize, to: usize, (zone, cpu): (usize, u16)) -> u32 {
        let came = |at: &usize| {
            let act = &self.recording.acts[*at];
            act.cpu == cpu
                && act.frame != Frame::NONE
                && self.entered[act.frame.index()].0 as usize == *at
                && self.machine.linux.zone_index(act.frame) == zone
        };
        let frames = |at: usize| self.recording.acts[at].order.frames() as u32;
        (from..to).filter(came).map(frames).sum()
    }
}

fn is_allocation(act: &Act) -> bool {
    matches!(act.action, Action::Alloc(..))
}
