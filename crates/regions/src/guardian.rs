//! The guardian: restores the machine after the daemon died, whatever killed it.
//!
//! It is a separate process that reads the record from a pipe. When the pipe ends without the line
//! `end`, the daemon is dead: the guardian takes the lock, restores settings, brings the block of
//! the last operation online, and lets the kernel region grow until another daemon starts. If none
//! does, it undoes everything: a confined kernel region that cannot grow is worse than none.

use std::io::{self, BufRead};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use prairie_daemon::log::Log;
use prairie_host::Roots;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::config::Config;
use crate::daemon::{Daemon, Start};
use crate::lock::Lock;
use crate::operation::BlockFilesDebug;
use crate::record::{Record, State, boot_id};
use crate::undo::{Undo, make_whole, undo};

/// What the guardian did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acted {
    /// Nothing: the daemon ended by itself.
    Not,
    /// Another daemon took over.
    Relieved,
    /// Everything was undone, or what could be.
    Undone,
}

/// Reads the record until the daemon ends. Signals that are sent to all processes of a service or a
/// terminal are for the daemon: the guardian ends after it.
///
/// # Errors
/// I/O errors of the system.
pub fn watch(lines: impl BufRead) -> io::Result<State> {
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    let mut state = State::default();
    for line in lines.lines() {
        let Ok(line) = line else { break };
        state.take(&line);
    }
    Ok(state)
}

/// Does what is left to do after a daemon that ended with `state`, through the blocks' `files`.
///
/// # Errors
/// I/O errors of the system.
pub fn act(
    state: &State,
    config: &Config,
    roots: &Roots,
    files: Arc<dyn BlockFilesDebug>,
    log: Log,
) -> io::Result<Acted> {
    let path = &config.daemon.record;
    if state.ended || state.is_clean() {
        return Ok(Acted::Not);
    }
    let relieved = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGTERM, relieved.clone())?;
    // A daemon that was started again at once has adopted the record.
    let Some(lock) = take_lock(roots)? else { return Ok(Acted::Relieved) };
    log.note("guardian", format_args!("the daemon died; restoring"));
    let mut record = Record::load(path, &boot_id(roots))?;
    record.begin()?;
    let stop = || relieved.load(Ordering::Relaxed);
    let work = |until| Undo {
        roots,
        files: files.clone(),
        log: &log,
        operation_time: config.limits.operation_time,
        until,
        stop: &stop,
    };
    make_whole(&mut record, &work(Instant::now()))?;
    let mut record = grow_meanwhile(record, config, roots, files.clone(), &stop)?;
    if stop() {
        return Ok(Acted::Relieved);
    }
    log.note("guardian", format_args!("no other daemon came; undoing"));
    let undone = undo(&mut record, &work(Instant::now() + config.daemon.stop_limit))?;
    for (block, why) in &undone.left {
        log.note("warning", format_args!("block {block} remains converted: {why}"));
    }
    record.end();
    drop(lock);
    Ok(Acted::Undone)
}

/// The lock, unless another process keeps it. A daemon that is being killed may hold it for a
/// moment.
fn take_lock(roots: &Roots) -> io::Result<Option<Lock>> {
    for _ in 0..20 {
        if let Ok(lock) = Lock::take(roots, "guardian")? {
            return Ok(Some(lock));
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(None)
}

/// Lets the kernel region grow until the grace is over or another daemon comes.
fn grow_meanwhile(
    record: Record,
    config: &Config,
    roots: &Roots,
    files: Arc<dyn BlockFilesDebug>,
    stop: &dyn Fn() -> bool,
) -> io::Result<Record> {
    let mut config = config.clone();
    (config.daemon.series, config.daemon.metrics) = (None, None);
    config.settings.lowmem_reserve_ratio = crate::config::Ratio::Leave;
    config.settings.min_free = crate::config::MinFree::Leave;
    let grace = config.daemon.guardian_grace;
    let log = Log::new(Default::default(), Default::default(), Box::new(io::stderr()));
    let start =
        Start { config, roots: roots.clone(), record, log, dry_run: false, grow_only: true };
    let mut daemon = Daemon::new(start)?.with_files(files);
    let began = Instant::now();
    while began.elapsed() < grace && !stop() {
        daemon.tick(began.elapsed());
        thread::sleep(Duration::from_millis(100));
    }
    daemon.stop()
}

/// The arguments that start the guardian for a configuration.
pub fn arguments(config: &Path) -> Option<[&str; 4]> {
    Some(["regions", "guard", "--config", config.to_str()?])
}
