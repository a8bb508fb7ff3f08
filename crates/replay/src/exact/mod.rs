//! Is `linux` like Linux? A recorded kernel, replayed frame by frame from boot on.
//!
//! A recording has the frame that the kernel chose each time, so a model can be validated choice by
//! choice. The free lists at the first event are inferred from what follows ([`opening`]). One pass
//! then follows the record ([`follow`]): blocks leave the free lists and go back to them when the
//! events say so, and which block it is, the model says. That pass also finds out what left no
//! event (frames allocated in bulk, frees past a locked per-CPU list, limits that changed) and
//! writes down all that was requested as a [`script`]. Two more passes play the script with
//! refills, drains and steals left to the model (`simulate`): once with each wrong guess corrected,
//! once open-loop.
//!
//! All of that ends at the first reclaim. From there on the record is followed alone: the probes of
//! `vm/record` show what compaction takes ([`probes`]).
//!
//! Inference never uses the frame that the model would choose: it says when a frame that the record
//! shows elsewhere later must have left, and the model has to be right about all the others.

pub mod act;
pub mod at_once;
pub mod differences;
pub mod driven;
pub mod follow;
pub mod joined;
pub mod kept;
pub mod limits;
pub mod lost;
pub mod machine;
mod marks;
pub mod measures;
pub mod onlined;
pub mod opened;
pub mod opening;
pub mod probes;
pub mod recording;
pub mod score;
pub mod script;
pub mod simulate;
pub mod snapshot;
pub mod stages;
pub mod step;
pub mod threads;
pub mod zones;

use act::{Act, Action, Edge};
use differences::Difference;
use driven::Driven;
use follow::{Inconsistencies, UnrecordedEvents};
use machine::Machine;
use measures::Measures;
use opening::Opening;
use prairie_frames::Frame;
use prairie_frames::placement::linux::Config;
use recording::Recording;
use score::Score;
use serde::Serialize;
use simulate::{Mode, simulate};

/// How like the recorded kernel the model is: until the first reclaim, and from there on.
#[derive(Clone, Debug, Serialize)]
pub struct Fidelity {
    /// Events compared.
    pub acts: usize,
    /// Whether the recording continues into reclaim or compaction, where this ends.
    pub ends_at_reclaim: bool,
    /// Blocks that left the free lists (`mm_page_alloc_zone_locked`): the right ones.
    pub zone_locked: Score,
    /// Fallbacks to foreign lists (`mm_page_alloc_extfrag`): the right block, order and claim.
    pub fallbacks: Score,
    /// Allocations, with refills and drains when the record says.
    pub followed: Score,
    /// Allocations, everything simulated, each wrong guess corrected before the next.
    pub corrected: Score,
    /// Allocations, everything simulated, open-loop.
    pub free_running: Score,
    /// Actions without an event, inferred from the record.
    pub hidden: UnrecordedEvents,
    /// Pageblocks without a frame on the free lists at any time that got another type from the first
    /// snapshot's counts.
    pub settled_pageblocks: u64,
    /// Blocks of a refill that tracing missed while it was switched on again ([`lost`]).
    pub put_back: u64,
    /// Blocks of late initialization that the record has after blocks that came later ([`at_once`]).
    pub reordered_hand_overs: u64,
    /// Inconsistencies.
    pub odd: Inconsistencies,
    /// Frames of memory that was in use before the first event and freed unseen, while simulating.
    pub unknown_frees: u64,
    /// The kernel's own numbers of per-CPU lists, as it updated its statistics: those that the
    /// open-loop replay had, too, and all.
    pub readings: [u64; 2],
    /// From the first reclaim on, where the recording has one: the record is followed.
    pub through_reclaim: Option<FromFirstReclaim>,
    /// The comparison with the kernel at each snapshot.
    pub snapshots: Vec<AtSnapshot>,
    /// The snapshots at which every count is the kernel's.
    pub equal_snapshots: EqualSnapshots,
}

/// Snapshots at which free blocks by order and type, frames on each CPU's lists, and pageblocks by
/// type are the kernel's in every zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct EqualSnapshots {
    /// Snapshots taken.
    pub taken: u64,
    /// Those equal where the record is followed.
    pub followed: u64,
    /// Snapshots taken until the first reclaim.
    pub until_reclaim: u64,
    /// Those of them equal in the open-loop replay.
    pub free_running: u64,
}

impl EqualSnapshots {
    fn among(snapshots: &[AtSnapshot]) -> EqualSnapshots {
        let count = |counts: &dyn Fn(&AtSnapshot) -> bool| {
            snapshots.iter().filter(|snapshot| counts(snapshot)).count() as u64
        };
        EqualSnapshots {
            taken: snapshots.len() as u64,
            followed: count(&|snapshot| snapshot.followed.is_empty()),
            until_reclaim: count(&|snapshot| snapshot.free_running.is_some()),
            free_running: count(&|snapshot| snapshot.free_running.as_deref() == Some(&[])),
        }
    }
}

/// The agreement of the model with the recorded kernel from the first reclaim on. What compaction
/// takes from the free lists, and what reclaim and compaction give back, the record says; what
/// leaves the free lists and how they are left, the model.
#[derive(Clone, Debug, Serialize)]
pub struct FromFirstReclaim {
    /// Events compared.
    pub acts: usize,
    /// Blocks that left the free lists for a request.
    pub zone_locked: Score,
    /// Fallbacks to foreign lists.
    pub fallbacks: Score,
    /// Allocations, with refills and drains when the record says.
    pub followed: Score,
    /// Blocks that compaction took: whether the model had such a block on its lists.
    pub isolated: Score,
    /// Actions without an event, inferred, from boot on.
    pub hidden: UnrecordedEvents,
    /// Inconsistencies, from boot on.
    pub odd: Inconsistencies,
    /// The same demand on a machine that reclaims and compacts itself.
    pub driven: Driven,
}

