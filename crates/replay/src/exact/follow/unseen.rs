//! Allocations without an event: their frames, and the latest possible time.

use prairie_frames::{Frame, MigrateType, Order};

use super::{Follow, NEVER};
use crate::exact::act::{Act, Action};
use crate::exact::script::Moment;
use crate::exact::step::Step;

/// Types with their own per-CPU lists.
pub(super) const TYPES: [MigrateType; 3] =
    [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Reclaimable];

impl Follow<'_> {
    /// Whether a frame on a per-CPU list was taken, or may have been, without an event: it is next
    /// freed, or never named again.
    pub(super) fn is_silent(&self, frame: Frame) -> bool {
        let (act, _) = self.entered[frame.index()];
        // Only frames are taken in bulk. Allocations of larger blocks are missing from the record
        // where the kernel switched its events off and on again as it booted.
        if self.machine.table.order(frame) > Order::BASE
            && !(self.adaptive && self.handed_over > act as usize)
        {
            return false;
        }
        match self.recording.acts.get(self.next[act as usize] as usize) {
            None => true,
            Some(next) => matches!(next.action, Action::Free | Action::HandOver),
        }
    }

    /// Whether a probe reported that a frame came to its per-CPU list. Allocations in bulk are
    /// reported as well by then.
    pub(super) fn is_told(&self, frame: Frame) -> bool {
        let came = self.entered[frame.index()].0 as usize;
        self.recording.lists_from.is_some_and(|from| came >= from)
            && self.recording.acts.get(came).is_some_and(|act| act.action == Action::Listed)
    }

    /// Whether a block came to its per-CPU list with a refill.
    pub(super) fn came_refilled(&self, frame: Frame) -> bool {
        let (entered, _) = self.entered[frame.index()];
        let came = self.recording.acts.get(entered as usize);
        came.is_some_and(|act| matches!(act.action, Action::Locked(_)))
    }

    /// Takes a frame off its per-CPU list that was taken without an event, at `moment`.
    pub(super) fn take_silently(&mut self, frame: Frame, moment: Moment, by_count: bool) {
        let (act, migrate_type) = self.entered[frame.index()];
        let cpu = self.recording.acts[act as usize].cpu;
        let order = self.machine.table.order(frame);
        self.uncache(frame, cpu);
        self.machine.hold(frame, order, MigrateType::Unmovable, frame);
        let refilled = self.came_refilled(frame);
        self.script(moment, Step::Bulk { cpu, frame, order, migrate_type, refilled });
        self.result.hidden.bulk += 1;
        self.result.hidden.bulk_by_count += u64::from(by_count);
    }

    /// When a frame that is still on a list was taken at the latest: before what stands ahead of
    /// it came there.
    pub(super) fn latest(&self, frame: Frame, index: usize) -> Moment {
        let zone = self.machine.linux.zone_index(frame);
        let (act, migrate_type) = self.entered[frame.index()];
        let cpu = self.recording.acts[act as usize].cpu;
        let mut list = self.machine.linux.cached(zone, cpu, Order::BASE, migrate_type);
        let ahead = list.by_ref().take_while(|&listed| listed != frame).last();
        ahead.map_or(Moment::before(index), |ahead| {
            Moment::before(self.entered[ahead.index()].0 as usize)
        })
    }

    /// A free of a larger block returns all that the lists hold, from the act `first` on: what does not
    /// go back had been taken unseen.
    pub(super) fn clear_all(&mut self, index: usize, cpu: u16, zone: usize, first: usize) {
        let mut run = Vec::new();
        let mut at = first;
        while let Some(next) = self.recording.acts.get(at)
            && matches!(next.action, Action::Drain(_))
            && self.machine.linux.zone_index(next.frame) == zone
        {
            at = self.next_on_cpu[at] as usize;
            run.push(next.frame);
        }
        run.sort_unstable();
        for migrate_type in TYPES {
            let listed: Vec<Frame> =
                self.machine.linux.cached(zone, cpu, Order::BASE, migrate_type).collect();
            for frame in listed {
                if run.binary_search(&frame).is_err() && self.is_silent(frame) {
                    let moment = self.latest(frame, index);
                    self.take_silently(frame, moment, true);
                }
            }
        }
    }

    /// Larger blocks on a list that are never named again, and that bar the way there, never came
    /// to it.
    pub(super) fn suspect(&mut self, listed: &[Frame]) {
        for frame in listed {
            let (act, _) = self.entered[frame.index()];
            let larger = self.machine.table.order(*frame) > Order::BASE;
            if larger && self.next[act as usize] == NEVER {
                self.found.past_list.insert(act as usize);
            }
        }
    }

    /// Finds frames that were taken unseen before now, since there are more on the lists than
    /// there can be. Returns how many are missing still.
    pub(super) fn take_surplus(
        &mut self,
        index: usize,
        act: &Act,
        zone: usize,
        mut surplus: u64,
    ) -> u64 {
        for migrate_type in TYPES {
            let listed: Vec<Frame> =
                self.machine.linux.cached(zone, act.cpu, Order::BASE, migrate_type).collect();
            let mut ahead: Option<Frame> = None;
            for frame in listed {
                if surplus == 0 {
                    return 0;
                }
                let entered = self.entered[frame.index()].0;
                let moment = match ahead {
                    None if entered as usize == index => None,
                    None => Some(Moment::before(index)),
                    Some(ahead) => {
                        let covered = self.entered[ahead.index()].0;
                        (covered > entered + 1).then(|| Moment::before(covered as usize))
                    }
                };
                match moment.filter(|_| self.is_silent(frame)) {
                    Some(moment) => {
                        self.take_silently(frame, moment, true);
                        surplus -= 1;
                    }
                    None => ahead = Some(frame),
                }
            }
        }
        surplus
    }

    /// Takes what stands behind a block that was drained, and so was there no more.
    pub(super) fn clear_tail(&mut self, frame: Frame, order: Order, cpu: u16) {
        let zone = self.machine.linux.zone_index(frame);
        let (_, list) = self.entered[frame.index()];
        loop {
            let last = self.machine.linux.cached(zone, cpu, order, list).next_back();
            match last {
                Some(last) if last == frame => return,
                Some(last) if self.is_silent(last) => {
                    if self.was_freed_later(last) {
                        self.found.past_list.insert(self.entered[last.index()].0 as usize);
                    }
                    let moment = self.latest(last, self.entered[last.index()].0 as usize);
                    self.take_silently(last, moment, false);
                }
                last => {
                    self.result.odd.drained_early += 1;
                    self.suspect(last.as_slice());
                    return;
                }
            }
        }
    }
}
