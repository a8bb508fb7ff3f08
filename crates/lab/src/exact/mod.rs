//! Is `linux` like Linux? A recorded kernel, replayed frame by frame from boot on.
//!
//! A recording tells which frame the kernel chose each time, so a model can be held against it
//! choice by choice. The free lists at the first event are found out from what follows
//! ([`opening`]). One pass then follows the record ([`follow`]): blocks leave the free lists and
//! go back to them when the events say so, and which block it is, the model says. That pass also
//! finds out what left no event (frames allocated in bulk, frees past a locked per-CPU list, limits
//! that changed) and writes down all that was asked for as a [`script`]. Two more passes play the
//! script with refills, drains and steals left to the model (`simulate`): once with each wrong
//! guess put right, once free running.
//!
//! What is found out never says which frame the model would choose: it says when a frame that the
//! record shows elsewhere later must have left, and the model has to be right about all the others.

pub mod differences;
pub mod follow;
pub mod machine;
pub mod opening;
pub mod recording;
pub mod score;
pub mod script;
pub mod simulate;
pub mod snapshot;
pub mod stages;
pub mod step;

use differences::Difference;
use follow::{Hidden, Odd};
use frames::Frame;
use frames::placement::linux::Config;
use machine::Machine;
use opening::Opening;
use recording::{Act, Did, Edge, Recording};
use score::Score;
use serde::Serialize;
use simulate::{Mode, simulate};

/// How like the recorded kernel the model is, until the first reclaim.
#[derive(Clone, Debug, Serialize)]
pub struct Fidelity {
    /// Events looked at.
    pub acts: usize,
    /// Whether the recording goes on into reclaim or compaction, where this ends.
    pub ends_at_reclaim: bool,
    /// Blocks that left the free lists (`mm_page_alloc_zone_locked`): the right ones.
    pub zone_locked: Score,
    /// Fallbacks to foreign lists (`mm_page_alloc_extfrag`): the right block, order and claim.
    pub fallbacks: Score,
    /// Allocations, with refills and drains when the record says.
    pub followed: Score,
    /// Allocations, everything simulated, each wrong guess put right before the next.
    pub corrected: Score,
    /// Allocations, everything simulated, free running.
    pub free_running: Score,
    /// What left no event and was found out.
    pub hidden: Hidden,
    /// Pageblocks of which no frame is ever on the free lists, whose types the first snapshot's counts gave.
    pub settled_pageblocks: u64,
    /// What should not be.
    pub odd: Odd,
    /// Frames of memory that was in use before the first event and freed unseen, while simulating.
    pub unknown_frees: u64,
    /// The machine beside the kernel's own account, at each snapshot.
    pub snapshots: Vec<AtSnapshot>,
}

/// Differences from the kernel's own account at one snapshot.
#[derive(Clone, Debug, Serialize)]
pub struct AtSnapshot {
    /// Its name.
    pub name: String,
    /// Where the record is followed.
    pub followed: Vec<Difference>,
    /// Free running.
    pub free_running: Vec<Difference>,
}

/// Replays a recording in all ways, under the rules of Linux 6.1.
pub fn compare(recording: &Recording) -> Fidelity {
    compare_with(recording, Config::default())
}

/// The same with some of the rules switched off, to see whether they are needed.
pub fn compare_with(recording: &Recording, config: Config) -> Fidelity {
    let config = Config { cpus_per_node: recording.cpus, keep_boost: true, ..config };
    let opening = open(recording, config);
    let end = recording.until_reclaim();
    let followed = follow::follow(recording, &opening, config, end);
    let corrected = simulate(recording, &opening, config, &followed.script, Mode::Corrected);
    let free = simulate(recording, &opening, config, &followed.script, Mode::Free);
    let at = followed.snapshots.into_iter().zip(free.snapshots).zip(&recording.snapshots);
    let snapshots = at.map(|((followed, free_running), snapshot)| AtSnapshot {
        name: snapshot.name.clone(),
        followed,
        free_running,
    });
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
        odd: followed.odd,
        unknown_frees: free.unknown_frees,
        snapshots: snapshots.collect(),
    }
}

/// Memory as it was when the trace began.
fn open(recording: &Recording, config: Config) -> Opening {
    let mut opening = Opening::of(recording);
    let first = |act: &Act| act.did == Did::Snapshot(0, Edge::End);
    let end = recording.acts.iter().position(first).map_or(0, |act| act + 1);
    let early = follow::follow(recording, &opening, config, end);
    if let Some(differences) = early.snapshots.first() {
        opening.settle(&recording.layout, differences);
    }
    opening
}

/// Where a frame is in the model, in words.
fn where_is(machine: &Machine, frame: Frame) -> String {
    match machine.head_of(frame) {
        None => "the model has it in nobody's hands".into(),
        Some((head, state)) => format!(
            "the model has it in a block of order {} that is {}, in a pageblock of type {}",
            machine.table.order(head),
            format!("{state:?}").to_lowercase(),
            machine.linux.pageblock_type(frame)
        ),
    }
}
