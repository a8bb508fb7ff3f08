//! Per-CPU lists that adapt, and allocations in bulk that the record names.

use prairie_frames::placement::linux::{Pageset, Tuning};
use prairie_frames::{Frame, MigrateType, Order};

use super::late::PREEMPTED;
use super::{Bulk, Drains, Follow, NEVER};
use crate::exact::act::{Act, Action};
use crate::exact::script::Moment;

impl Follow<'_> {
    /// An allocation in bulk begins, or goes on after it was preempted.
    pub(super) fn begin_bulk(
        &mut self,
        index: usize,
        act: &Act,
        migrate_type: MigrateType,
        (frames, node): (u32, Option<u16>),
    ) {
        self.end_bulk(act.cpu);
        self.take_ahead_of_bulk(index, act.cpu, migrate_type, (frames, node));
        let zone = self.zone_of_bulk(index, act, migrate_type, node);
        let Some(zone) = zone else {
            self.result.odd.bulk_missing += u64::from(frames);
            let unmet = self.preempted_bulk(index, act).unwrap_or(act.thread);
            self.unmet_bulks.insert(unmet, frames);
            return;
        };
        let bulk = Bulk { migrate_type, zone, left: frames };
        self.cpus[usize::from(act.cpu)].bulk = Some(bulk);
        self.bulk_from_lists(act.cpu, Moment::at(index));
    }

    /// The thread that a bulk allocation preempted in one like it, before that took its frames: they went
    /// to the second one, which finds nothing else and is not preempted. The first takes others when it
    /// returns.
    fn preempted_bulk(&self, index: usize, act: &Act) -> Option<i32> {
        let acts = &self.recording.acts;
        let returns = |index: usize| {
            let own = |later: &&Act| {
                later.thread == acts[index].thread && matches!(later.action, Action::Bulk { .. })
            };
            let later = acts[index + 1..].iter().find(own).map(|later| later.action);
            matches!(later, Some(Action::Bulk { returns: true, .. }))
        };
        // Nothing came to the lists or left them in between.
        let before = (0..index).rev().filter(|&at| acts[at].cpu == act.cpu);
        let mut idle =
            before.take_while(|&at| acts[at].frame == Frame::NONE || acts[at].is_aside());
        let first = idle.find(|&at| acts[at].action == act.action && returns(at))?;
        (!returns(index) && !self.unmet_bulks.contains_key(&acts[first].thread))
            .then_some(acts[first].thread)
    }

    /// The zone that an allocation in bulk takes from, if any has what it asks for.
    pub(super) fn zone_of_bulk(
        &self,
        index: usize,
        act: &Act,
        migrate_type: MigrateType,
        node: Option<u16>,
    ) -> Option<usize> {
        let other = |next: &&Act| next.cpu == act.cpu && matches!(next.action, Action::Bulk { .. });
        let mut its_own = self.recording.acts[index + 1..].iter().take_while(|next| !other(next));
        let next = its_own
            .find(|next| next.cpu == act.cpu && next.frame != Frame::NONE && !next.is_aside());
        // What it does first, if its list does not hold enough, is to refill it.
        let refill = next.filter(|next| {
            next.action == Action::Locked(migrate_type)
                && next.order == Order::BASE
                && self.is_of(self.machine.linux.zone_index(next.frame), node)
        });
        match refill {
            Some(refill) => Some(self.machine.linux.zone_index(refill.frame)),
            None => self.bulk_zone(act.cpu, migrate_type, node),
        }
    }

    /// Takes blocks ahead of those that a bulk allocation got: other threads took them before, and log
    /// it later.
    pub(super) fn take_ahead_of_bulk(
        &mut self,
        index: usize,
        cpu: u16,
        migrate_type: MigrateType,
        (frames, node): (u32, Option<u16>),
    ) {
        let zones = 0..self.recording.layout.zones().len();
        for zone in zones.rev().filter(|&zone| self.is_of(zone, node)) {
            let list = self.machine.linux.cached(zone, cpu, Order::BASE, migrate_type);
            let listed: Vec<Frame> = list.collect();
            let late =
                listed.iter().take_while(|&&frame| self.is_logged_late(frame, index)).count();
            let (ahead, behind) = listed.split_at(late);
            let mut got = behind.iter().take(frames as usize);
            if frames > 0
                && late > 0
                && !behind.is_empty()
                && got.all(|&frame| self.is_silent(frame))
            {
                ahead.iter().for_each(|&frame| self.take_early(frame, Moment::before(index)));
                return;
            }
        }
    }

    /// Takes what a bulk allocation gets from the lists as they are.
    pub(super) fn bulk_from_lists(&mut self, cpu: u16, moment: Moment) {
        let Some(Bulk { migrate_type, zone, left }) = self.cpus[usize::from(cpu)].bulk else {
            return;
        };
        let wanted = left as usize;
        let list = self.machine.linux.cached(zone, cpu, Order::BASE, migrate_type);
        let frames: Vec<Frame> = list.take(wanted).collect();
        let taken = frames.iter().take_while(|&&frame| self.is_silent(frame)).count();
        for &frame in &frames[..taken] {
            self.take_silently(frame, moment, false);
        }
        let left = left - taken as u32;
        self.cpus[usize::from(cpu)].bulk = Some(Bulk { migrate_type, zone, left });
    }

    /// The zone that a bulk allocation takes from: the highest whose list has a frame that leaves
    /// without an event.
    fn bulk_zone(&self, cpu: u16, migrate_type: MigrateType, node: Option<u16>) -> Option<usize> {
        (0..self.recording.layout.zones().len()).rev().filter(|&zone| self.is_of(zone, node)).find(
            |&zone| {
                let mut list = self.machine.linux.cached(zone, cpu, Order::BASE, migrate_type);
                list.next().is_some_and(|frame| self.is_silent(frame))
            },
        )
    }

    /// Whether a zone is on a node; any may be where the node is not known.
    fn is_of(&self, zone: usize, node: Option<u16>) -> bool {
        node.is_none_or(|node| self.recording.layout.zones()[zone].span.node == node)
    }

    /// A bulk allocation is over when its CPU takes anything else from its lists.
    pub(super) fn end_bulk(&mut self, cpu: u16) {
        if let Some(Bulk { left, .. }) = self.cpus[usize::from(cpu)].bulk.take() {
            self.result.odd.bulk_missing += u64::from(left);
        }
    }

    /// Frames that a bulk allocation under way on a CPU is still to get from lists of a type.
    pub(super) fn bulk_left(&self, cpu: u16, migrate_type: MigrateType) -> u32 {
        match self.cpus[usize::from(cpu)].bulk {
            Some(bulk) if bulk.migrate_type == migrate_type => bulk.left,
            _ => 0,
        }
    }

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
