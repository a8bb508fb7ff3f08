//! The replay in which the laboratory's own reclaim and compaction run: only the demand follows the
//! record.
//!
//! Demand is the requests of programs and the kernel with their times, whether or not they
//! succeeded, their frees, and requests to compact all memory. Left out are pages that kswapd and
//! requests reclaimed, and pages that compaction took and moved
//! ([`Threads`](super::threads::Threads) separates the two). The [machine](prairie_sim::machine)
//! does that work by itself, at its own time.
//!
//! A page has the identity of the request that brought it in. Three facts are approximate:
//!
//! - The record does not show accesses to pages, so pages age in the order of their arrival.
//! - It does not show which page was moved to which frame. A frame that compaction took, and that
//!   is returned later, stands for the first moved page without a frame.
//! - Caches of kernel objects shrink as they did in the record, because it does not show the
//!   contents of slabs.

use std::collections::{HashMap, HashSet, VecDeque};

use prairie_frames::placement::Request;
use prairie_frames::placement::linux::Config;
use prairie_frames::table::mobility_of;
use prairie_frames::{Frame, MigrateType, Order};
use prairie_trace::GfpFlags;
use serde::Serialize;

use super::act::{Act, Action, Edge};
use super::machine::Machine as Opened;
use super::measures::{self, Measures};
use super::opening::Opening;
use super::recording::Recording;
use super::script::Script;
use super::step::Step;
use super::threads::By;
use crate::purpose::purpose;
use prairie_model::allocator::Allocator;
use prairie_sim::machine::Machine;
use prairie_sim::machine::costs::Costs;
use prairie_sim::machine::page::Pages;
use prairie_sim::machine::recorded::{Purpose, RecordedBlock, ResumedMemory};
use prairie_sim::machine::scenario;

/// The results of the driven machine.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Driven {
    /// Memory at each snapshot, in the order of the recording's.
    pub snapshots: Vec<Measures>,
    /// Requests that the recorded kernel met and the machine did not.
    pub unmet: u64,
    /// Requests that the recorded kernel refused and the machine met.
    pub met: u64,
    /// Pages that the recorded kernel reclaimed: by kswapd, and by requests for themselves.
    pub recorded_reclaimed: [u64; 2],
    /// Pages that the machine reclaimed, likewise.
    pub reclaimed: [u64; 2],
    /// Pages that the recorded kernel moved.
    pub recorded_moved: u64,
    /// Pages that the machine moved.
    pub moved: u64,
    /// Frees of memory that the machine had already reclaimed.
    pub gone_before: u64,
}

/// What kswapd takes to free a page on the recorded kernel, in nanoseconds: the mean time between
/// two frees in a row, breaks left out. Nothing if it freed none.
fn kswapd_pace(acts: &[Act]) -> Option<u64> {
    const BREAK_NS: u64 = 1_000_000;
    let frees = acts.iter().filter(|act| act.by == By::Kswapd && act.action == Action::Free);
    let times: Vec<u64> = frees.map(|act| act.time_ns).collect();
    let gaps = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
    let (count, sum) =
        gaps.filter(|&gap| gap < BREAK_NS).fold((0, 0), |(count, sum), gap| (count + 1, sum + gap));
    (count > 0).then(|| sum / count)
}

/// Work costs in proportion to what kswapd takes for a page: a recorded machine may be emulated.
fn pace(costs: &mut Costs, acts: &[Act]) {
    let page = costs.scan_ns + costs.evict_ns;
    let Some(recorded) = kswapd_pace(acts) else { return };
    for cost in [
        &mut costs.scan_ns,
        &mut costs.evict_ns,
        &mut costs.scan_frame_ns,
        &mut costs.migrate_ns,
        &mut costs.copy_frame_ns,
    ] {
        *cost = *cost * recorded / page;
    }
}

struct Drive<'a> {
    recording: &'a Recording,
    machine: Machine,
    /// The machine's block for each recorded allocation, by its first recorded frame.
    names: HashMap<Frame, RecordedBlock>,
    /// Frames that compaction isolated in the record and has not released.
    targets: HashSet<Frame>,
    /// What compaction moved in the record and is not known to be anywhere yet, first moved first.
    moved: VecDeque<RecordedBlock>,
    pages: u32,
    result: Driven,
}

/// Replays the demand of a recording from the opening on. `hidden` is the script of a replay that
/// followed it to the end.
pub fn drive(recording: &Recording, opening: &Opening, config: Config, hidden: &Script) -> Driven {
    let mut drive = Drive {
        recording,
        machine: resume(recording, opening, config),
        names: HashMap::new(),
        targets: HashSet::new(),
        moved: VecDeque::new(),
        pages: 0,
        result: Driven::default(),
    };
    let began_ns = recording.acts.first().map_or(0, |act| act.time_ns);
    let mut hidden = hidden.steps().filter(|(_, step)| is_hidden(step)).peekable();
    for (index, act) in recording.acts.iter().enumerate() {
        drive.machine.run_until(act.time_ns.saturating_sub(began_ns));
        while let Some((_, step)) = hidden.next_if(|&(at, _)| at <= index) {
            drive.hidden(step);
        }
        drive.act(act);
    }
    let counters = drive.machine.counters();
    drive.result.reclaimed = [counters.pgsteal_kswapd, counters.pgsteal_direct];
    drive.result.moved = counters.pgmigrate_success;
    drive.result
}

