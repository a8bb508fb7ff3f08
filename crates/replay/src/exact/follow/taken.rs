//! What leaves the free lists, and what is allocated.

use prairie_frames::free_area::End;
use prairie_frames::table::State;
use prairie_frames::{Frame, MigrateType, Order};

use super::ahead::Ahead;
use super::{Direct, Follow, NEVER, Refill};
use crate::exact::act::goes_through_cpu;
use crate::exact::act::{Act, Action};
use crate::exact::machine::Machine;
use crate::exact::script::Moment;
use crate::exact::step::Step;
use crate::exact::where_is;

impl Follow<'_> {
    pub(super) fn locked(&mut self, index: usize, act: &Act, migrate_type: MigrateType) {
        let zone = self.machine.linux.zone_index(act.frame);
        let guessed = self.take(index, act, zone, migrate_type);
        let cpu = usize::from(act.cpu);
        if !goes_through_cpu(act.order) {
            self.direct.insert(act.frame, Direct { guessed, act: index });
            return;
        }
        if let Some(refill) = self.cpus[cpu].refill
            && refill.left > 0
            && (refill.zone, refill.order, refill.migrate_type) == (zone, act.order, migrate_type)
        {
            self.append(index, act, migrate_type);
            return;
        }
        if !self.begin_refill(index, act, zone, migrate_type) {
            self.direct.insert(act.frame, Direct { guessed, act: index });
            self.result.hidden.direct_allocations += 1;
        }
    }

    /// Lets the model take a block from the free lists and compares it with the record's, which
    /// is on no list afterwards.
    pub(super) fn take(
        &mut self,
        index: usize,
        act: &Act,
        zone: usize,
        migrate_type: MigrateType,
    ) -> Option<Frame> {
        let layout = &self.recording.layout;
        let fallbacks = self.machine.linux.last_fallback().0;
        let Machine { table, linux, .. } = &mut self.machine;
        let guessed = linux.take_from_lists(table, zone, act.order, migrate_type);
        if linux.last_fallback().0 > fallbacks && index >= self.scored_from {
            self.fallback(index, act);
        }
        if index >= self.scored_from {
            let machine = &self.machine;
            let told = guessed.map(|frame| layout.pfn(frame));
            self.result.zone_locked.count(index, layout.pfn(act.frame), told, act.order, || {
                where_is(machine, act.frame)
            });
        }
        if guessed != Some(act.frame) {
            if let Some(guessed) = guessed {
                self.machine.undo_take(guessed, act.order, migrate_type);
                self.turn_back(index, act, guessed);
            }
            self.result.odd.not_free += u64::from(!self.machine.force(act.frame, act.order));
        }
        guessed
    }

    /// Compares the model's fallback with the record's, which stands before the block taken.
    pub(super) fn fallback(&mut self, index: usize, act: &Act) {
        let (_, Some(guessed)) = self.machine.linux.last_fallback() else { return };
        let on_cpu = |before: &&Act| before.cpu == act.cpu && before.frame != Frame::NONE;
        let before = self.recording.acts[..index].iter().rev().find(on_cpu);
        let layout = &self.recording.layout;
        let Some((before, change, found)) = before.and_then(|before| match before.action {
            Action::Fallback { change_ownership, found, .. } => {
                Some((before, change_ownership, found))
            }
            _ => None,
        }) else {
            let told = Some(layout.pfn(guessed.frame));
            let cause = || "the kernel needed no fallback".to_owned();
            self.result.fallbacks.count(
                index,
                prairie_frames::Pfn(u64::MAX),
                told,
                guessed.order,
                cause,
            );
            return;
        };
        let same = guessed.change_ownership == change && guessed.order == found;
        // If only the allocated size is known of the block found, its pageblock counts.
        let named = if found == before.order {
            guessed.frame
        } else if guessed.frame.pageblock() == before.frame.pageblock() {
            before.frame
        } else {
            guessed.frame
        };
        let told = same.then(|| layout.pfn(named));
        let cause = || format!("{guessed:?}, the kernel: change_ownership {change}");
        self.result.fallbacks.count(index, layout.pfn(before.frame), told, found, cause);
    }

    /// A block that belongs to a refill under way.
    pub(super) fn append(&mut self, index: usize, act: &Act, migrate_type: MigrateType) {
        let block = (act.frame, act.order);
        let list = (migrate_type, migrate_type);
        self.machine.linux.cache_block(&mut self.machine.table, act.cpu, block, list, End::Tail);
        self.entered[act.frame.index()] = (index as u32, migrate_type);
        let cpu = usize::from(act.cpu);
        let refill = self.cpus[cpu].refill.as_mut().expect("under way");
        self.above[refill.zone][cpu] += act.order.frames();
        refill.left -= 1;
        if refill.left == 0 {
            let refill = *refill;
            self.end_refill(refill);
        }
    }

    /// A block that no refill under way accounts for: the list must be empty, so what is on it was
    /// taken unseen, unless the block goes past the list. False in that case.
    pub(super) fn begin_refill(
        &mut self,
        index: usize,
        act: &Act,
        zone: usize,
        migrate_type: MigrateType,
    ) -> bool {
        let cpu = usize::from(act.cpu);
        let mut listed: Vec<Frame> =
            self.machine.linux.cached(zone, act.cpu, act.order, migrate_type).collect();
        if listed.iter().all(|&frame| self.is_logged_late(frame, index)) {
            for frame in listed.drain(..) {
                self.take_early(frame, Moment::before(index));
            }
        }
        // What a probe saw coming to the list is still there: the list is in use.
        let silent = listed.iter().all(|&frame| self.is_silent(frame) && !self.is_told(frame));
        if !silent {
            let last = self.cpus[cpu].refill.filter(|refill| {
                !self.adaptive
                    && refill.zone == zone
                    && refill.order == act.order
                    && refill.migrate_type == migrate_type
                    && self.cpus[cpu].last_alloc < refill.began
                    && self.is_unbroken(refill.began, index)
            });
            if let Some(refill) = last {
                // The run continues beyond the refill's size: that has grown.
                let before = self.stages.refill(zone, act.order);
                self.advance(Moment::before(refill.began));
                let more = self.stages.refill(zone, act.order).saturating_sub(before);
                let refill = Refill { left: more.max(1), ..refill };
                self.cpus[cpu].refill = Some(refill);
                self.append(index, act, migrate_type);
                return true;
            }
            let next = self.next_act_on_cpu(index);
            if next.is_some_and(|next| {
                next.frame == act.frame && matches!(next.action, Action::Alloc(..))
            }) {
                return false;
            }
            self.result.odd.refilled_full += 1;
            let stays = |frame: &&Frame| self.next[self.entered[frame.index()].0 as usize] == NEVER;
            let staying = listed.iter().filter(stays).map(|frame| frame.pageblock());
            self.result.mistyped.extend(staying);
            self.suspect(&listed);
        }
        for frame in listed {
            if self.is_silent(frame) {
                self.take_silently(frame, Moment::before(index), false);
            }
        }
        self.cpus[cpu].refill = Some(Refill {
            zone,
            order: act.order,
            migrate_type,
            left: self.refill_size(index, act, zone),
            first: act.frame,
            began: index,
        });
        self.begun.insert(index as u32);
        self.append(index, act, migrate_type);
        true
    }

    /// Whether a block came to a list as the first of a refill that the thread of an act made.
    pub(super) fn began_refill(&self, came: u32, act: &Act) -> bool {
        self.begun.contains(&came) && self.recording.acts[came as usize].thread == act.thread
    }

    /// Whether a thread only refilled between two actions on its CPU. Others may have run there.
    pub(super) fn is_unbroken(&self, from: usize, to: usize) -> bool {
        let (cpu, thread) = (self.recording.acts[from].cpu, self.recording.acts[from].thread);
        let own = |act: &&Act| act.cpu == cpu && act.thread == thread;
        self.recording.acts[from..to].iter().filter(own).all(|act| {
            act.is_aside()
                || act.frame == Frame::NONE
                || matches!(
                    act.action,
                    Action::Locked(_) | Action::Fallback { .. } | Action::Snapshot(..)
                )
        })
    }

    /// Whether a thread allocated nothing on its CPU between two actions. What an interrupt frees
    /// between a refill and the log of its first block came after both, since the lists were in use.
    pub(super) fn allocates_nothing(&self, from: usize, to: usize) -> bool {
        let (cpu, thread) = (self.recording.acts[from].cpu, self.recording.acts[from].thread);
        let own = |act: &&Act| act.cpu == cpu && act.thread == thread;
        let mut between = self.recording.acts[from..to].iter().filter(own);
        !between.any(|act| matches!(act.action, Action::Alloc(..) | Action::Bulk { .. }))
    }

    /// When the thread of an allocation took its block, if the refill that the block began was made
    /// for it, whatever came to the list before the allocation was logged.
    fn moment_of_own_refill(&self, index: usize, act: &Act) -> Option<Moment> {
        let (came, _) = self.entered[act.frame.index()];
        (self.began_refill(came, act) && self.allocates_nothing(came as usize, index))
            .then(|| self.moment_of_refill(came))
    }

    /// After a refill its first block is allocated. If that leaves no event, it was in bulk.
    pub(super) fn end_refill(&mut self, refill: Refill) {
        let cpu = self.recording.acts[refill.began].cpu;
        if self.bulk_left(cpu, refill.migrate_type) > 0 && refill.order == Order::BASE {
            return self.bulk_from_lists(cpu, self.moment_of_refill(refill.began as u32));
        }
        if self.machine.table.state(refill.first) == State::Cached && self.is_silent(refill.first) {
            let moment = self.moment_of_refill(refill.began as u32);
            self.take_silently(refill.first, moment, false);
        }
    }

    pub(super) fn alloc(&mut self, index: usize, act: &Act) {
        let Action::Alloc(migrate_type, gfp) = act.action else { return };
        let (frame, order) = (act.frame, act.order);
        if self.early.remove(&frame) {
            return self.logged_late(index, act);
        }
        let act = &Act { cpu: self.taken_on(act), ..*act };
        let cpu = usize::from(act.cpu);
        let mut moment = Moment::at(index);
        let direct = self.direct.remove(&frame);
        let guessed = match direct {
            Some(direct) => {
                moment = Moment::at(direct.act);
                direct.guessed
            }
            None => self.pop(index, act, migrate_type, &mut moment),
        };
        if index >= self.scored_from {
            let layout = &self.recording.layout;
            let machine = &self.machine;
            let told = guessed.map(|frame| layout.pfn(frame));
            self.result
                .allocations
                .count(index, layout.pfn(frame), told, order, || where_is(machine, frame));
        }
        if direct.is_none() {
            self.result.hidden.captured += u64::from(!goes_through_cpu(order));
            let cached = self.machine.table.state(frame) == State::Cached
                && self.machine.table.order(frame) == order;
            let taken = cached && self.uncache(frame, act.cpu);
            if !taken {
                self.machine.force(frame, order);
            }
        }
        self.machine.hold(frame, order, migrate_type, frame);
        let locked = direct.is_some() && goes_through_cpu(order);
        let refilled = self.came_refilled(frame);
        let from = act.cpu;
        let step = Step::Alloc { cpu: from, frame, order, migrate_type, gfp, locked, refilled };
        self.script(moment, step);
        if moment < Moment::at(index) {
            self.taken_before.insert(index as u32, moment);
        }
        let state = &mut self.cpus[cpu];
        state.exact = (order > Order::BASE).then_some((frame, order));
        state.last_alloc = index;
    }

    /// The CPU on which an allocation took its block: the one whose list has it, if its thread went to
    /// another CPU before the allocation was logged.
    fn taken_on(&mut self, act: &Act) -> u16 {
        if self.machine.table.state(act.frame) != State::Cached {
            return act.cpu;
        }
        let (came, _) = self.entered[act.frame.index()];
        let cpu = self.recording.acts.get(came as usize).map_or(act.cpu, |came| came.cpu);
        self.result.hidden.migrated += u64::from(cpu != act.cpu);
        cpu
    }

    /// The block that the per-CPU list would give, without the frames taken unseen.
    pub(super) fn pop(
        &mut self,
        index: usize,
        act: &Act,
        migrate_type: MigrateType,
        moment: &mut Moment,
    ) -> Option<Frame> {
        if !goes_through_cpu(act.order) {
            return None;
        }
        let zone = self.machine.linux.zone_index(act.frame);
        self.factors[zone][usize::from(act.cpu)] >>= 1;
        self.machine.linux.plan_allocation(zone, act.cpu);
        self.end_bulk(act.cpu);
        let list = self.machine.linux.cached(zone, act.cpu, act.order, migrate_type);
        let ahead: Vec<Frame> = list.take_while(|&frame| frame != act.frame).collect();
        let head = self.machine.linux.cached(zone, act.cpu, act.order, migrate_type).next();
        let listed = self.machine.linux.cached(zone, act.cpu, act.order, migrate_type).count();
        if ahead.is_empty() || ahead.len() == listed {
            // What made the refill necessary happened with it; other CPUs saw the free lists so.
            if head == Some(act.frame)
                && let Some(refilled) = self.moment_of_own_refill(index, act)
            {
                *moment = refilled;
            }
            return head;
        }
        match self.explain(index, act, &ahead) {
            Ahead::Later(first) => {
                let refilled = self.moment_of_own_refill(index, act);
                *moment = refilled.unwrap_or(Moment::before(first));
                self.result.hidden.reordered += 1;
            }
            Ahead::LoggedLate => {
                for frame in ahead {
                    self.take_early(frame, Moment::before(index));
                }
            }
            Ahead::Unseen => {
                let by_bulk = self.suspect_bulk(index, act, &ahead);
                for frame in ahead {
                    if !by_bulk && self.was_freed_later(frame) {
                        self.found.past_list.insert(self.entered[frame.index()].0 as usize);
                    }
                    self.take_silently(frame, Moment::before(index), false);
                }
            }
            Ahead::Unexplained => {
                self.suspect_arrival(index, act, &ahead);
                self.suspect_bulk(index, act, &ahead);
                let other = ahead.into_iter().filter(|&frame| !self.is_unseen(frame));
                self.suspect(&other.collect::<Vec<_>>());
                return head;
            }
        }
        Some(act.frame)
    }
}
