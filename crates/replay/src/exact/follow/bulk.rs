//! Allocations in bulk that the record names.
//!
//! A probe reports when one begins, and one how many frames it returns with. A thread takes them from the
//! lists of the CPU that it runs on when it locks them, maybe after it was preempted.

use prairie_frames::{Frame, MigrateType, Order};

use super::{Bulk, Follow};
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
        let Some(zone) = zone.filter(|_| !self.known.postponed.contains(&index)) else {
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
        let returns = |thread: i32| {
            let own = |later: &&Act| {
                later.thread == thread && matches!(later.action, Action::Bulk { .. })
            };
            let later = acts[index + 1..].iter().find(own).map(|later| later.action);
            matches!(later, Some(Action::Bulk { returns: true, .. }))
        };
        // Nothing came to the lists or left them in between.
        let before = acts[..index].iter().rev().filter(|before| before.cpu == act.cpu);
        let mut idle = before.take_while(|act| act.frame == Frame::NONE || act.is_aside());
        let first = idle.find(|before| before.action == act.action && returns(before.thread))?;
        (!returns(act.thread) && !self.unmet_bulks.contains_key(&first.thread))
            .then_some(first.thread)
    }

    /// Whether an allocation in bulk took, as it returned, the frames `ahead` of the one that another
    /// allocation got. When it began, it seemed to take others. Only the first is kept: what follows may
    /// be wrong because of it.
    pub(super) fn suspect_bulk(&mut self, index: usize, act: &Act, ahead: &[Frame]) -> bool {
        let Action::Alloc(of_list, _) = act.action else { return false };
        if !ahead.iter().all(|&frame| self.is_silent(frame)) {
            return false;
        }
        let acts = &self.recording.acts;
        let came = ahead.iter().map(|frame| self.entered[frame.index()].0 as usize).max();
        let since = came.unwrap_or(index).min(index);
        let took = acts[since..index].iter().rposition(|took| match took.action {
            Action::Bulk { migrate_type, frames, returns: true, .. } => {
                let same_list = (took.cpu, migrate_type) == (act.cpu, of_list);
                same_list && frames as usize == ahead.len()
            }
            _ => false,
        });
        let Some(returned) = took.map(|at| since + at) else { return false };
        let thread = acts[returned].thread;
        let begins = |act: &Act| act.thread == thread && matches!(act.action, Action::Bulk { .. });
        let began = acts[..returned].iter().rposition(begins);
        let Some(began) = began.filter(|began| !self.known.postponed.contains(began)) else {
            return false;
        };
        if self.found.postponed.is_empty() {
            self.found.postponed.insert(began);
        }
        true
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
}
