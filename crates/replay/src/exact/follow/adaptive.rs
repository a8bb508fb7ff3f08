//! Per-CPU lists that adapt.

use prairie_frames::Frame;
use prairie_frames::placement::linux::{Pageset, Tuning};

use super::late::PREEMPTED;
use super::{Drains, Follow, NEVER};
use crate::exact::act::{Act, Action};
use crate::exact::script::Moment;

impl Follow<'_> {
    /// The size of a refill that begins at an act: what the lists would ask for, but no more than
    /// leaves the free lists together. What leaves beyond that is the next refill of the same
    /// request.
    pub(super) fn refill_size(&mut self, index: usize, act: &Act, zone: usize) -> u32 {
        if !self.adaptive {
            return self.stages.refill(zone, act.order);
        }
        let run = self.run_from(index, act);
        if run > 1 && self.stages.is_boot() && self.is_handed_out(index, act) {
            self.advance(Moment::before(index));
        }
        let before = self.machine.linux.tuning(zone, act.cpu);
        let wanted = self.machine.linux.plan_refill(zone, act.cpu, act.order);
        let in_bulk = matches!(act.action, Action::Locked(t) if self.bulk_left(act.cpu, t) > 0);
        if wanted != run && !in_bulk && self.is_sized_before_change(index, act, zone, (before, run))
        {
            return run;
        }
        if wanted > run || (wanted < run && !in_bulk && index > self.bulk_from) {
            self.result.odd.resized += 1;
            return run;
        }
        wanted
    }

    /// Whether a refill of `run` blocks has the size that it would have had before the last change of
    /// limits: its CPU found that size, and got the lock of the free lists after the change. The lists
    /// had the `tuning` then.
    fn is_sized_before_change(
        &mut self,
        index: usize,
        act: &Act,
        zone: usize,
        (tuning, run): (Tuning, u32),
    ) -> bool {
        let Some((at, limits)) = &self.changed else { return false };
        let (at, limits) = (*at, limits[zone]);
        let lists = &mut self.machine.linux;
        let elsewhere = |other: &Act| {
            other.frame == Frame::NONE
                || other.is_aside()
                || (other.cpu != act.cpu && lists.zone_index(other.frame) != zone)
        };
        if limits == Pageset::BOOT
            || index - at > PREEMPTED
            || !self.recording.acts[at + 1..index].iter().all(elsewhere)
        {
            return false;
        }
        let (limits_now, tuning_now) = (lists.pageset(zone), lists.tuning(zone, act.cpu));
        lists.set_pageset(zone, limits);
        lists.set_tuning(zone, act.cpu, tuning);
        let fits = lists.plan_refill(zone, act.cpu, act.order) == run;
        lists.set_pageset(zone, limits_now);
        if fits {
            self.sized_before.insert(index as u32, Moment::at(at.saturating_sub(1)));
        } else {
            lists.set_tuning(zone, act.cpu, tuning_now);
        }
        fits
    }

    /// When the refill that began with an act was requested.
    pub(super) fn moment_of_refill(&self, began: u32) -> Moment {
        self.sized_before.get(&began).copied().unwrap_or(Moment::at(began as usize))
    }

    /// Whether the first of the blocks that leave the free lists together is then allocated.
    fn is_handed_out(&self, index: usize, act: &Act) -> bool {
        let mut at = index;
        while let Some(next) = self.recording.acts.get(self.next_on_cpu[at] as usize) {
            at = self.next_on_cpu[at] as usize;
            match next.action {
                Action::Locked(_) | Action::Fallback { .. } => {}
                Action::Alloc(..) => return next.frame == act.frame,
                _ => return false,
            }
        }
        false
    }

    /// Whether a frame was freed while the record names all allocations in bulk. If it leaves its
    /// list without an event, it never came there: an interrupt freed it while the list was in use.
    /// A frame that is freed again did: the free lists give nothing without an event.
    pub(super) fn was_freed_later(&self, frame: Frame) -> bool {
        let entered = self.entered[frame.index()].0 as usize;
        let act = self.recording.acts.get(entered);
        let again = self.next.get(entered).is_some_and(|&next| next != NEVER);
        entered > self.bulk_from
            && !again
            && act.is_some_and(|act| matches!(act.action, Action::Free | Action::Listed))
    }

    /// Blocks like that of an act that leave the free lists together from it on.
    fn run_from(&self, index: usize, act: &Act) -> u32 {
        let zone = self.machine.linux.zone_index(act.frame);
        let mut run = 1;
        let mut at = index;
        loop {
            at = self.next_on_cpu[at] as usize;
            match self.recording.acts.get(at) {
                Some(next) if matches!(next.action, Action::Fallback { .. }) => {}
                Some(next)
                    if next.action == act.action
                        && next.order == act.order
                        && self.machine.linux.zone_index(next.frame) == zone =>
                {
                    run += 1;
                }
                _ => return run,
            }
        }
    }

    /// Holds the count of a CPU's frames against what followed a free: a drain, by its first act, or none.
    pub(super) fn check_adaptive(&mut self, index: usize, act: &Act, drain: Option<usize>) {
        let drains = drain.is_some();
        let zone = self.machine.linux.zone_index(act.frame);
        let count = self.machine.linux.cached_count(zone, act.cpu);
        let before = self.machine.linux.tuning(zone, act.cpu);
        let mut frames = self.machine.linux.plan_free(zone, act.cpu, act.order);
        if frames > 0 && !drains && index > self.bulk_from {
            self.machine.linux.set_tuning(zone, act.cpu, before);
            self.take_before_free(index, act.cpu, zone);
            frames = self.machine.linux.plan_free(zone, act.cpu, act.order);
        }
        // With a frame less nothing would go back.
        if drains && frames > 0 && count == u64::from(before.high) {
            self.counted[zone][usize::from(act.cpu)] = index;
        }
        if drains {
            let (thread, left) = (Some(act.thread), i64::from(frames));
            self.cpus[usize::from(act.cpu)].drains = Drains { thread, zone, left };
        }
        if let Some(first) = drain
            && u64::from(frames) >= count
        {
            self.clear_all(index, act.cpu, zone, first);
        }
        if drains == (frames > 0) {
            return;
        }
        if drains {
            self.result.odd.drained_low += 1;
            return;
        }
        if index > self.bulk_from {
            self.result.odd.undrained += 1;
            return;
        }
        let most = u64::from(before.high).saturating_sub(1);
        let missing = self.take_surplus(index, act, zone, count.saturating_sub(most));
        self.result.odd.undrained += u64::from(missing > 0);
    }
}
