//! Updates of statistics, which lower the high marks of per-CPU lists and drain them.

use prairie_frames::placement::linux::Tuning;
use prairie_frames::{Frame, Order};

use super::late::PREEMPTED;
use super::{Drains, Follow};
use crate::exact::act::{Act, Action};
use crate::exact::script::Moment;
use crate::exact::step::Step;

impl Follow<'_> {
    /// Statistics are updated. Where the lists hold more than the kernel's number, frames left them
    /// unseen, as long as the record does not name what is allocated in bulk, or a thread that took a
    /// block was preempted before it logged that.
    pub(super) fn decay(&mut self, index: usize, cpu: u16, reading: usize) {
        let Some(&(zone, lists)) = self.recording.readings.get(reading) else { return };
        self.end_bulk(cpu);
        let surplus = |follow: &Self| {
            follow.machine.linux.cached_count(zone, cpu).saturating_sub(lists.count.into())
        };
        if index <= self.bulk_from {
            self.clear_heads(index, cpu, zone, surplus(self));
        }
        self.take_before_update(index, cpu, zone, surplus(self));
        if self.machine.linux.cached_count(zone, cpu) == u64::from(lists.count) {
            self.counted[zone][usize::from(cpu)] = index;
        }
        self.find_lowered(zone, cpu, lists.high);
        self.machine.linux.set_tuning(
            zone,
            cpu,
            Tuning {
                high: lists.high,
                free_count: lists.free_count,
                alloc_factor: lists.alloc_factor,
                freed_larger: lists.freed_larger,
            },
        );
        let excess = self.machine.linux.lower_high(zone, cpu);
        self.cpus[usize::from(cpu)].drains = match excess {
            0 => Drains::default(),
            _ => Drains { thread: None, zone, left: excess.into() },
        };
        let drained = self.drained_batches(index, zone, excess);
        let batches = drained.len() as u32;
        self.script(Moment::at(index), Step::Decay { zone, cpu, reading, batches });
        for began in drained {
            self.script(Moment::at(began), Step::DrainBatch { cause: index });
        }
    }

    /// The acts with which a free begins to drain a batch each, if the kernel lets go of the lists in
    /// between: other threads may use them until the one that freed runs again.
    pub(super) fn batches_of_free(&mut self, index: usize, act: &Act) -> Vec<usize> {
        if !self.drains_by_batch || self.stages.is_boot() {
            return Vec::new();
        }
        let zone = self.machine.linux.zone_index(act.frame);
        let before = self.machine.linux.tuning(zone, act.cpu);
        let frames = self.machine.linux.plan_free(zone, act.cpu, act.order);
        self.machine.linux.set_tuning(zone, act.cpu, before);
        self.drained_batches(index, zone, frames)
    }

    /// The acts with which a free or an update of statistics begins to drain a batch each: it holds
    /// the lock of the free lists for one. In between, interrupts may free. A batch that ends with a
    /// larger block is more than it counts for, and can leave nothing to drain.
    fn drained_batches(&mut self, index: usize, zone: usize, excess: u32) -> Vec<usize> {
        let batch = self.machine.linux.pageset(zone).batch.max(1);
        let cause = self.recording.acts[index];
        let own = |act: &Act| (act.cpu, act.thread) == (cause.cpu, cause.thread);
        let (mut began, mut left, mut of_batch) = (Vec::new(), excess, 0);
        let mut listed = self.machine.linux.cached_count(zone, cause.cpu);
        let mut last = index;
        let later = self.recording.acts.iter().enumerate().skip(index + 1);
        for (at, act) in later {
            if at - last > PREEMPTED || (left == 0 && of_batch <= 0) || listed == 0 {
                break;
            }
            if !own(act) {
                continue;
            }
            last = at;
            match act.action {
                Action::Drain(_) if self.machine.linux.zone_index(act.frame) == zone => {}
                Action::Free | Action::Listed | Action::PastLists { .. } => {
                    // Maybe it came to the lists.
                    listed += act.order.frames();
                    continue;
                }
                _ => break,
            }
            if of_batch <= 0 {
                began.push(at);
                of_batch = i64::from(left.min(batch));
                left -= left.min(batch);
            }
            of_batch -= act.order.frames() as i64;
            listed = listed.saturating_sub(act.order.frames());
            self.caused.insert(at as u32);
        }
        began
    }

    /// Takes the head of a list before an update of statistics that found the lists without it: the
    /// update preempted a thread that had taken the block and logs it as the next that it allocates. If
    /// it logs a block from behind the head, other threads log what is ahead of it later.
    fn take_before_update(&mut self, index: usize, cpu: u16, zone: usize, surplus: u64) {
        if surplus == 0 {
            return;
        }
        let acts = &self.recording.acts;
        let thread = acts[index].thread;
        let taken = acts[index + 1..].iter().take(PREEMPTED).find_map(|later| {
            let Action::Alloc(migrate_type, _) = later.action else { return None };
            if later.cpu != cpu || later.thread == thread {
                return None;
            }
            let lists = &self.machine.linux;
            let mut listed: Vec<Frame> =
                lists.cached(zone, cpu, later.order, migrate_type).collect();
            let ahead = listed.iter().position(|&listed| listed == later.frame)?;
            listed.truncate(ahead.max(1));
            let fits = listed.len() as u64 * later.order.frames() == surplus
                && listed.iter().all(|&frame| self.is_logged_late(frame, index));
            fits.then_some(listed)
        });
        for frame in taken.into_iter().flatten() {
            self.take_early(frame, Moment::before(index));
        }
    }

    /// Handles a drain of lists without a free: statistics were updated before the record has the
    /// kernel's numbers. From then on the frames that remain are the high mark. If none remain, the last
    /// block was larger than what was too much, and the mark is that of the model.
    pub(super) fn check_decay(&mut self, index: usize, act: &Act) {
        if self.caused.remove(&(index as u32)) {
            return;
        }
        let zone = self.machine.linux.zone_index(act.frame);
        let drains = &mut self.cpus[usize::from(act.cpu)].drains;
        // Lists for several zones may be drained one after another.
        let goes_on = *drains != Drains::default() && drains.zone == zone;
        let left = if goes_on { drains.left } else { 0 } - act.order.frames() as i64;
        *drains = Drains { thread: Some(act.thread), zone, left };
        let entered = self.recording.acts.get(self.entered[act.frame.index()].0 as usize);
        let own = entered.is_some_and(|entered| entered.cpu == act.cpu);
        if goes_on || self.stages.is_boot() || !own {
            return;
        }
        let (mut at, mut drained, mut last) = (index, act.order.frames(), act.order.frames());
        while let Some(next) = self.next_act_on_cpu(at)
            && matches!(next.action, Action::Drain(_))
            && self.machine.linux.zone_index(next.frame) == zone
            && !self.is_updated(at)
        {
            last = next.order.frames();
            drained += last;
            at = self.next_on_cpu[at] as usize;
        }
        let cpu = act.cpu;
        let count = self.machine.linux.cached_count(zone, cpu);
        let zones = self.recording.layout.zones();
        let several_nodes = zones.iter().any(|zone| zone.span.node != zones[0].span.node);
        let batch = count.min(self.stages.pageset(zone).batch.into());
        // The last block may be larger than what is left of the batch.
        if several_nodes && (drained - last + 1..=drained).contains(&batch) {
            return self.script(Moment::before(index), Step::DrainRemote { zone, cpu });
        }
        if !self.adaptive || index >= self.readings_from {
            return;
        }
        let left = count.saturating_sub(drained);
        let high = match left {
            0 => self.lowered(zone, cpu),
            left => u32::try_from(left).ok(),
        };
        let Some(high) = high else { return };
        let tuning = self.machine.linux.tuning(zone, cpu);
        self.machine.linux.set_tuning(zone, cpu, Tuning { high, ..tuning });
        self.script(Moment::before(index), Step::Lower { zone, cpu, high });
    }

    /// The high mark after an update of statistics, if the lists then hold too much.
    fn lowered(&mut self, zone: usize, cpu: u16) -> Option<u32> {
        let lists = &mut self.machine.linux;
        let before = lists.tuning(zone, cpu);
        let excess = lists.lower_high(zone, cpu);
        let high = lists.tuning(zone, cpu).high;
        lists.set_tuning(zone, cpu, before);
        (excess > 0).then_some(high)
    }

    /// The parts in which the lists for a zone are emptied, because some of its memory is to go offline:
    /// when each begins, and its frames. Between two of them, interrupts free.
    pub(super) fn emptied(&self, index: usize, zone: usize) -> Vec<(usize, u32)> {
        let acts = &self.recording.acts;
        let lists = &self.machine.linux;
        let drains = |act: &Act| {
            matches!(act.action, Action::Drain(_)) && lists.zone_index(act.frame) == zone
        };
        let mut left: u64 = (0..self.recording.cpus).map(|cpu| lists.cached_count(zone, cpu)).sum();
        let mut parts = vec![(index, 0)];
        let Some(first) = acts[index..].iter().find(|act| drains(act)) else {
            return vec![(index, u32::MAX)];
        };
        let mut goes_on = true;
        let own = |(_, act): &(usize, &Act)| act.cpu == first.cpu && act.frame != Frame::NONE;
        for (at, act) in acts.iter().enumerate().skip(index).filter(own) {
            if left == 0 || act.thread != first.thread {
                break;
            }
            if !drains(act) {
                goes_on = parts == [(index, 0)];
                continue;
            }
            if !goes_on {
                parts.push((at, 0));
                goes_on = true;
            }
            parts.last_mut().expect("the first").1 += act.order.frames() as u32;
            left = left.saturating_sub(act.order.frames());
        }
        parts.last_mut().expect("the first").1 = u32::MAX;
        parts
    }

    /// Whether the kernel's numbers follow an act before the next one on its CPU: that drains for
    /// another update of statistics.
    fn is_updated(&self, index: usize) -> bool {
        let cpu = self.recording.acts[index].cpu;
        let mut between = self.recording.acts[index + 1..self.next_on_cpu[index] as usize].iter();
        between.any(|act| act.cpu == cpu && matches!(act.action, Action::Decay(_)))
    }

    /// Takes frames unseen from the heads of a CPU's lists, since there are fewer than it seems.
    fn clear_heads(&mut self, index: usize, cpu: u16, zone: usize, mut surplus: u64) {
        for migrate_type in super::unseen::TYPES {
            while surplus > 0 {
                let head = self.machine.linux.cached(zone, cpu, Order::BASE, migrate_type).next();
                let Some(frame) = head.filter(|&frame| self.is_silent(frame)) else { break };
                self.take_silently(frame, Moment::before(index), true);
                surplus -= 1;
            }
        }
    }
}
