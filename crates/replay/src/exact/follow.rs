//! The replay that follows the record: what moves between the free lists and the per-CPU lists,
//! and when, comes from the events; which frame it is, from the model. On the way it finds out
//! what left no event, and writes it all down as a [`Script`].

mod adaptive;
mod ahead;
mod arrivals;
mod bulk;
mod captured;
mod compacted;
mod given;
mod interrupted;
mod interrupts;
mod late;
mod lowered;
mod taken;
mod unseen;
mod updates;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use prairie_frames::placement::linux::{Config, Pageset};
use prairie_frames::{Frame, MigrateType, Order};
use serde::Serialize;

use lowered::{Lowered, Mark};

use super::act::{Act, Action, Edge, Resized, goes_through_cpu};
use super::differences::Difference;
use super::machine::Machine;
use super::measures::{self, Measures};
use super::opening::Opening;
use super::recording::Recording;
use super::score::Score;
use super::script::{Moment, Script};
use super::stages::Stages;
use super::step::Step;

/// No act.
const NEVER: u32 = u32::MAX;

/// Actions without an event, inferred from the record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UnrecordedEvents {
    /// Frames of bulk allocations.
    pub bulk: u64,
    /// Those of them whose moment follows from the count at the beginning of a drain.
    pub bulk_by_count: u64,
    /// Frees that bypassed a per-CPU list in use.
    pub direct_frees: u64,
    /// Allocations that bypassed a per-CPU list in use.
    pub direct_allocations: u64,
    /// Frames of exact allocations that went back to the tail.
    pub exact_tails: u64,
    /// Allocations logged after a free that came later.
    pub reordered: u64,
    /// Allocations logged on another CPU than the one whose list gave the block.
    pub migrated: u64,
    /// Changes of the per-CPU lists' limits.
    pub limits: u64,
    /// Larger blocks that direct compaction gave directly to its requester.
    pub captured: u64,
    /// Free lists that compaction rotated without success; each was a wrong guess.
    pub turned: u64,
}

/// Inconsistencies, and their number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Inconsistencies {
    /// Blocks taken from the free lists that are not free in the model.
    pub not_free: u64,
    /// Frees of frames that are free in the model.
    pub freed_free: u64,
    /// Drained blocks that were on no per-CPU list.
    pub drained_unknown: u64,
    /// Drained blocks that were not the last of their list.
    pub drained_early: u64,
    /// Pageblocks that went offline and were not all free.
    pub removed_used: u64,
    /// Refills of lists that were not empty.
    pub refilled_full: u64,
    /// Drains that began below the high mark.
    pub drained_low: u64,
    /// Frees above the high mark without a drain.
    pub undrained: u64,
    /// Refills of another size than expected, of lists that adapt.
    pub resized: u64,
    /// Frames that a bulk allocation was given and that were on no list it could take from.
    pub bulk_missing: u64,
}

/// The results of the trace-driven replay.
#[derive(Clone, Debug, Default)]
pub struct TraceDriven {
    /// Blocks that left the free lists.
    pub zone_locked: Score,
    /// Fallbacks to foreign lists: block, and whether the pageblock was claimed.
    pub fallbacks: Score,
    /// All allocations.
    pub allocations: Score,
    /// Isolated blocks: the model also had the block on its lists.
    pub isolated: Score,
    /// Inferred actions.
    pub hidden: UnrecordedEvents,
    /// Inconsistencies.
    pub odd: Inconsistencies,
    /// Pageblocks whose frames, never named again, were on a list that was empty: the list of their type.
    pub mistyped: Vec<usize>,
    /// The steps for a simulation.
    pub script: Script,
    /// The comparison with the kernel at each snapshot.
    pub snapshots: Vec<SnapshotComparison>,
}

/// The comparison with the kernel at one snapshot.
#[derive(Clone, Debug)]
pub struct SnapshotComparison {
    /// The numbers that differ.
    pub differences: Vec<Difference>,
    /// The kernel's measures.
    pub kernel: Measures,
    /// The replay's measures.
    pub replay: Measures,
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

/// A block on its way from the free lists to a request, bypassing the per-CPU lists.
#[derive(Clone, Copy)]
struct Direct {
    guessed: Option<Frame>,
    act: usize,
}

/// An allocation in bulk that the record names.
#[derive(Clone, Copy)]
struct Bulk {
    migrate_type: MigrateType,
    zone: usize,
    /// Frames that it is still to get.
    left: u32,
}

/// Unfinished actions of one CPU.
#[derive(Clone, Default)]
struct Cpu {
    refill: Option<Refill>,
    bulk: Option<Bulk>,
    /// The last allocation of several frames, and what of it went back since.
    exact: Option<(Frame, Order)>,
    last_alloc: usize,
    /// Drains with a recorded cause.
    drains: Drains,
}

/// Drains that a free or an update of statistics has caused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Drains {
    /// The thread that drains, as far as that is known.
    thread: Option<i32>,
    /// The zone whose lists it drains.
    zone: usize,
    /// Frames that it is still to drain. The lists may be used by other threads in between.
    left: i64,
}

