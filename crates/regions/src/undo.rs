//! Undoing everything: settings restored, offline blocks online, converted blocks back home.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prairie_daemon::log::Log;
use prairie_host::Roots;

use crate::choice::{self, Block, Place};
use crate::daemon::restore_settings;
use crate::host::Host;
use crate::limits;
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
    /// Blocks whose page flags were read, each time it was counted: most of the cost.
    pub blocks_read: u64,
}

/// What an undo works with.
pub struct Undo<'a> {
    /// Where the kernel's files are.
    pub roots: &'a Roots,
    /// The blocks' files.
    pub files: Arc<dyn BlockFilesDebug>,
    /// Where it tells what it does.
    pub log: &'a Log,
    /// How long 128 MiB of a block may take.
    pub operation_time: Duration,
    /// When it ends, done or not.
    pub until: Instant,
    /// Asked before each block, and while one is emptied: whether to stop.
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
        go_on(undo.log, record.idle(number, place));
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
    let mut left = in_order(record, &mut host, undo.log)?;
    while let Some(mut block) = left.pop_front() {
        if let Some(why) = end(undo) {
            left.push_front(block);
            undone.left.extend(left.iter().map(|block| (block.number, why.to_owned())));
            break;
        }
        let number = block.number;
        let home = record.state().blocks[&number];
        // What earlier blocks held may have moved into this one.
        host.scan(&mut block, Duration::ZERO);
        if let Some(why) = refusal(&block, &host.sample(Duration::ZERO)?, home) {
            undone.left.push((number, why));
            continue;
        }
        go_on(undo.log, record.busy(number, home));
        let files = undo.files.clone();
        let to_move = block.occupancy.map_or(host.block_frames, |found| found.to_move());
        let limit = limits::operation_time(undo.operation_time, to_move);
        timer.begin(limit, move || operation::convert(&*files, number, home));
        let Some(done) = timer.wait_unless(undo.stop) else { break };
        go_on(undo.log, record.idle(number, done.place));
        note(undo.log, &done);
        match done.outcome {
            Outcome::Done | Outcome::Gone => undone.returned += 1,
            outcome => undone.left.push((number, outcome.words())),
        }
    }
    undone.blocks_read = host.reads().blocks;
    Ok(undone)
}

/// Why no further block is tried.
fn end(undo: &Undo<'_>) -> Option<&'static str> {
    match ((undo.stop)(), Instant::now() >= undo.until) {
        (true, _) => Some("interrupted"),
        (_, true) => Some("out of time"),
        _ => None,
    }
}

/// The blocks that are away from home, emptiest first. All are read once: with hundreds of blocks,
/// reading them again for each one that returns would take longer than all conversions.
fn in_order(record: &mut Record, host: &mut Host, log: &Log) -> io::Result<VecDeque<Block>> {
    let mut found = host.blocks(&[])?;
    let away = &record.state().blocks;
    found.retain(|block| away.contains_key(&block.number));
    let known: Vec<u64> = found.iter().map(|block| block.number).collect();
    let gone: Vec<u64> = away.keys().copied().filter(|number| !known.contains(number)).collect();
    for number in gone {
        go_on(log, record.idle(number, None));
    }
    for block in &mut found {
        host.scan(block, Duration::ZERO);
    }
    found.sort_by_key(|block| match (block.place, block.occupancy) {
        // Lost memory comes first, what cannot be read last.
        (Place::Offline, _) => 0,
        (_, Some(found)) => found.to_move(),
        (_, None) => u64::MAX,
    });
    Ok(found.into())
}

/// A record that cannot be written does not hold an undo up: it says already which blocks are away,
/// and a block that is found offline comes back without it.
fn go_on(log: &Log, recorded: io::Result<()>) {
    if let Err(error) = recorded {
        log.note("warning", format_args!("the record cannot be written: {error}"));
    }
}

fn note(log: &Log, done: &Done) {
    let to = if done.to == Place::Kernel { "kernel" } else { "movable" };
    let (block, words, ms) = (done.block, done.outcome.words(), done.took.as_millis());
    log.note("undo", format_args!("block {block} to {to}: {words} [{ms} ms]"));
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
