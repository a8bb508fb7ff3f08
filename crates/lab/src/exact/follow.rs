//! The replay that follows the record: what moves between the free lists and the per-CPU lists,
//! and when, comes from the events; which frame it is, from the model. On the way it finds out
//! what left no event, and writes it all down as a [`Script`].

use std::collections::{HashMap, HashSet};

use frames::free_area::End;
use frames::placement::linux::{Config, Pageset};
use frames::table::State;
use frames::{Frame, MigrateType, Order};
use serde::Serialize;

use super::differences::Difference;
use super::machine::Machine;
use super::opening::Opening;
use super::recording::{Act, Did, Edge, Recording};
use super::score::Score;
use super::script::Moment;
pub use super::script::Script;
use super::simulate::hand_over;
use super::stages::{Stages, goes_through_cpu};
use super::step::Step;

/// How often what is freed at once may double (`CONFIG_PCP_BATCH_SCALE_MAX`).
const SCALE_MAX: u32 = 5;

/// No act.
const NEVER: u32 = u32::MAX;

/// What left no event and was found out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Hidden {
    /// Frames taken by allocations in bulk.
    pub bulk: u64,
    /// Those of them whose moment follows from the count at the beginning of a drain.
    pub bulk_by_count: u64,
    /// Frames freed past a per-CPU list that was in use.
    pub direct_frees: u64,
    /// Allocations past a per-CPU list that was in use.
    pub direct_allocations: u64,
    /// Frames of exact allocations that went back to the tail.
    pub exact_tails: u64,
    /// Allocations logged after a free that came later.
    pub reordered: u64,
    /// Changes of the per-CPU lists' limits.
    pub limits: u64,
}

/// What should not be, and how often it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Odd {
    /// Blocks that left the free lists although the model had them elsewhere.
    pub not_free: u64,
    /// Frees of what the model had as free.
    pub freed_free: u64,
    /// Drained blocks that were on no per-CPU list.
    pub drained_unknown: u64,
    /// Drained blocks that were not the last of their list.
    pub drained_early: u64,
    /// Refills of lists that were not empty.
    pub refilled_full: u64,
    /// Drains that began below the high mark.
    pub drained_low: u64,
    /// Frees above the high mark without a drain.
    pub undrained: u64,
}

/// What following the record came to.
#[derive(Clone, Debug, Default)]
pub struct Followed {
    /// Blocks that left the free lists.
    pub zone_locked: Score,
    /// Fallbacks to foreign lists: block, and whether the pageblock was claimed.
    pub fallbacks: Score,
    /// All allocations.
    pub allocations: Score,
    /// What was found out.
    pub hidden: Hidden,
    /// What should not be.
    pub odd: Odd,
    /// The steps for a simulation.
    pub script: Script,
    /// What differed from the kernel's own account at each snapshot.
    pub snapshots: Vec<Vec<Difference>>,
}

#[derive(Clone, Copy)]
struct Refill {
    zone: usize,
    order: Order,
    migrate_type: MigrateType,
    left: u32,
    first: Frame,
    began: usize,
}

/// A block on its way from the free lists to a request, past the per-CPU lists.
#[derive(Clone, Copy)]
struct Direct {
    frame: Frame,
    guessed: Option<Frame>,
    act: usize,
}

/// What is under way on one CPU.
#[derive(Clone, Default)]
struct Cpu {
    refill: Option<Refill>,
    direct: Option<Direct>,
    /// The last allocation of several frames, and what of it went back since.
    exact: Option<(Frame, Order)>,
    last_alloc: usize,
}

struct Follow<'a> {
    recording: &'a Recording,
    machine: Machine,
    stages: Stages,
    /// The next act that names the first frame of an act's block.
    next: Vec<u32>,
    /// The next act on the same CPU.
    next_on_cpu: Vec<u32>,
    /// By frame: the act with which a block came to a per-CPU list, and which list.
    entered: Vec<(u32, MigrateType)>,
    /// Types of pageblocks looked up by frees of lists of frames.
    prepared: HashMap<Frame, MigrateType>,
    cpus: Vec<Cpu>,
    /// By zone and CPU: how often what is freed at once has doubled (`free_factor`).
    factors: Vec<Vec<u32>>,
    handed_over: usize,
    /// Frees that went past the per-CPU list, found out too late to follow them so.
    past_list: &'a HashSet<usize>,
    found_past_list: Vec<usize>,
    result: Followed,
}

