//! The open-loop and corrected replays: everything is simulated but requests, frees, and unseen
//! actions, which come from the record.

use std::collections::{HashMap, HashSet};

use prairie_frames::free_area::End;
use prairie_frames::placement::linux::{Config, Tuning};
use prairie_frames::placement::{Placement, Request};
use prairie_frames::table::{State, mobility_of};
use prairie_frames::{Frame, MigrateType, Order};
use prairie_trace::GfpFlags;

use super::differences::Difference;
use super::machine::Machine;
use super::opening::Opening;
use super::recording::Recording;
use super::score::Score;
use super::script::Script;
use super::step::Step;

/// How wrong guesses are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The recorded frame changes places with the guessed one before the next guess.
    Corrected,
    /// They stand.
    Free,
}

/// The results of a simulation.
#[derive(Clone, Debug, Default)]
pub struct Simulated {
    /// Allocations on the recorded frame.
    pub allocations: Score,
    /// Frees of unknown frames.
    pub unknown_frees: u64,
    /// The kernel's own numbers of per-CPU lists in the record.
    pub readings: u64,
    /// Those of them that the simulated lists had, too: the count and the high mark.
    pub readings_alike: u64,
    /// What differed from the kernel's own account at each snapshot.
    pub snapshots: Vec<Vec<Difference>>,
}

struct Simulation<'a> {
    recording: &'a Recording,
    machine: Machine,
    mode: Mode,
    prepared: HashMap<Frame, MigrateType>,
    /// Guesses that were wrong and went back to the head of their list.
    wrong: HashSet<Frame>,
    /// What frees and updates of statistics are still to drain, by their act.
    excess: HashMap<usize, Excess>,
    result: Simulated,
}

/// What a free or an update of statistics found to be too much on a CPU's lists.
struct Excess {
    zone: usize,
    cpu: u16,
    /// The list of the freed block, which is drained first.
    list: Option<(MigrateType, Order)>,
    frames: u32,
    /// The batches in which the record has the rest of it drained.
    batches: u32,
}

/// An allocation of the record.
struct Wanted {
    cpu: u16,
    /// The block that the kernel chose.
    frame: Frame,
    order: Order,
    migrate_type: MigrateType,
    /// Whether that came to its per-CPU list with a refill.
    refilled: bool,
}

/// Plays a script from the opening on.
pub fn simulate(
    recording: &Recording,
    opening: &Opening,
    config: Config,
    script: &Script,
    mode: Mode,
) -> Simulated {
    let machine = Machine::open(recording, config, opening);
    let mut simulation = Simulation {
        recording,
        machine,
        mode,
        prepared: HashMap::new(),
        wrong: HashSet::new(),
        excess: HashMap::new(),
        result: Simulated::default(),
    };
    for (act, step) in script.steps() {
        simulation.step(act, step);
    }
    simulation.result
}