/// The comparison with the kernel at one snapshot.
#[derive(Clone, Debug, Serialize)]
pub struct AtSnapshot {
    /// Its name.
    pub name: String,
    /// Whether reclaim or compaction had begun.
    pub after_reclaim: bool,
    /// The kernel's measures.
    pub kernel: Measures,
    /// The measures of the trace-driven replay.
    pub replay: Measures,
    /// Numbers that are not the kernel's where the record is followed.
    pub followed: Vec<Difference>,
    /// The same for the open-loop replay; `None` after the first reclaim.
    pub free_running: Option<Vec<Difference>>,
}

/// Replays a recording in all ways, under the rules of the recorded kernel's release.
pub fn compare(recording: &Recording) -> Fidelity {
    compare_with(recording, Config::of(recording.version))
}

/// The same with some of the rules switched off, to see whether they are needed.
pub fn compare_with(recording: &Recording, config: Config) -> Fidelity {
    let config = Config { cpus_per_node: recording.cpus, keep_boost: true, ..config };
    let opening = open(recording, config);
    let end = recording.until_reclaim();
    let mut followed = follow::follow(recording, &opening, config, 0..end);
    let corrected = simulate(recording, &opening, config, &followed.script, Mode::Corrected);
    let free = simulate(recording, &opening, config, &followed.script, Mode::Free);
    let before = followed.snapshots.len();
    let through_reclaim = recording.reclaim.map(|reclaim| {
        let all = reclaim..recording.acts.len();
        let through = follow::follow(recording, &opening, config, all.clone());
        let driven = driven::drive(recording, &opening, config, &through.script);
        followed.snapshots.extend(through.snapshots.into_iter().skip(before));
        FromFirstReclaim {
            acts: all.len(),
            zone_locked: through.zone_locked,
            fallbacks: through.fallbacks,
            followed: through.allocations,
            isolated: through.isolated,
            hidden: through.hidden,
            odd: through.odd,
            driven,
        }
    });
    let mut free_running = free.snapshots.into_iter();
    let at = followed.snapshots.into_iter().zip(&recording.snapshots).enumerate();
    let snapshots = at.map(|(place, (beside, snapshot))| AtSnapshot {
        name: snapshot.name.clone(),
        after_reclaim: place >= before,
        kernel: beside.kernel,
        replay: beside.replay,
        followed: beside.differences,
        free_running: free_running.next(),
    });
    let snapshots: Vec<AtSnapshot> = snapshots.collect();
    Fidelity {
        acts: end,
        ends_at_reclaim: recording.reclaim.is_some(),
        zone_locked: followed.zone_locked,
        fallbacks: followed.fallbacks,
        followed: followed.allocations,
        corrected: corrected.allocations,
        free_running: free.allocations,
        hidden: followed.hidden,
        settled_pageblocks: opening.settled,
        put_back: recording.put_back,
        reordered_hand_overs: recording.reordered_hand_overs,
        odd: followed.odd,
        unknown_frees: free.unknown_frees,
        readings: [free.readings_alike, free.readings],
        equal_snapshots: EqualSnapshots::among(&snapshots),
        snapshots,
        through_reclaim,
    }
}

/// The state of memory when the trace began. The counts of the first snapshot decide what no event
/// shows.
fn open(recording: &Recording, config: Config) -> Opening {
    let mut opening = Opening::of(recording);
    let (mut differences, mistyped) = at_first_snapshot(recording, &opening, config);
    if !mistyped.is_empty() {
        let mut other = opening.clone();
        other.retype(&mistyped);
        let (found, left) = at_first_snapshot(recording, &other, config);
        if left.len() < mistyped.len() {
            (opening, differences) = (other, found);
        }
    }
    loop {
        let mut other = opening.clone();
        if !other.move_unshown(&recording.layout, &differences) {
            break;
        }
        let (left, _) = at_first_snapshot(recording, &other, config);
        if left.len() >= differences.len() {
            break;
        }
        (opening, differences) = (other, left);
    }
    opening.settle(&recording.layout, &differences);
    opening
}

/// What a replay of the record differs by from the first snapshot, and the pageblocks whose type was wrong
/// by then.
fn at_first_snapshot(
    recording: &Recording,
    opening: &Opening,
    config: Config,
) -> (Vec<Difference>, Vec<usize>) {
    let first = |act: &Act| act.action == Action::Snapshot(0, Edge::End);
    let end = recording.acts.iter().position(first).map_or(0, |act| act + 1);
    let early = follow::follow(recording, opening, config, 0..end);
    let first = early.snapshots.into_iter().next();
    (first.map_or(Vec::new(), |beside| beside.differences), early.mistyped)
}

/// The place of a frame in the model, as text.
fn where_is(machine: &Machine, frame: Frame) -> String {
    match machine.head_of(frame) {
        None => "the model has it neither free nor in use".into(),
        Some((head, state)) => format!(
            "the model has it in a block of order {} that is {}, in a pageblock of type {}",
            machine.table.order(head),
            format!("{state:?}").to_lowercase(),
            machine.linux.pageblock_type(frame)
        ),
    }
}
