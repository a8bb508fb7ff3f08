//! Blocks that stand ahead of the one that an allocation got from its per-CPU list.

use prairie_frames::Frame;

use super::Follow;
use crate::exact::act::{Act, Action};

/// Why a list had blocks ahead of the one that an allocation got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ahead {
    /// They came after the block was taken, the first of them with this act. It was logged later.
    Later(usize),
    /// Other threads had taken them, and log that later.
    LoggedLate,
    /// They were taken without an event.
    Unseen,
    /// No rule explains them.
    Unexplained,
}

impl Follow<'_> {
    /// Explains the blocks `ahead` of the one that an allocation got.
    pub(super) fn explain(&self, index: usize, act: &Act, ahead: &[Frame]) -> Ahead {
        let came = |frame: &Frame| self.entered[frame.index()].0 as usize;
        let own = came(&act.frame);
        if ahead.iter().all(|&frame| self.is_unseen(frame)) {
            return Ahead::Unseen;
        }
        // What was refilled ahead of it came before it.
        let since = self.cpus[usize::from(act.cpu)].last_alloc.max(own);
        let late = |frame: &&Frame| came(frame) > since;
        let interrupted =
            ahead.iter().filter(|&&frame| !self.is_unseen(frame)).all(|frame| late(&frame));
        let first = match interrupted {
            // An interrupt freed them after the last allocation.
            true => ahead.iter().filter(late).map(came).min(),
            false => ahead.iter().map(came).min(),
        };
        let later = first.filter(|&first| {
            let may_be = first > own && !self.is_locked(own, first);
            may_be && (interrupted || self.was_preempted(index, act, first))
        });
        let logged_late = ahead.iter().all(|&frame| self.is_logged_late(frame, index));
        match later {
            Some(first) if !(logged_late && self.was_counted(act, first)) => Ahead::Later(first),
            _ if logged_late => Ahead::LoggedLate,
            _ => Ahead::Unexplained,
        }
    }

    /// Whether the record showed, with an act or later, how many frames the lists had that the block
    /// of an allocation is on: it was counted.
    fn was_counted(&self, act: &Act, first: usize) -> bool {
        let zone = self.machine.linux.zone_index(act.frame);
        self.counted[zone][usize::from(act.cpu)] >= first
    }

    /// Whether a frame may have left its list without an event before there were probes.
    pub(super) fn is_unseen(&self, frame: Frame) -> bool {
        self.is_silent(frame) && !self.is_told(frame)
    }

    /// Whether a list was in use from the act with which one block came to it to that of another: a
    /// thread freed both as a batch, so nothing was taken in between. The frees of a batch are logged
    /// before the first of its blocks comes to the list.
    fn is_locked(&self, from: usize, to: usize) -> bool {
        let acts = &self.recording.acts;
        let (one, other) = (&acts[from], &acts[to]);
        let zone = |act: &Act| self.machine.linux.zone_index(act.frame);
        let together = |act: &Act| act.action == Action::Listed && act.thread == one.thread;
        let lets_go = |act: &Act| match act.action {
            // The lists of another zone are locked instead.
            Action::Listed => zone(act) != zone(one),
            Action::Drain(_) => self.drains_by_batch,
            Action::Free => act.frame == other.frame,
            _ => false,
        };
        let mut between = acts[from + 1..to].iter().filter(|act| act.cpu == one.cpu);
        one.cpu == other.cpu
            && together(one)
            && together(other)
            && !between.any(|act| !act.is_aside() && (act.thread != one.thread || lets_go(act)))
    }
}