impl Simulation<'_> {
    fn step(&mut self, act: usize, step: &Step) {
        match *step {
            Step::Alloc { cpu, frame, order, migrate_type, gfp, locked, refilled } => {
                let request = self.request(cpu, order, migrate_type, gfp.0);
                let zone = self.machine.linux.zone_index(frame);
                self.vacate(frame, order);
                let Machine { table, linux, .. } = &mut self.machine;
                let placed = linux.allocate_in(table, zone, &request, frame.0, locked);
                let wanted = Wanted { cpu, frame, order, migrate_type, refilled };
                self.score(act, &wanted, placed);
                self.check(&wanted, placed);
            }
            Step::Bulk { cpu, frame, order, migrate_type, refilled } => {
                let request = self.request(cpu, order, migrate_type, Request::default().gfp_flags);
                let zone = self.machine.linux.zone_index(frame);
                self.vacate(frame, order);
                let Machine { table, linux, .. } = &mut self.machine;
                let placed = linux.take_bulk(table, zone, &request, frame.0);
                self.check(&Wanted { cpu, frame, order, migrate_type, refilled }, placed);
            }
            Step::Prepare { frame } => {
                let placed = self.machine.table.block_of(frame.0).unwrap_or(frame);
                self.prepared.insert(frame, self.machine.linux.pageblock_type(placed));
            }
            Step::Free { cpu, frame, order, batches } => {
                let Some(placed) = self.held(frame, order) else { return };
                let stored = self.machine.linux.pageblock_type(placed);
                if batches > 0 && stored != MigrateType::Isolate {
                    return self.free_by_batch(act, (placed, order), cpu, batches);
                }
                let Machine { table, linux, .. } = &mut self.machine;
                match self.prepared.remove(&frame).filter(|_| order == Order::BASE) {
                    Some(migrate_type) => linux.free_as(table, placed, cpu, migrate_type),
                    None => linux.free(table, placed, cpu),
                }
            }
            Step::FreeDirect { frame, order, end } => {
                let Some(placed) = self.held(frame, order) else { return };
                let Machine { table, linux, .. } = &mut self.machine;
                linux.free_to_buddy(table, placed, end);
            }
            Step::HandOver { frame, order } => self.machine.hand_over(frame, order),
            Step::Pagesets(ref pagesets) => self.machine.linux.set_pagesets(pagesets),
            Step::Watermarks(ref marks) => {
                for (zone, &marks) in marks.iter().enumerate() {
                    self.machine.linux.set_watermarks(zone, marks);
                }
            }
            Step::Sizes(ref sizes) => self.machine.set_sizes(sizes),
            Step::Decay { zone, cpu, reading, batches } => {
                self.decay(act, (zone, cpu), reading, batches);
            }
            Step::DrainBatch { cause } => self.drain_batch(cause),
            Step::Lower { zone, cpu, high } => {
                let Machine { table, linux, .. } = &mut self.machine;
                linux.lower_to(table, zone, cpu, high);
            }
            Step::DrainZone { zone, frames } => {
                let Machine { table, linux, .. } = &mut self.machine;
                linux.drain_zone(table, zone, frames);
            }
            Step::Isolate { frame } => self.machine.isolate(frame),
            Step::Remove { frame } => {
                self.machine.remove(frame);
            }
            Step::DrainRemote { zone, cpu } => {
                let Machine { table, linux, .. } = &mut self.machine;
                linux.drain_batch(table, zone, cpu);
            }
            Step::Snapshot(place) => {
                let snapshot = &self.recording.snapshots[place];
                let found =
                    super::differences::of(&self.recording.layout, &self.machine.linux, snapshot);
                self.result.snapshots.push(found);
            }
        }
    }

    /// Statistics are updated; before that, the kernel's own numbers of the lists are compared.
    fn decay(&mut self, act: usize, (zone, cpu): (usize, u16), reading: usize, batches: u32) {
        let Machine { table, linux, .. } = &mut self.machine;
        if let Some((_, lists)) = self.recording.readings.get(reading) {
            let same = linux.cached_count(zone, cpu) == u64::from(lists.count)
                && linux.tuning(zone, cpu).high == lists.high;
            self.result.readings += 1;
            self.result.readings_alike += u64::from(same);
            // The high mark is a limit, and those come from the record: it may have been lowered
            // before there were probes.
            let tuning = Tuning { high: lists.high, ..linux.tuning(zone, cpu) };
            linux.set_tuning(zone, cpu, tuning);
        }
        let frames = linux.lower_high(zone, cpu);
        match batches {
            0 => linux.drain_by_batch(table, zone, cpu, frames),
            _ => drop(self.excess.insert(act, Excess { zone, cpu, list: None, frames, batches })),
        }
    }

    /// A block comes to a per-CPU list. What is then too much goes back in batches.
    fn free_by_batch(&mut self, act: usize, block: (Frame, Order), cpu: u16, batches: u32) {
        let (frame, order) = block;
        let Machine { table, linux, .. } = &mut self.machine;
        let (zone, stored) = (linux.zone_index(frame), linux.pageblock_type(frame));
        table.release(frame);
        linux.cache_block(table, cpu, block, (stored, stored), End::Head);
        let (list, frames) = (Some((stored, order)), linux.plan_free(zone, cpu, order));
        self.excess.insert(act, Excess { zone, cpu, list, frames, batches });
    }

    /// A free or an update of statistics drains a batch; with the last, all that is left.
    fn drain_batch(&mut self, cause: usize) {
        let Some(excess) = self.excess.get_mut(&cause) else { return };
        let &mut Excess { zone, cpu, list, .. } = excess;
        let Machine { table, linux, .. } = &mut self.machine;
        let batch = match excess.batches {
            0 | 1 => excess.frames,
            _ => excess.frames.min(linux.pageset(zone).batch.max(1)),
        };
        let last = excess.batches <= 1;
        excess.frames -= batch;
        excess.batches = excess.batches.saturating_sub(1);
        match list {
            Some(list) => linux.drain_part(table, (zone, cpu), list, (batch, last)),
            None => linux.drain_by_batch(table, zone, cpu, batch),
        }
        if last {
            self.excess.remove(&cause);
        }
    }

    fn request(
        &self,
        cpu: u16,
        order: Order,
        migrate_type: MigrateType,
        gfp_flags: u32,
    ) -> Request {
        let mobility = mobility_of(migrate_type);
        let highest_zone = GfpFlags(gfp_flags).highest_zone();
        Request {
            cpu,
            order,
            migrate_type,
            mobility,
            gfp_flags,
            highest_zone,
            ..Request::default()
        }
    }

    /// Lets go of what a recorded frame still holds when it is allocated again: its free was not
    /// seen. It does not change the lists.
    fn vacate(&mut self, frame: Frame, order: Order) {
        for owner in frame.0..frame.0 + order.frames() as u32 {
            while let Some((first, block)) = self.machine.table.block_containing(owner) {
                if first == owner && self.machine.table.order(block) == Order::BASE {
                    let migrate_type = self.machine.linux.pageblock_type(block);
                    self.machine.table.release(block);
                    let Machine { table, linux, .. } = &mut self.machine;
                    linux.give_to_lists(table, block, Order::BASE, migrate_type, None);
                    self.result.unknown_frees += 1;
                    break;
                }
                self.machine.table.split_allocated(block);
            }
        }
    }

    /// The block that a recorded frame holds, cut to the size that is freed.
    fn held(&mut self, frame: Frame, order: Order) -> Option<Frame> {
        if let Some(placed) = self.machine.table.block_of(frame.0)
            && self.machine.table.order(placed) == order
        {
            return Some(placed);
        }
        if let Some((mut owner, mut block)) = self.machine.table.block_containing(frame.0) {
            while self.machine.table.order(block) > order {
                self.machine.table.split_allocated(block);
                let half = self.machine.table.order(block).frames() as u32;
                if frame.0 >= owner + half {
                    owner += half;
                    block = block.offset(half.into());
                }
            }
            if owner == frame.0 && self.machine.table.order(block) == order {
                return Some(block);
            }
        }
        // In use since before the trace, in place: it was never the model's to move.
        let free = (0..order.frames()).any(|inside| {
            let head = self.machine.head_of(frame.offset(inside));
            head.is_none_or(|(_, state)| matches!(state, State::Free | State::Cached))
        });
        let foreign = (0..order.frames()).any(|inside| {
            let here = frame.offset(inside);
            self.machine.head_of(here).is_some_and(|(head, state)| {
                state == State::Allocated
                    && !(frame.0..frame.0 + order.frames() as u32)
                        .contains(&self.machine.table.owner(head))
            })
        });
        if free || foreign {
            self.result.unknown_frees += 1;
            return None;
        }
        self.machine.claim(frame, order);
        self.machine.hold(frame, order, MigrateType::Unmovable, frame);
        Some(frame)
    }

    /// Counts a guess.
    fn score(&mut self, act: usize, wanted: &Wanted, placed: Option<Frame>) {
        let layout = &self.recording.layout;
        let guessed = placed.map(|placed| layout.pfn(placed));
        let (machine, frame) = (&self.machine, wanted.frame);
        self.result.allocations.count(act, layout.pfn(frame), guessed, wanted.order, || {
            super::where_is(machine, frame)
        });
    }

    /// Compares a guess with the record and, if asked to, puts it right.
    fn check(&mut self, wanted: &Wanted, placed: Option<Frame>) {
        if placed == Some(wanted.frame) {
            self.wrong.remove(&wanted.frame);
        } else if self.mode == Mode::Corrected {
            self.correct(wanted, placed);
        }
    }

    /// Takes the recorded frame from wherever it is, and puts the guessed one back.
    fn correct(&mut self, wanted: &Wanted, placed: Option<Frame>) {
        let Wanted { cpu, frame, order, migrate_type, refilled } = *wanted;
        let machine = &mut self.machine;
        if let Some(placed) = placed {
            machine.table.release(placed);
        }
        let listed = machine.table.state(frame) == State::Cached
            && machine.table.order(frame) == order
            && machine.linux.zone_index(frame) == placed.map_or(0, |p| machine.linux.zone_index(p));
        if let Some(placed) = placed
            && listed
        {
            if machine.linux.uncache(&mut machine.table, cpu, frame) {
                machine.hold(frame, order, migrate_type, frame);
                return self.put_back(wanted, placed);
            }
            let others = 0..self.recording.cpus;
            if others.into_iter().any(|other| {
                machine.linux.exchange_cached(&mut machine.table, other, frame, placed)
            }) {
                machine.hold(frame, order, migrate_type, frame);
                return;
            }
        }
        let was_free = machine.force(frame, order);
        machine.hold(frame, order, migrate_type, frame);
        let Some(placed) = placed else { return };
        if was_free && !refilled && order <= Order::new(3).expect("an order") {
            // The frame was drained too early.
            return self.put_back(wanted, placed);
        }
        // Where another block was refilled, it takes the place of the right one: the list would offer
        // it again and again.
        let stored = machine.linux.pageblock_type(placed);
        machine.linux.give_to_lists(&mut machine.table, placed, order, stored, None);
    }

    /// Puts a wrong guess back on its list: first, since it is probably next; last, if that was
    /// wrong as well.
    fn put_back(&mut self, wanted: &Wanted, placed: Frame) {
        let again = !self.wrong.insert(placed);
        let end = if again { End::Tail } else { End::Head };
        if again {
            self.wrong.remove(&placed);
        }
        let machine = &mut self.machine;
        let list = (wanted.migrate_type, machine.linux.pageblock_type(placed));
        let block = (placed, wanted.order);
        machine.linux.cache_block(&mut machine.table, wanted.cpu, block, list, end);
    }
}