/// Facts of the script beyond the actions.
fn is_hidden(step: &Step) -> bool {
    matches!(step, Step::Bulk { .. } | Step::Pagesets(_))
}

fn resume(recording: &Recording, opening: &Opening, config: Config) -> Machine {
    let layout = &recording.layout;
    let owners = Pages::owners(layout.frames());
    let Opened { table, linux, .. } = Opened::with_owners(layout, config, opening, owners);
    let swap = if swaps(&recording.acts) { "1G" } else { "0K" };
    let text = format!(
        "[machine]\nmemory = \"{}K\"\ncpus = {}\nkernel = \"0K\"\nswap = \"{}\"\n\
         [vm]\nthp = \"never\"\n",
        layout.frames() * 4,
        recording.cpus,
        swap
    );
    let mut scenario = scenario::parse(&text).expect("checked by a test");
    pace(&mut scenario.costs, &recording.acts);
    let user = |act: &&Act| matches!(act.action, Action::Alloc(..));
    let pages = recording.acts.iter().filter(user).count() as u32;
    let system: Allocator = "linux".parse().expect("there is one");
    let resumed = ResumedMemory { layout: layout.clone(), table, linux, pages };
    Machine::resume(&scenario, &system, resumed).expect("the layout is that of a machine")
}

/// Whether the recorded kernel had anywhere to swap to: it reclaimed memory that it had cleared for a
/// process. (Other user memory without a mark of page cache may be page cache all the same.)
fn swaps(acts: &[Act]) -> bool {
    const ZERO: GfpFlags = GfpFlags(0x100);
    let mut cleared = HashSet::new();
    acts.iter().any(|act| match (act.action, act.by) {
        (Action::Alloc(migrate_type, gfp), _) => {
            match wanted(act.order, migrate_type, gfp) {
                Purpose::Anonymous if gfp.contains(ZERO) => cleared.insert(act.frame),
                _ => cleared.remove(&act.frame),
            };
            false
        }
        (Action::Free, By::Kswapd | By::DirectReclaim) => cleared.contains(&act.frame),
        (Action::Free, _) => {
            cleared.remove(&act.frame);
            false
        }
        _ => false,
    })
}

/// The purpose of a request: of those for user memory, single frames alone are pages.
fn wanted(order: Order, migrate_type: MigrateType, gfp: GfpFlags) -> Purpose {
    if order > Order::BASE { Purpose::Other } else { purpose(migrate_type, gfp) }
}