/// What a run finds out too late to follow it so.
#[derive(Debug, Default, PartialEq, Eq)]
struct FoundLate {
    /// Frees that went past the per-CPU list.
    past_list: HashSet<usize>,
    /// High marks that were lowered unseen.
    lowered: Vec<Lowered>,
    /// Frees whose thread was preempted before the block came to its list, and the act before which it
    /// came.
    arrivals: HashMap<usize, usize>,
    /// Allocations in bulk that took their frames only as they returned, by the act that begins them.
    postponed: HashSet<usize>,
}

struct Follow<'a> {
    recording: &'a Recording,
    machine: Machine,
    /// Whether lists adapt.
    adaptive: bool,
    /// Whether drains let go of the lists after each batch.
    drains_by_batch: bool,
    /// Drains that belong to a free or an update of statistics already seen.
    caused: HashSet<u32>,
    /// The act from which on the record names allocations in bulk.
    bulk_from: usize,
    /// The act from which on the record has the kernel's numbers at each update of statistics.
    readings_from: usize,
    stages: Stages,
    /// The act of the last change of limits that the record names, and the limits before it.
    changed: Option<(usize, Vec<Pageset>)>,
    /// Refills whose size was found before limits changed, by their first act: when it was found.
    sized_before: HashMap<u32, Moment>,
    /// The next act that names the first frame of an act's block.
    next: Vec<u32>,
    /// The next act on the same CPU.
    next_on_cpu: Vec<u32>,
    /// By frame: the act with which a block came to a per-CPU list, and which list.
    entered: Vec<(u32, MigrateType)>,
    /// Types of pageblocks looked up by frees of lists of frames.
    prepared: HashMap<Frame, MigrateType>,
    cpus: Vec<Cpu>,
    /// Threads whose last bulk allocation found nothing that it may have taken, and its frames.
    unmet_bulks: HashMap<i32, u32>,
    /// Blocks on their way past the per-CPU lists, by first frame.
    direct: HashMap<Frame, Direct>,
    /// The last allocation of the same thread, begun or logged, before each act. What an interrupt
    /// frees does not count.
    before_by_thread: Vec<u32>,
    /// For each act, the allocation of a block that its thread captures as it compacts.
    captures: Vec<u32>,
    /// Such allocations whose block was captured.
    captured: HashSet<u32>,
    /// Blocks whose allocation was logged after later ones, until then.
    early: HashSet<Frame>,
    /// Allocations that were logged late, by the act that logs them: when the block was taken.
    taken_before: HashMap<u32, Moment>,
    /// Acts with which refills began.
    begun: HashSet<u32>,
    /// By zone and CPU: the last act that showed the number of frames on the lists to be right.
    counted: Vec<Vec<usize>>,
    /// By zone and CPU: frames by which the lists may be above their high mark since a free last found
    /// them below it, because refills brought them or the mark was lowered.
    above: Vec<Vec<u64>>,
    /// By zone and CPU: how often what is freed at once has doubled (`free_factor`).
    factors: Vec<Vec<u32>>,
    handed_over: usize,
    /// What earlier runs found out too late.
    known: &'a FoundLate,
    /// What this one does.
    found: FoundLate,
    /// By zone and CPU: high marks until the first reading of the lists.
    marks: Vec<Vec<Option<Vec<Mark>>>>,
    /// Fallbacks in the record so far.
    recorded_fallbacks: u64,
    /// Acts from which on guesses count.
    scored_from: usize,
    result: TraceDriven,
}

/// Runs of the whole record at most: each finds frees that the one before took wrongly.
const RUNS: usize = 8;

/// Follows the record from the opening on, up to the end of `scored`; guesses count from its start
/// on.
///
/// A block that was freed past a per-CPU list in use, and merged and was never named again, looks
/// like one on the list until it bars the way there. Then the record is followed once more.
pub fn follow(
    recording: &Recording,
    opening: &Opening,
    config: Config,
    scored: Range<usize>,
) -> TraceDriven {
    let mut known = FoundLate { past_list: interrupts::frees(recording), ..FoundLate::default() };
    for _ in 1..RUNS {
        let (followed, found) = follow_once(recording, opening, config, &scored, &known);
        if found == FoundLate::default() {
            return followed;
        }
        known.past_list.extend(found.past_list);
        known.lowered.extend(found.lowered);
        known.postponed.extend(found.postponed);
        known.arrivals.extend(found.arrivals);
    }
    follow_once(recording, opening, config, &scored, &known).0
}

