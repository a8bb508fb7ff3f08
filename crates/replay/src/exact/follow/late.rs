//! Allocations that are logged after later ones.
//!
//! A thread that has its block may be preempted before the allocation is logged: pages are cleared in
//! between. Other threads then allocate and are logged first. The sign is a block at the head of a
//! list that stays there while blocks behind it leave, and whose allocation another thread logs, as
//! the first thing that it does from then on.

use prairie_frames::{Frame, Order};

use super::Follow;
use crate::exact::act::{Act, Action};
use crate::exact::script::Moment;
use crate::exact::step::Step;
use crate::exact::where_is;

/// The most acts for which a thread is taken to have been preempted (*chosen*).
pub(super) const PREEMPTED: usize = 2000;

impl Follow<'_> {
    /// Whether a block on a per-CPU list was taken before an act by a thread that logs it later.
    pub(super) fn is_logged_late(&self, frame: Frame, index: usize) -> bool {
        let Some((at, later)) = self.later_allocation(frame) else { return false };
        let before = self.before_by_thread[at];
        later.thread != self.recording.acts[index].thread
            && (before == super::NEVER || (before as usize) < index)
    }

    /// Whether the thread that logs an allocation can have taken the block before an act from which on
    /// other blocks came to stand ahead of it: it logs nothing in between, and nothing that was on the
    /// list before then leaves it from ahead of the block. Blocks that were taken before, and only logged
    /// in between, do not count. The act has the CPU of the list, not of the log.
    pub(super) fn was_preempted(&self, index: usize, act: &Act, first: usize) -> bool {
        let acts = &self.recording.acts;
        let Action::Alloc(migrate_type, _) = act.action else { return false };
        let between = &acts[first..index];
        if between.len() > PREEMPTED {
            return false;
        }
        let takes = |other: &Act| {
            other.thread == act.thread
                && matches!(other.action, Action::Alloc(..) | Action::Locked(_))
        };
        // What an interrupt frees meanwhile has the thread's name as well.
        let switched = between.iter().any(|other| other.thread != act.thread && !other.is_aside());
        if !switched || between.iter().any(takes) {
            return false;
        }
        let zone = self.machine.linux.zone_index(act.frame);
        let left_before = |at: usize| {
            let taken = self.taken_before.get(&((first + at) as u32));
            taken.is_some_and(|&taken| taken <= Moment::before(first))
        };
        let leaves = between.iter().enumerate().filter(|&(at, other)| {
            matches!(other.action, Action::Alloc(other, _) if other == migrate_type)
                && (other.cpu, other.order) == (act.cpu, act.order)
                && self.machine.linux.zone_index(other.frame) == zone
                && !left_before(at)
        });
        leaves.into_iter().all(|(at, other)| {
            between[..at].iter().any(|came| !came.is_aside() && came.frame == other.frame)
        })
    }

    /// The act that allocates a block on a per-CPU list, if nothing else names it before.
    fn later_allocation(&self, frame: Frame) -> Option<(usize, &Act)> {
        let (entered, _) = self.entered[frame.index()];
        let at = *self.next.get(entered as usize)? as usize;
        let later = self.recording.acts.get(at)?;
        let same = later.frame == frame && later.order == self.machine.table.order(frame);
        (same && matches!(later.action, Action::Alloc(..))).then_some((at, later))
    }

    /// Allocates a block that is logged later.
    pub(super) fn take_early(&mut self, frame: Frame, moment: Moment) {
        let Some((at, &later)) = self.later_allocation(frame) else { return };
        let Action::Alloc(migrate_type, gfp) = later.action else { return };
        let (entered, _) = self.entered[frame.index()];
        let cpu = self.recording.acts[entered as usize].cpu;
        // It made the refill necessary that it came with.
        let moment = match self.began_refill(entered, &later) {
            true => self.moment_of_refill(entered),
            false => moment,
        };
        let zone = self.machine.linux.zone_index(frame);
        self.uncache(frame, cpu);
        self.machine.hold(frame, later.order, migrate_type, frame);
        self.factors[zone][usize::from(cpu)] >>= 1;
        self.machine.linux.plan_allocation(zone, cpu);
        let order = later.order;
        let (locked, refilled) = (false, self.came_refilled(frame));
        let step = Step::Alloc { cpu, frame, order, migrate_type, gfp, locked, refilled };
        self.script(moment, step);
        self.early.insert(frame);
        self.taken_before.insert(at as u32, moment);
        self.result.hidden.reordered += 1;
    }

    /// The allocation of a block taken before is logged.
    pub(super) fn logged_late(&mut self, index: usize, act: &Act) {
        if index >= self.scored_from {
            let told = self.recording.layout.pfn(act.frame);
            let machine = &self.machine;
            let cause = || where_is(machine, act.frame);
            self.result.allocations.count(index, told, Some(told), act.order, cause);
        }
        let state = &mut self.cpus[usize::from(act.cpu)];
        state.exact = (act.order > Order::BASE).then_some((act.frame, act.order));
    }
}