/// Runs of the whole record at most: each finds frees that the one before took wrongly.
const RUNS: usize = 8;

/// Follows the record from the opening on, up to `end`.
///
/// A block that was freed past a per-CPU list in use, and merged and was never named again, looks
/// like one on the list until it bars the way there. Then the record is followed once more.
pub fn follow(recording: &Recording, opening: &Opening, config: Config, end: usize) -> Followed {
    let mut past_list = HashSet::new();
    for _ in 1..RUNS {
        let (followed, found) = follow_once(recording, opening, config, end, &past_list);
        if found.is_empty() {
            return followed;
        }
        past_list.extend(found);
    }
    follow_once(recording, opening, config, end, &past_list).0
}

fn follow_once(
    recording: &Recording,
    opening: &Opening,
    config: Config,
    end: usize,
    past_list: &HashSet<usize>,
) -> (Followed, Vec<usize>) {
    let machine = Machine::open(&recording.layout, config, opening);
    let frames = recording.layout.frames() as usize;
    let late = |act: &Act| act.did == Did::HandOver;
    let mut follow = Follow {
        recording,
        machine,
        stages: Stages::of(recording),
        next: next_by_frame(&recording.acts, frames),
        next_on_cpu: next_by_cpu(&recording.acts, recording.cpus),
        entered: vec![(NEVER, MigrateType::Unmovable); frames],
        prepared: HashMap::new(),
        cpus: vec![Cpu::default(); recording.cpus.into()],
        factors: vec![vec![0; recording.cpus.into()]; recording.layout.zones().len()],
        handed_over: recording.acts.iter().rposition(late).unwrap_or(0),
        past_list,
        found_past_list: Vec::new(),
        result: Followed::default(),
    };
    for (index, act) in recording.acts[..end].iter().enumerate() {
        follow.act(index, act);
    }
    follow.result.script.sort();
    (follow.result, follow.found_past_list)
}

/// For each act, the next one that names its first frame.
fn next_by_frame(acts: &[Act], frames: usize) -> Vec<u32> {
    let mut next = vec![NEVER; acts.len()];
    let mut last = vec![NEVER; frames];
    for (index, act) in acts.iter().enumerate().rev() {
        if act.frame == Frame::NONE {
            continue;
        }
        next[index] = last[act.frame.index()];
        let block = act.frame.index()..act.frame.index() + act.order.frames() as usize;
        last[block].fill(index as u32);
    }
    next
}

/// For each act, the next one on its CPU.
fn next_by_cpu(acts: &[Act], cpus: u16) -> Vec<u32> {
    let mut next = vec![NEVER; acts.len()];
    let mut last = vec![NEVER; cpus.into()];
    for (index, act) in acts.iter().enumerate().rev() {
        if act.frame != Frame::NONE {
            next[index] = last[usize::from(act.cpu)];
            last[usize::from(act.cpu)] = index as u32;
        }
    }
    next
}