fn follow_once(
    recording: &Recording,
    opening: &Opening,
    config: Config,
    scored: &Range<usize>,
    known: &FoundLate,
) -> (TraceDriven, FoundLate) {
    let machine = Machine::open(recording, config, opening);
    let frames = recording.layout.frames() as usize;
    let late = |act: &Act| act.action == Action::HandOver;
    let boot = &recording.acts[..recording.initialized()];
    let is_bulk = |act: &Act| matches!(act.action, Action::Bulk { .. });
    let is_reading = |act: &Act| matches!(act.action, Action::Decay(_));
    let unread = recording.acts.iter().any(is_reading).then(Vec::new);
    let follow = Follow {
        recording,
        machine,
        adaptive: config.adaptive_lists,
        drains_by_batch: config.drains_by_batch,
        caused: HashSet::new(),
        bulk_from: recording.acts.iter().position(is_bulk).unwrap_or(usize::MAX),
        readings_from: recording.acts.iter().position(is_reading).unwrap_or(usize::MAX),
        stages: Stages::of(recording),
        changed: None,
        sized_before: HashMap::new(),
        next: next_by_frame(&recording.acts, frames),
        next_on_cpu: next_by_cpu(&recording.acts, recording.cpus),
        entered: vec![(NEVER, MigrateType::Unmovable); frames],
        prepared: HashMap::new(),
        cpus: vec![Cpu::default(); recording.cpus.into()],
        unmet_bulks: HashMap::new(),
        direct: HashMap::new(),
        before_by_thread: before_by_thread(&recording.acts),
        captures: captured::captures(&recording.acts, frames),
        captured: HashSet::new(),
        early: HashSet::new(),
        taken_before: HashMap::new(),
        begun: HashSet::new(),
        counted: vec![vec![0; recording.cpus.into()]; recording.layout.zones().len()],
        above: vec![vec![0; recording.cpus.into()]; recording.layout.zones().len()],
        factors: vec![vec![0; recording.cpus.into()]; recording.layout.zones().len()],
        handed_over: boot.iter().rposition(late).unwrap_or(0),
        known,
        found: FoundLate::default(),
        marks: vec![vec![unread; recording.cpus.into()]; recording.layout.zones().len()],
        recorded_fallbacks: 0,
        scored_from: scored.start,
        result: TraceDriven::default(),
    };
    follow.run(&recording.acts[..scored.end])
}

