//! Frees, and drains of per-CPU lists.

use prairie_frames::free_area::End;
use prairie_frames::placement::linux::version::FOLIO_BATCHES;
use prairie_frames::placement::linux::{BATCH_SCALE_MAX, Pageset};
use prairie_frames::table::State;
use prairie_frames::{MigrateType, Order};

use super::{Drains, Follow};
use crate::exact::act::goes_through_cpu;
use crate::exact::act::{Act, Action, Resized};
use crate::exact::script::Moment;
use crate::exact::step::Step;

impl Follow<'_> {
    pub(super) fn free(&mut self, index: usize, act: &Act) {
        let (frame, order) = (act.frame, act.order);
        if order == Order::BASE && self.machine.table.state(frame) == State::Cached {
            let moment = self.latest(frame, index);
            self.take_silently(frame, moment, false);
        }
        let stored = self.machine.linux.pageblock_type(frame);
        let next = self.next_act(index).map(|next| next.action);
        if next == Some(Action::Listed) {
            // Since 6.9 the type is looked up as the block comes to its list.
            if self.recording.version < FOLIO_BATCHES.since {
                self.prepared.insert(frame, stored);
                self.script(Moment::at(index), Step::Prepare { frame });
            }
            return;
        }
        if let Some(Action::PastLists { .. }) = next {
            return;
        }
        let within = self.cpus[usize::from(act.cpu)].exact.is_some_and(|(start, whole)| {
            order == Order::BASE && frame > start && frame < start.offset(whole.frames())
        });
        if stored == MigrateType::Isolate {
            self.result.odd.freed_free += u64::from(self.machine.claim(frame, order));
            self.give(index, (frame, order), stored, None);
            self.script(Moment::at(index), Step::Free { cpu: act.cpu, frame, order, batches: 0 });
            return;
        }
        if goes_through_cpu(order) && !within && !self.bypasses_lists(index, act) {
            self.enter(index, act, stored);
            return;
        }
        let end = within.then_some(End::Tail);
        self.result.hidden.exact_tails += u64::from(within);
        self.result.hidden.direct_frees += u64::from(!within && goes_through_cpu(order));
        self.result.odd.freed_free += u64::from(self.machine.claim(frame, order));
        self.give(index, (frame, order), stored, end);
        self.script(Moment::at(index), Step::FreeDirect { frame, order, end });
    }

    /// Whether a free that no probe reports went past the lists.
    fn bypasses_lists(&self, index: usize, act: &Act) -> bool {
        let next = self.next_act(index);
        let from_free_lists = next.is_some_and(|next| {
            matches!(
                next.action,
                Action::Locked(_) | Action::Fallback { .. } | Action::Isolated { .. }
            )
        });
        from_free_lists
            || self.known.past_list.contains(&index)
            || (!self.leaves_list(index, act)
                && self.is_missed_past_lists(index, act)
                && !self.comes_with_others(index, act))
    }

    /// Whether a block that is freed next leaves a list. What is freed again left one in bulk: the free
    /// lists give nothing without an event.
    fn leaves_list(&self, index: usize, act: &Act) -> bool {
        self.next_act(index).is_some_and(|next| {
            (next.frame, next.order) == (act.frame, act.order)
                && match next.action {
                    Action::Alloc(..) | Action::Drain(_) => true,
                    Action::Free => act.order == Order::BASE,
                    _ => false,
                }
        })
    }

    /// Whether another block that the same interrupt frees to the same zone leaves a list: they are in use
    /// from its first free to its last, or not at all.
    fn comes_with_others(&self, index: usize, act: &Act) -> bool {
        let acts = &self.recording.acts;
        let zone = |act: &Act| self.machine.linux.zone_index(act.frame);
        let together = |&at: &usize| {
            let next = self.next_act(at).map(|next| next.action);
            let told = matches!(next, Some(Action::Listed | Action::PastLists { .. }));
            acts[at].thread == act.thread && acts[at].action == Action::Free && !told
        };
        let on_cpu = |&at: &usize| acts[at].cpu == act.cpu;
        let before = (0..index).rev().filter(on_cpu).take_while(together);
        let after = (index + 1..acts.len()).filter(on_cpu).take_while(together);
        before
            .chain(after)
            .any(|at| zone(&acts[at]) == zone(act) && self.leaves_list(at, &acts[at]))
    }

    /// Whether an act is a free past the lists: those of its zone stay as they are.
    pub(super) fn is_past_lists(&self, index: usize, act: &Act) -> bool {
        match act.action {
            Action::PastLists { .. } => true,
            Action::Free => match self.next_act(index).map(|next| next.action) {
                Some(Action::PastLists { .. }) => true,
                Some(Action::Listed) => false,
                _ => self.bypasses_lists(index, act),
            },
            _ => false,
        }
    }

    /// Whether an interrupt freed a block past the lists while a probe on them ran, which the probe
    /// then did not report: the kernel counts it as missed. The CPU's next report is that of the
    /// interrupted probe. If it is of a free that reached its list, the lists were in use.
    fn is_missed_past_lists(&self, index: usize, act: &Act) -> bool {
        let lists = &self.machine.linux;
        let interrupted = |later: &&Act| {
            later.cpu == act.cpu
                && match later.action {
                    Action::Listed | Action::PastLists { .. } => true,
                    Action::Bulk { .. } | Action::Decay(_) => later.thread == act.thread,
                    _ => false,
                }
        };
        self.recording.lists_from.is_some_and(|from| index >= from)
            && self.recording.acts[index + 1..].iter().find(interrupted).is_some_and(|later| {
                later.action == Action::Listed
                    && lists.zone_index(later.frame) == lists.zone_index(act.frame)
            })
    }

    /// A block that was freed goes to the free lists past the per-CPU lists.
    pub(super) fn past_lists(&mut self, index: usize, act: &Act, to_tail: bool) {
        let (frame, order) = (act.frame, act.order);
        self.result.hidden.exact_tails += u64::from(to_tail);
        self.result.hidden.direct_frees += u64::from(!to_tail && goes_through_cpu(order));
        let stored = self.machine.linux.pageblock_type(frame);
        let end = to_tail.then_some(End::Tail);
        self.result.odd.freed_free += u64::from(self.machine.claim(frame, order));
        self.give(index, (frame, order), stored, end);
        self.script(Moment::at(index), Step::FreeDirect { frame, order, end });
    }

    /// A block comes to the head of a per-CPU list.
    pub(super) fn enter(&mut self, index: usize, act: &Act, stored: MigrateType) {
        let (frame, order) = (act.frame, act.order);
        self.result.odd.freed_free += u64::from(self.machine.claim(frame, order));
        let list = match stored {
            MigrateType::Unmovable | MigrateType::Reclaimable => stored,
            _ => MigrateType::Movable,
        };
        let block = (frame, order);
        let kept = (list, stored);
        self.machine.linux.cache_block(&mut self.machine.table, act.cpu, block, kept, End::Head);
        self.entered[frame.index()] = (index as u32, list);
        // A drain works on the free lists when it gets their lock, not when the free is logged.
        let drain = self.drain_after(index, act);
        let when = drain.unwrap_or(index);
        let drained = drain.map_or(Vec::new(), |_| self.batches_of_free(index, act));
        let batches = drained.len() as u32;
        let moment = drain.map_or(self.arrival_of(index), Moment::at);
        self.script(moment, Step::Free { cpu: act.cpu, frame, order, batches });
        for began in drained {
            self.script(Moment::at(began), Step::DrainBatch { cause: when });
        }
        self.check_count(index, act, drain);
    }

    /// The first act of the drain of its zone's lists that a free leads to. Until the drain, interrupts
    /// find the lists in use and free past them.
    pub(super) fn drain_after(&self, index: usize, act: &Act) -> Option<usize> {
        let zone = self.machine.linux.zone_index(act.frame);
        let mut at = match self.known.arrivals.get(&index) {
            Some(&before) => before,
            None => self.next_on_cpu[index] as usize,
        };
        let first = loop {
            let next = self.recording.acts.get(at).filter(|next| next.thread == act.thread)?;
            if matches!(next.action, Action::Drain(_)) {
                break (self.machine.linux.zone_index(next.frame) == zone).then_some(at)?;
            }
            if !self.is_past_lists(at, next) {
                return None;
            }
            at = self.next_on_cpu[at] as usize;
        };
        // Or statistics were updated, or memory is to go offline, and that drained.
        let drains = |other: &Act| match other.action {
            Action::Decay(_) => other.cpu == act.cpu,
            Action::Resized(Resized::Disabled(emptied)) => emptied == zone,
            _ => false,
        };
        (!self.recording.acts[index + 1..first].iter().any(drains)).then_some(first)
    }

    /// Holds the count of a CPU's frames against what followed: a drain, by its first act, or none.
    pub(super) fn check_count(&mut self, index: usize, act: &Act, drain: Option<usize>) {
        let drains = drain.is_some();
        let zone = self.machine.linux.zone_index(act.frame);
        let count = self.machine.linux.cached_count(zone, act.cpu);
        if self.stages.is_boot() {
            if !drains {
                self.advance(Moment::before(index));
            }
            return;
        }
        if self.adaptive {
            return self.check_adaptive(index, act, drain);
        }
        let factor = &mut self.factors[zone][usize::from(act.cpu)];
        let flush = *factor > 0 && act.order > Order::BASE && act.order.get() <= 3;
        if drains {
            let Pageset { batch, high, .. } = self.stages.pageset(zone);
            let (most, scaled) = (high.saturating_sub(batch), batch.saturating_mul(1 << *factor));
            *factor += u32::from(!flush && scaled < most && *factor < BATCH_SCALE_MAX);
            let left = if flush { count as i64 } else { scaled.min(most).max(1).into() };
            self.cpus[usize::from(act.cpu)].drains =
                Drains { thread: Some(act.thread), zone, left };
        }
        if let Some(first) = drain
            && flush
        {
            self.clear_all(index, act.cpu, zone, first);
            return;
        }
        let mut high = u64::from(self.stages.pageset(zone).high);
        if !drains && count >= high && self.stages.is_early() && index > self.handed_over {
            self.advance(Moment::before(index));
            high = u64::from(self.stages.pageset(zone).high);
        }
        let above = &mut self.above[zone][usize::from(act.cpu)];
        let most = match drains {
            true => high + act.order.frames() - 1 + *above,
            false => high - 1,
        };
        let drained = self.cpus[usize::from(act.cpu)].drains.left.max(0) as u64;
        *above = if drains { above.saturating_sub(drained) } else { 0 };
        if count > most {
            let missing = self.take_surplus(index, act, zone, count - most);
            self.result.odd.undrained += u64::from(missing > 0);
        } else if drains && count < high {
            self.result.odd.drained_low += 1;
        }
    }

    pub(super) fn drain(&mut self, index: usize, act: &Act, migrate_type: MigrateType) {
        let (frame, order) = (act.frame, act.order);
        self.check_decay(index, act);
        let state = self.machine.table.state(frame);
        if state != State::Cached || self.machine.table.order(frame) != order {
            self.result.odd.drained_unknown += 1;
            self.machine.force(frame, order);
        } else {
            // One CPU may empty the lists of another.
            let (entered, _) = self.entered[frame.index()];
            let cpu = self.recording.acts.get(entered as usize).map_or(act.cpu, |act| act.cpu);
            self.clear_tail(frame, order, cpu);
            self.uncache(frame, cpu);
        }
        self.give(index, (frame, order), migrate_type, None);
    }
}