impl Follow<'_> {
    fn act(&mut self, index: usize, act: &Act) {
        match act.did {
            Did::Locked(migrate_type) => self.locked(index, act, migrate_type),
            Did::Alloc(..) => self.alloc(index, act),
            Did::Free => self.free(index, act),
            Did::HandOver => {
                hand_over(&mut self.machine, act.frame, act.order);
                let (frame, order) = (act.frame, act.order);
                self.script(Moment::at(index), Step::HandOver { frame, order });
            }
            Did::Batched => {
                let found = self.prepared.remove(&act.frame);
                let stored = found.unwrap_or(self.machine.linux.pageblock_type(act.frame));
                self.enter(index, act, stored);
            }
            Did::Drain(migrate_type) => self.drain(act, migrate_type),
            Did::Fallback { .. } => {}
            Did::Snapshot(place, Edge::End) => {
                let snapshot = &self.recording.snapshots[place];
                let found = super::differences::of(&self.recording.layout, &self.machine, snapshot);
                self.result.snapshots.push(found);
                self.script(Moment::at(index), Step::Snapshot(place));
            }
            Did::Snapshot(_, Edge::Begin) => {}
        }
    }

    fn script(&mut self, moment: Moment, step: Step) {
        self.result.script.add(moment, step);
    }

    fn next_act(&self, index: usize) -> Option<&Act> {
        self.recording.acts.get(self.next[index] as usize)
    }

    fn next_act_on_cpu(&self, index: usize) -> Option<&Act> {
        self.recording.acts.get(self.next_on_cpu[index] as usize)
    }

    /// Whether a frame on a per-CPU list was taken, or may have been, without an event: it is next
    /// freed, or never named again.
    fn is_silent(&self, frame: Frame) -> bool {
        let (act, _) = self.entered[frame.index()];
        if self.machine.table.order(frame) > Order::BASE {
            return false;
        }
        match self.recording.acts.get(self.next[act as usize] as usize) {
            None => true,
            Some(next) => matches!(next.did, Did::Free | Did::HandOver),
        }
    }

    // --- What leaves the free lists. -----------------------------------------------------------

    fn locked(&mut self, index: usize, act: &Act, migrate_type: MigrateType) {
        let zone = self.machine.linux.zone_index(act.frame);
        let guessed = self.take(index, act, zone, migrate_type);
        let cpu = usize::from(act.cpu);
        if !goes_through_cpu(act.order) {
            self.cpus[cpu].direct = Some(Direct { frame: act.frame, guessed, act: index });
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
            self.cpus[cpu].direct = Some(Direct { frame: act.frame, guessed, act: index });
            self.result.hidden.direct_allocations += 1;
        }
    }

    /// Lets the model take a block from the free lists and compares it with the record's, which
    /// is on no list afterwards.
    fn take(
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
        if linux.last_fallback().0 > fallbacks {
            self.fallback(index, act);
        }
        let machine = &self.machine;
        let told = guessed.map(|frame| layout.pfn(frame));
        let right =
            self.result.zone_locked.count(index, layout.pfn(act.frame), told, act.order, || {
                super::where_is(machine, act.frame)
            });
        if !right {
            if let Some(guessed) = guessed {
                self.machine.undo_take(guessed, act.order, migrate_type);
            }
            self.result.odd.not_free += u64::from(!self.machine.force(act.frame, act.order));
        }
        guessed
    }

    /// Compares the model's fallback with the record's, which stands before the block taken.
    fn fallback(&mut self, index: usize, act: &Act) {
        let (_, Some(guessed)) = self.machine.linux.last_fallback() else { return };
        let before = self.recording.acts[..index].iter().rev().find(|before| before.cpu == act.cpu);
        let layout = &self.recording.layout;
        let Some((before, change)) = before.and_then(|before| match before.did {
            Did::Fallback { change_ownership, .. } => Some((before, change_ownership)),
            _ => None,
        }) else {
            let told = Some(layout.pfn(guessed.frame));
            let cause = || "the kernel needed no fallback".to_owned();
            self.result.fallbacks.count(index, frames::Pfn(u64::MAX), told, guessed.order, cause);
            return;
        };
        let same = guessed.change_ownership == change && guessed.order == before.order;
        let told = same.then(|| layout.pfn(guessed.frame));
        let cause = || format!("{guessed:?}, the kernel: change_ownership {change}");
        self.result.fallbacks.count(index, layout.pfn(before.frame), told, before.order, cause);
    }

    /// A block that belongs to a refill under way.
    fn append(&mut self, index: usize, act: &Act, migrate_type: MigrateType) {
        let block = (act.frame, act.order);
        let list = (migrate_type, migrate_type);
        self.machine.linux.cache_block(&mut self.machine.table, act.cpu, block, list, End::Tail);
        self.entered[act.frame.index()] = (index as u32, migrate_type);
        let refill = self.cpus[usize::from(act.cpu)].refill.as_mut().expect("under way");
        refill.left -= 1;
        if refill.left == 0 {
            let refill = *refill;
            self.end_refill(refill);
        }
    }

    /// A block that no refill under way accounts for: the list must be empty, so what is on it was
    /// taken unseen, unless the block goes past the list. False in that case.
    fn begin_refill(
        &mut self,
        index: usize,
        act: &Act,
        zone: usize,
        migrate_type: MigrateType,
    ) -> bool {
        let cpu = usize::from(act.cpu);
        let listed: Vec<Frame> =
            self.machine.linux.cached(zone, act.cpu, act.order, migrate_type).collect();
        let silent = listed.iter().all(|&frame| self.is_silent(frame));
        if !silent {
            let last = self.cpus[cpu].refill.filter(|refill| {
                refill.zone == zone
                    && refill.order == act.order
                    && refill.migrate_type == migrate_type
                    && self.cpus[cpu].last_alloc < refill.began
                    && self.is_unbroken(refill.began, index)
            });
            if let Some(refill) = last {
                // The run goes on beyond the refill's size: that has grown.
                let before = self.stages.refill(zone, act.order);
                self.advance(Moment::before(refill.began));
                let more = self.stages.refill(zone, act.order).saturating_sub(before);
                let refill = Refill { left: more.max(1), ..refill };
                self.cpus[cpu].refill = Some(refill);
                self.append(index, act, migrate_type);
                return true;
            }
            let next = self.next_act_on_cpu(index);
            if next
                .is_some_and(|next| next.frame == act.frame && matches!(next.did, Did::Alloc(..)))
            {
                return false;
            }
            self.result.odd.refilled_full += 1;
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
            left: self.stages.refill(zone, act.order),
            first: act.frame,
            began: index,
        });
        self.append(index, act, migrate_type);
        true
    }

    /// Whether a CPU did nothing but fetch blocks between two acts.
    fn is_unbroken(&self, from: usize, to: usize) -> bool {
        let cpu = self.recording.acts[from].cpu;
        self.recording.acts[from..to]
            .iter()
            .filter(|act| act.cpu == cpu)
            .all(|act| matches!(act.did, Did::Locked(_) | Did::Fallback { .. } | Did::Snapshot(..)))
    }

    /// After a refill its first block is handed out. If that leaves no event, it was in bulk.
    fn end_refill(&mut self, refill: Refill) {
        if self.machine.table.state(refill.first) == State::Cached && self.is_silent(refill.first) {
            self.take_silently(refill.first, Moment::at(refill.began), false);
        }
    }

    // --- What is handed out. -------------------------------------------------------------------

    fn alloc(&mut self, index: usize, act: &Act) {
        let Did::Alloc(migrate_type, gfp) = act.did else { return };
        let cpu = usize::from(act.cpu);
        let (frame, order) = (act.frame, act.order);
        let mut moment = Moment::at(index);
        let direct = self.cpus[cpu].direct.take_if(|direct| direct.frame == frame);
        let guessed = match direct {
            Some(direct) => {
                moment = Moment::at(direct.act);
                direct.guessed
            }
            None => self.pop(index, act, migrate_type, &mut moment),
        };
        let layout = &self.recording.layout;
        let machine = &self.machine;
        let told = guessed.map(|frame| layout.pfn(frame));
        self.result
            .allocations
            .count(index, layout.pfn(frame), told, order, || super::where_is(machine, frame));
        if direct.is_none() {
            let cached = self.machine.table.state(frame) == State::Cached
                && self.machine.table.order(frame) == order;
            let taken = cached && self.uncache(frame, act.cpu);
            if !taken {
                self.machine.force(frame, order);
            }
        }
        self.machine.hold(frame, order, migrate_type, frame);
        let locked = direct.is_some() && goes_through_cpu(order);
        let cpu_number = act.cpu;
        let step = Step::Alloc { cpu: cpu_number, frame, order, migrate_type, gfp, locked };
        self.script(moment, step);
        let state = &mut self.cpus[cpu];
        state.exact = (order > Order::BASE).then_some((frame, order));
        state.last_alloc = index;
    }

    /// The block that the per-CPU list would give, once what was taken unseen is off it.
    fn pop(
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
        let list = self.machine.linux.cached(zone, act.cpu, act.order, migrate_type);
        let ahead: Vec<Frame> = list.take_while(|&frame| frame != act.frame).collect();
        let head = self.machine.linux.cached(zone, act.cpu, act.order, migrate_type).next();
        let listed = self.machine.linux.cached(zone, act.cpu, act.order, migrate_type).count();
        if ahead.is_empty() || ahead.len() == listed {
            // What made the refill necessary happened with it; other CPUs saw the free lists so.
            if let Some(refill) = self.cpus[usize::from(act.cpu)].refill
                && refill.first == act.frame
                && self.is_unbroken(refill.began, index)
            {
                *moment = Moment::at(refill.began);
            }
            return head;
        }
        let last_alloc = self.cpus[usize::from(act.cpu)].last_alloc;
        let (silent, other): (Vec<Frame>, Vec<Frame>) =
            ahead.iter().copied().partition(|&frame| self.is_silent(frame));
        let late = |frame: &Frame| self.entered[frame.index()].0 as usize > last_alloc;
        if !other.iter().all(late) {
            return head;
        }
        if let Some(first) = other.iter().map(|frame| self.entered[frame.index()].0).min() {
            // What came to the head since the last allocation was freed by an interrupt, after
            // this block had been taken and before that was logged.
            *moment = Moment::before(first as usize);
            self.result.hidden.reordered += 1;
            return Some(act.frame);
        }
        for frame in silent {
            self.take_silently(frame, Moment::before(index), false);
        }
        Some(act.frame)
    }

    fn uncache(&mut self, frame: Frame, cpu: u16) -> bool {
        if self.machine.linux.uncache(&mut self.machine.table, cpu, frame) {
            return true;
        }
        (0..self.recording.cpus)
            .any(|other| self.machine.linux.uncache(&mut self.machine.table, other, frame))
    }

    /// Takes a frame off its per-CPU list that was taken without an event, at `moment`.
    fn take_silently(&mut self, frame: Frame, moment: Moment, by_count: bool) {
        let (act, migrate_type) = self.entered[frame.index()];
        let cpu = self.recording.acts[act as usize].cpu;
        self.uncache(frame, cpu);
        self.machine.hold(frame, Order::BASE, MigrateType::Unmovable, frame);
        self.script(moment, Step::Bulk { cpu, frame, migrate_type });
        self.result.hidden.bulk += 1;
        self.result.hidden.bulk_by_count += u64::from(by_count);
    }

    /// When a frame that is still on a list was taken at the latest: before what stands ahead of
    /// it came there.
    fn latest(&self, frame: Frame, index: usize) -> Moment {
        let zone = self.machine.linux.zone_index(frame);
        let (act, migrate_type) = self.entered[frame.index()];
        let cpu = self.recording.acts[act as usize].cpu;
        let mut list = self.machine.linux.cached(zone, cpu, Order::BASE, migrate_type);
        let ahead = list.by_ref().take_while(|&listed| listed != frame).last();
        ahead.map_or(Moment::before(index), |ahead| {
            Moment::before(self.entered[ahead.index()].0 as usize)
        })
    }

    // --- What is given back. -------------------------------------------------------------------

    fn free(&mut self, index: usize, act: &Act) {
        let (frame, order) = (act.frame, act.order);
        if order == Order::BASE && self.machine.table.state(frame) == State::Cached {
            let moment = self.latest(frame, index);
            self.take_silently(frame, moment, false);
        }
        let stored = self.machine.linux.pageblock_type(frame);
        let next = self.next_act(index).map(|next| next.did);
        if next == Some(Did::Batched) && order == Order::BASE {
            self.prepared.insert(frame, stored);
            self.script(Moment::at(index), Step::Prepare { frame });
            return;
        }
        let within = self.cpus[usize::from(act.cpu)].exact.is_some_and(|(start, whole)| {
            order == Order::BASE && frame > start && frame < start.offset(whole.frames())
        });
        let direct = matches!(next, Some(Did::Locked(_) | Did::Fallback { .. }))
            || self.past_list.contains(&index);
        if goes_through_cpu(order) && !within && !direct {
            self.enter(index, act, stored);
            return;
        }
        let end = within.then_some(End::Tail);
        self.result.hidden.exact_tails += u64::from(within);
        self.result.hidden.direct_frees += u64::from(!within && goes_through_cpu(order));
        self.result.odd.freed_free += u64::from(self.machine.claim(frame, order));
        self.machine.linux.give_to_lists(&mut self.machine.table, frame, order, stored, end);
        self.script(Moment::at(index), Step::FreeDirect { frame, order, end });
    }

    /// A block comes to the head of a per-CPU list.
    fn enter(&mut self, index: usize, act: &Act, stored: MigrateType) {
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
        let drains = self.drains_after(index, act);
        let when = if drains { self.next_on_cpu[index] as usize } else { index };
        self.script(Moment::at(when), Step::Free { cpu: act.cpu, frame, order });
        self.check_count(index, act, drains);
    }

    /// Whether a free leads to a drain of its zone's lists.
    fn drains_after(&self, index: usize, act: &Act) -> bool {
        let zone = self.machine.linux.zone_index(act.frame);
        self.next_act_on_cpu(index).is_some_and(|next| {
            matches!(next.did, Did::Drain(_)) && self.machine.linux.zone_index(next.frame) == zone
        })
    }

    /// Holds the count of a CPU's frames against what followed: a drain or none.
    fn check_count(&mut self, index: usize, act: &Act, drains: bool) {
        let zone = self.machine.linux.zone_index(act.frame);
        let count = self.machine.linux.cached_count(zone, act.cpu);
        if self.stages.is_boot() {
            if !drains {
                self.advance(Moment::before(index));
            }
            return;
        }
        let factor = &mut self.factors[zone][usize::from(act.cpu)];
        if drains && *factor > 0 && act.order > Order::BASE && act.order.get() <= 3 {
            self.clear_all(index, act.cpu, zone);
            return;
        }
        if drains {
            let Pageset { batch, high } = self.stages.pageset(zone);
            let more = batch.saturating_mul(1 << *factor) < high.saturating_sub(batch)
                && *factor < SCALE_MAX;
            *factor += u32::from(more);
        }
        let mut high = u64::from(self.stages.pageset(zone).high);
        if !drains && count >= high && self.stages.is_early() && index > self.handed_over {
            self.advance(Moment::before(index));
            high = u64::from(self.stages.pageset(zone).high);
        }
        let most = if drains { high + act.order.frames() - 1 } else { high - 1 };
        if count > most {
            let missing = self.take_surplus(index, act, zone, count - most);
            self.result.odd.undrained += u64::from(missing > 0);
        } else if drains && count < high {
            self.result.odd.drained_low += 1;
        }
    }

    /// A free of a larger block gives back all that the lists hold: what does not go back had been
    /// taken unseen.
    fn clear_all(&mut self, index: usize, cpu: u16, zone: usize) {
        let mut run = Vec::new();
        let mut at = index;
        while let Some(next) = self.next_act_on_cpu(at)
            && matches!(next.did, Did::Drain(_))
            && self.machine.linux.zone_index(next.frame) == zone
        {
            at = self.next_on_cpu[at] as usize;
            run.push(next.frame);
        }
        run.sort_unstable();
        for migrate_type in [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Reclaimable]
        {
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
    fn suspect(&mut self, listed: &[Frame]) {
        for frame in listed {
            let (act, _) = self.entered[frame.index()];
            let larger = self.machine.table.order(*frame) > Order::BASE;
            if larger && self.next[act as usize] == NEVER {
                self.found_past_list.push(act as usize);
            }
        }
    }

    fn advance(&mut self, moment: Moment) {
        if let Some(limits) = self.stages.advance() {
            self.result.hidden.limits += 1;
            self.script(moment, Step::Pagesets(limits));
        }
    }

    /// Finds frames that were taken unseen before now, since there are more on the lists than
    /// there can be. Returns how many are missing still.
    fn take_surplus(&mut self, index: usize, act: &Act, zone: usize, mut surplus: u64) -> u64 {
        for migrate_type in [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Reclaimable]
        {
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

    fn drain(&mut self, act: &Act, migrate_type: MigrateType) {
        let (frame, order) = (act.frame, act.order);
        let state = self.machine.table.state(frame);
        if state != State::Cached || self.machine.table.order(frame) != order {
            self.result.odd.drained_unknown += 1;
            self.machine.force(frame, order);
        } else {
            self.clear_tail(frame, order, act.cpu);
            self.uncache(frame, act.cpu);
        }
        self.machine.linux.give_to_lists(&mut self.machine.table, frame, order, migrate_type, None);
    }

    /// Takes what stands behind a block that was drained, and so was there no more.
    fn clear_tail(&mut self, frame: Frame, order: Order, cpu: u16) {
        let zone = self.machine.linux.zone_index(frame);
        let (_, list) = self.entered[frame.index()];
        loop {
            let last = self.machine.linux.cached(zone, cpu, order, list).next_back();
            match last {
                Some(last) if last == frame => return,
                Some(last) if self.is_silent(last) => {
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