/// For each act, the next one that names its first frame.
fn next_by_frame(acts: &[Act], frames: usize) -> Vec<u32> {
    let mut next = vec![NEVER; acts.len()];
    let mut last = vec![NEVER; frames];
    for (index, act) in acts.iter().enumerate().rev() {
        if act.frame == Frame::NONE || act.is_aside() {
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
        if act.frame != Frame::NONE && !act.is_aside() {
            next[index] = last[usize::from(act.cpu)];
            last[usize::from(act.cpu)] = index as u32;
        }
    }
    next
}

/// For each allocation, begun or logged, the one before it of the same thread.
fn before_by_thread(acts: &[Act]) -> Vec<u32> {
    let mut last: HashMap<i32, u32> = HashMap::new();
    let before = |(index, act): (usize, &Act)| match act.action {
        Action::Alloc(..) | Action::Locked(_) => {
            last.insert(act.thread, index as u32).unwrap_or(NEVER)
        }
        _ => NEVER,
    };
    acts.iter().enumerate().map(before).collect()
}

impl Follow<'_> {
    /// Follows acts from the first on. Also returns what was found out too late.
    fn run(mut self, acts: &[Act]) -> (TraceDriven, FoundLate) {
        for (index, act) in acts.iter().enumerate() {
            self.lower_before(index);
            let marks = self.marks_before(index, act.cpu);
            self.arrive_before(index);
            if !self.known.arrivals.contains_key(&index) {
                self.act(index, act);
            }
            self.keep_changed(act.cpu, marks);
        }
        self.result.script.sort();
        (self.result, self.found)
    }

    fn act(&mut self, index: usize, act: &Act) {
        if act.frame != Frame::NONE && !act.is_aside() && !matches!(act.action, Action::Drain(_)) {
            let drains = self.cpus[usize::from(act.cpu)].drains;
            let own = drains.thread.is_none_or(|thread| thread == act.thread);
            // An interrupt frees past lists in use.
            if drains.left <= 0 || (own && !self.is_past_lists(index, act)) {
                self.cpus[usize::from(act.cpu)].drains = Drains::default();
            }
        }
        match act.action {
            Action::Bulk { migrate_type, frames, node, returns } => {
                let unmet = self.unmet_bulks.remove(&act.thread);
                let again = unmet.filter(|_| returns);
                if !returns || again.is_some() {
                    self.result.odd.bulk_missing -= u64::from(again.unwrap_or(0));
                    self.begin_bulk(index, act, migrate_type, (frames, node));
                }
            }
            Action::Decay(reading) => self.decay(index, act.cpu, reading),
            Action::Isolates => {
                self.machine.isolate(act.frame);
                self.script(Moment::at(index), Step::Isolate { frame: act.frame });
            }
            Action::Removed => {
                self.result.odd.removed_used += u64::from(!self.machine.remove(act.frame));
                self.script(Moment::at(index), Step::Remove { frame: act.frame });
            }
            Action::Resized(resized) => {
                self.changed = Some((index, self.stages.limits().to_vec()));
                while self.stages.is_due(index) {
                    self.advance(Moment::before(index));
                }
                if let Resized::Disabled(zone) = resized {
                    for (began, frames) in self.emptied(index, zone) {
                        self.script(Moment::at(began), Step::DrainZone { zone, frames });
                    }
                }
            }
            Action::Locked(migrate_type) => self.locked(index, act, migrate_type),
            Action::Alloc(..) => self.alloc(index, act),
            Action::Free => self.free(index, act),
            Action::HandOver => {
                self.machine.hand_over(act.frame, act.order);
                let (frame, order) = (act.frame, act.order);
                self.script(Moment::at(index), Step::HandOver { frame, order });
            }
            // No kernel lists a block of such an order.
            Action::Listed if !goes_through_cpu(act.order) => {
                self.past_lists(index, act, false);
            }
            Action::Listed => {
                let found = self.prepared.remove(&act.frame);
                let stored = found.unwrap_or(self.machine.linux.pageblock_type(act.frame));
                self.enter(index, act, stored);
            }
            Action::PastLists { to_tail } => self.past_lists(index, act, to_tail),
            Action::Drain(migrate_type) => self.drain(index, act, migrate_type),
            Action::Fallback { .. } => self.recorded_fallbacks += 1,
            Action::Isolated { searched } => self.isolated(index, act, searched),
            Action::Retyped(migrate_type) => self.retyped(act, migrate_type),
            Action::Regrouped(migrate_type) => self.regrouped(act, migrate_type),
            Action::Picked => self.picked(act),
            Action::Snapshot(place, Edge::End) => {
                self.snapshot(place);
                self.script(Moment::at(index), Step::Snapshot(place));
            }
            Action::Snapshot(_, Edge::Begin)
            | Action::CompactMemory
            | Action::Joined
            | Action::Kept
            | Action::Opened
            | Action::Refused(..) => {}
        }
    }

    /// Compares the machine with the kernel's snapshot.
    fn snapshot(&mut self, place: usize) {
        let recording = self.recording;
        let snapshot = &recording.snapshots[place];
        let fallbacks = self.machine.linux.last_fallback().0;
        self.result.snapshots.push(SnapshotComparison {
            differences: super::differences::of(&recording.layout, &self.machine.linux, snapshot),
            kernel: measures::of_kernel(&recording.layout, snapshot, self.recorded_fallbacks),
            replay: measures::of_replay(recording, &self.machine, fallbacks),
        });
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

    fn uncache(&mut self, frame: Frame, cpu: u16) -> bool {
        if self.machine.linux.uncache(&mut self.machine.table, cpu, frame) {
            return true;
        }
        (0..self.recording.cpus)
            .any(|other| self.machine.linux.uncache(&mut self.machine.table, other, frame))
    }

    fn advance(&mut self, moment: Moment) {
        let before = self.stages.limits().to_vec();
        if !self.stages.advance() {
            return;
        }
        self.result.hidden.limits += 1;
        let limits = self.stages.limits().to_vec();
        for (zone, (before, now)) in before.iter().zip(&limits).enumerate() {
            let lowered = before.high.saturating_sub(now.high);
            self.above[zone].iter_mut().for_each(|above| *above += u64::from(lowered));
        }
        if self.adaptive {
            self.machine.linux.set_pagesets(&limits);
        }
        self.script(moment, Step::Pagesets(limits));
        if let Some(marks) = self.stages.watermarks() {
            let marks = marks.to_vec();
            for (zone, &marks) in marks.iter().enumerate() {
                self.machine.linux.set_watermarks(zone, marks);
            }
            self.script(moment, Step::Watermarks(marks));
        }
        if let Some(sizes) = self.stages.sizes() {
            let sizes = sizes.to_vec();
            self.machine.set_sizes(&sizes);
            self.script(moment, Step::Sizes(sizes));
        }
    }
}
