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
    /// Takes a block before a free that finds the lists full with it, and does not drain: a thread has
    /// taken the block, before others were freed to the head of its list, and logs it as the next
    /// allocation on the CPU.
    pub(super) fn take_before_free(&mut self, index: usize, cpu: u16, zone: usize) {
        let soon = self.recording.acts.iter().enumerate().skip(index + 1).take(PREEMPTED);
        let allocates = |act: &Act| act.cpu == cpu && matches!(act.action, Action::Alloc(..));
        let Some((at, act)) = soon.into_iter().find(|(_, act)| allocates(act)) else { return };
        let Action::Alloc(migrate_type, _) = act.action else { return };
        let (frame, order, before) = (act.frame, act.order, self.before_by_thread[at]);
        let interrupts = act.thread == self.recording.acts[index].thread;
        let lists = &self.machine.linux;
        let list = || lists.cached(zone, cpu, order, migrate_type);
        let came = |frame: Frame| self.entered[frame.index()].0;
        let ahead = || list().take_while(|&listed| listed != frame);
        if lists.zone_index(frame) != zone
            || !list().any(|listed| listed == frame)
            || !ahead().all(|listed| came(listed) > came(frame))
        {
            return;
        }
        let first = ahead().map(|listed| came(listed) as usize).min().unwrap_or(index);
        if before != NEVER && before as usize >= first {
            return;
        }
        match interrupts {
            true => self.take_before_interrupt(index, (zone, cpu), frame),
            false => self.take_early(frame, Moment::before(first)),
        }
    }

    /// Takes a block before all frees of the interrupt that an act belongs to.
    fn take_before_interrupt(&mut self, index: usize, (zone, cpu): (usize, u16), frame: Frame) {
        let first = self.first_of_interrupt(index);
        let freed = self.freed_between(first, index, (zone, cpu));
        // Only what was freed before counts half.
        let tuning = self.machine.linux.tuning(zone, cpu);
        let free_count = tuning.free_count.saturating_sub(freed);
        self.machine.linux.set_tuning(zone, cpu, Tuning { free_count, ..tuning });
        self.take_early(frame, Moment::before(first));
        let tuning = self.machine.linux.tuning(zone, cpu);
        let free_count = tuning.free_count + freed;
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