impl Drive<'_> {
    fn hidden(&mut self, step: &Step) {
        match *step {
            Step::Pagesets(ref pagesets) => self.machine.linux().set_pagesets(pagesets),
            Step::Bulk { cpu, frame, order, migrate_type, .. } => {
                let request = Request { cpu, order, migrate_type, ..Request::default() };
                self.name(frame, &request, Purpose::Other);
            }
            _ => {}
        }
    }

    fn act(&mut self, act: &Act) {
        match act.action {
            Action::Alloc(migrate_type, gfp) => {
                self.vacate(act);
                let request = request(act, migrate_type, gfp);
                self.name(act.frame, &request, wanted(act.order, migrate_type, gfp));
            }
            Action::Refused(migrate_type, gfp) => {
                let request = request(act, migrate_type, gfp);
                if let Some(held) = self.machine.demand(&request, Purpose::Other, 0) {
                    self.result.met += 1;
                    self.machine.let_go(held, act.cpu);
                }
            }
            Action::Free => self.free(act),
            Action::HandOver => self.hand_over(act.frame, act.order),
            Action::Isolated { .. } => {
                self.targets.extend((0..act.order.frames()).map(|at| act.frame.offset(at)));
            }
            Action::CompactMemory => self.machine.compact_memory(),
            Action::Snapshot(_, Edge::End) => self.snapshot(),
            _ => {}
        }
    }

    fn name(&mut self, frame: Frame, request: &Request, wanted: Purpose) {
        let held = self.machine.demand(request, wanted, self.pages);
        self.pages += u32::from(wanted != Purpose::Other);
        match held {
            Some(held) => {
                self.names.insert(frame, held);
            }
            None => self.result.unmet += 1,
        }
    }

    /// Frees without an event, before the frame was allocated again.
    fn vacate(&mut self, act: &Act) {
        for at in 0..act.order.frames() {
            let frame = act.frame.offset(at);
            self.targets.remove(&frame);
            if let Some(held) = self.take(frame, Order::BASE) {
                self.let_go(held, act.cpu);
            }
        }
    }

    /// What a recorded block of `order` stands for, whose name it loses. Parts of a larger block lose
    /// their names one by one.
    fn take(&mut self, frame: Frame, order: Order) -> Option<RecordedBlock> {
        if let Some(held) = self.names.remove(&frame) {
            if let RecordedBlock::Other(id) = held
                && self.machine.order_of(id) > order
            {
                self.shatter(frame, id);
                return self.names.remove(&frame);
            }
            return Some(held);
        }
        let larger = (1..=Order::LARGEST_FREE.get()).filter_map(Order::new);
        for head in larger.map(|order| frame.align_down(order)) {
            if let Some(&RecordedBlock::Other(id)) = self.names.get(&head)
                && head.offset(self.machine.order_of(id).frames()) > frame
            {
                self.shatter(head, id);
                return self.names.remove(&frame);
            }
        }
        None
    }

    fn shatter(&mut self, head: Frame, id: prairie_sim::machine::page::PageId) {
        for (at, part) in self.machine.shatter(id).into_iter().enumerate() {
            self.names.insert(head.offset(at as u64), part);
        }
    }

    fn let_go(&mut self, held: RecordedBlock, cpu: u16) {
        self.result.gone_before += u64::from(!self.machine.let_go(held, cpu));
    }

    fn free(&mut self, act: &Act) {
        if act.order > Order::BASE && !self.names.contains_key(&act.frame) {
            return self.free_parts(act);
        }
        let was_target = self.targets.remove(&act.frame);
        let held = match was_target {
            // Compaction releases isolated blocks that it did not need.
            true if act.by == By::Compaction => return,
            true => self.moved.pop_front(),
            false => self.take(act.frame, act.order),
        };
        match (held, act.by) {
            (
                Some(RecordedBlock::File(_) | RecordedBlock::Anonymous(_)),
                By::Kswapd | By::DirectReclaim,
            ) => {
                self.result.recorded_reclaimed[usize::from(act.by == By::DirectReclaim)] += 1;
            }
            (
                Some(held @ (RecordedBlock::File(_) | RecordedBlock::Anonymous(_))),
                By::Compaction,
            ) => {
                self.result.recorded_moved += 1;
                self.moved.push_back(held);
            }
            (Some(held), _) => self.let_go(held, act.cpu),
            (None, _) if was_target => {}
            (None, _) => self.free_unknown(act),
        }
    }

    /// A block that was never requested as such: its frames may have names of their own.
    fn free_parts(&mut self, act: &Act) {
        let parts = (0..act.order.frames()).map(|at| act.frame.offset(at));
        let known: Vec<RecordedBlock> =
            parts.filter_map(|frame| self.take(frame, Order::BASE)).collect();
        if known.is_empty() {
            return self.free_unknown(act);
        }
        for held in known {
            self.let_go(held, act.cpu);
        }
    }

    /// In use since before the recording, in place.
    fn free_unknown(&mut self, act: &Act) {
        if self.bring_in(act.frame, act.order) {
            let held = self.machine.adopt(act.frame, act.order);
            self.machine.let_go(held, act.cpu);
        }
    }

    /// Adds memory that the machine has not yet; false if it has any of it.
    fn bring_in(&mut self, frame: Frame, order: Order) -> bool {
        let table = self.machine.table();
        let absent = |at| table.state(frame.offset(at)) == prairie_frames::table::State::Absent;
        if !(0..order.frames()).all(absent) {
            return false;
        }
        for at in 0..order.frames() {
            table.add_memory(frame.offset(at), Order::BASE);
        }
        true
    }

    /// Memory that boot hands over late: to the tail, movable from a pageblock's first frame on.
    fn hand_over(&mut self, frame: Frame, order: Order) {
        if frame.align_down(Order::HUGE) == frame {
            for block in (0..order.frames()).step_by(Order::HUGE.frames() as usize) {
                self.machine.linux().set_pageblock_type(frame.offset(block), MigrateType::Movable);
            }
        }
        if self.bring_in(frame, order) {
            self.machine.hand_over(frame, order);
        }
    }

    fn snapshot(&mut self) {
        let machine = Opened {
            table: self.machine.table().clone(),
            linux: self.machine.linux().clone(),
            cpus: self.recording.cpus,
        };
        let fallbacks = machine.linux.last_fallback().0;
        let measures = measures::of_replay(self.recording, &machine, fallbacks);
        self.result.snapshots.push(measures);
    }
}

fn request(act: &Act, migrate_type: MigrateType, gfp: GfpFlags) -> Request {
    Request {
        cpu: act.cpu,
        order: act.order,
        migrate_type,
        mobility: mobility_of(migrate_type),
        highest_zone: gfp.highest_zone(),
        gfp_flags: gfp.0,
        ..Request::default()
    }
}
