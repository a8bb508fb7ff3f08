//! Undoing everything: settings restored, offline blocks online, converted blocks back home.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prairie_daemon::log::Log;
use prairie_host::Roots;

use crate::choice::{self, Block, Place};
use crate::daemon::restore_settings;
use crate::host::Host;
use crate::operation::{self, BlockFilesDebug, Done, Outcome};
use crate::record::Record;
use crate::timer::Timer;

/// What became of converted blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// Back where they were.
    pub returned: usize,
    /// Not, and why; they stay recorded.
    pub left: Vec<(u64, String)>,
}

/// What an undo works with.
pub struct Undo<'a> {
    /// Where the kernel's files are.
    pub roots: &'a Roots,
    /// The blocks' files.
    pub files: Arc<dyn BlockFilesDebug>,
    /// Where it tells what it does.
    pub log: &'a Log,
    /// How long one block may take.
    pub operation_time: Duration,
    /// When it ends, done or not.
    pub until: Instant,
    /// Asked before each block: whether to stop.
    pub stop: &'a dyn Fn() -> bool,
}

/// What has to come first, whatever follows: blocks that are offline are lost memory.
///
/// # Errors
/// I/O errors of the system.
pub fn make_whole(record: &mut Record, undo: &Undo<'_>) -> io::Result<()> {
    restore_settings(record, undo.roots, undo.log);
    let busy: Vec<u64> = record.state().busy.iter().copied().collect();
    for number in busy {
        let now = undo.files.read(number)?;
        let offline = now.is_some_and(|now| operation::place(&now) == Place::Offline);
        let home = record.state().blocks.get(&number).copied().unwrap_or(Place::Kernel);
        let place = match offline {
            true => {
                let done = operation::bring_back(&*undo.files, number, home);
                let words = done.outcome.words();
                undo.log.note("online", format_args!("block {number}: {words}"));
                done.place
            }
            false => now.as_ref().map(operation::place),
        };
        record.idle(number, place)?;
    }
    Ok(())
}

/// Undoes everything, emptiest block first, and only what fits elsewhere.
///
/// # Errors
/// I/O errors of the system; changes that remain stay recorded.
pub fn undo(record: &mut Record, undo: &Undo<'_>) -> io::Result<Undone> {
    make_whole(record, undo)?;
    let mut undone = Undone::default();
    let mut host = Host::open(undo.roots)?;
    let mut timer = Timer::start()?;
    let mut left: Vec<u64> = record.state().blocks.keys().copied().collect();
    while !left.is_empty() {
        if (undo.stop)() || Instant::now() >= undo.until {
            let why = "out of time";
            undone.left.extend(left.drain(..).map(|number| (number, why.to_owned())));
            break;
        }
        let mut blocks = host.blocks(&[])?;
        let sample = host.sample(Duration::ZERO)?;
        for block in blocks.iter_mut().filter(|block| left.contains(&block.number)) {
            host.scan(block, Duration::ZERO);
        }
        let next = left.iter().copied().min_by_key(|number| cost(&blocks, *number));
        let number = next.expect("the list is not empty");
        left.retain(|other| *other != number);
        let home = record.state().blocks[&number];
        let block = blocks.iter().find(|block| block.number == number);
        if let Some(why) = block.and_then(|block| refusal(block, &sample, home)) {
            undone.left.push((number, why));
            continue;
        }
        record.busy(number, home)?;
        let files = undo.files.clone();
        timer.begin(undo.operation_time, move || operation::convert(&*files, number, home));
        let Some(done) = timer.wait() else { break };
        record.idle(number, done.place)?;
        note(undo.log, &done);
        match done.outcome {
            Outcome::Done | Outcome::Gone => undone.returned += 1,
            outcome => undone.left.push((number, outcome.words())),
        }
    }
    Ok(undone)
}

fn note(log: &Log, done: &Done) {
    let to = if done.to == Place::Kernel { "kernel" } else { "movable" };
    let (block, words, ms) = (done.block, done.outcome.words(), done.took.as_millis());
    log.note("undo", format_args!("block {block} to {to}: {words} [{ms} ms]"));
}

fn cost(blocks: &[Block], number: u64) -> u64 {
    let block = blocks.iter().find(|block| block.number == number);
    block.and_then(|block| block.occupancy).map_or(u64::MAX, |found| found.to_move())
}

/// Why a block is not even tried.
fn refusal(block: &Block, sample: &crate::Sample, home: Place) -> Option<String> {
    if block.place == home || block.place == Place::Offline {
        return None;
    }
    if let Some(obstacle) = choice::obstacle(block) {
        return Some(obstacle.to_string());
    }
    let node = sample.nodes.iter().find(|node| node.node == block.node)?;
    let found = block.occupancy?;
    let fits = match home {
        Place::Movable => choice::fits_without(&found, node, node.kernel.high + found.total() / 2),
        _ => choice::fits_elsewhere(&found, node, 0),
    };
    (!fits).then(|| "its contents fit nowhere else".to_owned())
}
