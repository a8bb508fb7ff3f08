//! The loop: does what is due, sleeps, listens to signals and the service manager.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prairie_daemon::log::Log;
use prairie_daemon::notify::Notify;
use prairie_daemon::{Signals, monotonic};
use prairie_host::Roots;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mm::{Advice, MlockAllFlags, madvise, mlockall};

use crate::config::{Config, OnStop};
use crate::daemon::Daemon;
use crate::operation::Sysfs;
use crate::undo::{Undo, undo};

/// Keeps the daemon alive and in memory when memory is short. What is refused is reported, and is
/// no reason not to run.
pub fn protect(log: &Log) {
    if let Err(error) = drop_text() {
        log.note("warning", format_args!("text of the start stays in memory: {error}"));
    }
    // ONFAULT: used pages stay resident, but the program is not read in as a whole.
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    if let Err(error) = mlockall(flags) {
        log.note("warning", format_args!("memory is not locked: {error}"));
    }
    // SAFETY: mallopt only sets how the allocator returns memory to the kernel: never, and all of it
    // from one area, so that memory that was used once is there again when memory is short. musl's
    // allocator has no such settings.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
    if let Err(error) = fs::write("/proc/self/oom_score_adj", "-1000") {
        log.note("warning", format_args!("oom_score_adj: {error}"));
    }
    // SAFETY: changes nothing but the priority of this process.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -10) } != 0 {
        log.note("warning", format_args!("priority: {}", io::Error::last_os_error()));
    }
}

/// Gives back the program's code that only the start needed, before memory is locked. What the loop
/// needs is mapped again when it runs.
fn drop_text() -> io::Result<()> {
    for line in fs::read_to_string("/proc/self/maps")?.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(range), Some("r-xp")) = (words.next(), words.next()) else { continue };
        let number = |text| usize::from_str_radix(text, 16).map_err(io::Error::other);
        let Some((start, end)) = range.split_once('-') else { continue };
        let (start, end) = (number(start)?, number(end)?);
        if !line.contains(" /") {
            continue;
        }
        // SAFETY: a private mapping of a file that cannot be written: its pages are the file's, and
        // are mapped again from there when they are next used.
        unsafe { madvise(start as *mut _, end - start, Advice::LinuxDontNeed)? };
    }
    Ok(())
}

/// Runs until a signal ends it. `path` is the configuration, for SIGHUP.
///
/// # Errors
/// I/O errors of the system: sockets taken, a series that cannot be finished.
pub fn run(
    mut daemon: Daemon,
    path: &Path,
    roots: &Roots,
    signals: &Signals,
    notify: &Notify,
) -> io::Result<()> {
    let settings = daemon.config().daemon.clone();
    let at = |what: String| move |error| io::Error::other(format!("{what}: {error}"));
    let status = daemon.status();
    status.serve(&settings.socket).map_err(at(settings.socket.display().to_string()))?;
    if let Some(address) = settings.metrics {
        status.serve_metrics(address).map_err(at(format!("metrics at {address}")))?;
    }
    daemon.tick(monotonic());
    notify.tell("READY=1");
    let mut heard = Instant::now();
    while !signals.is_stopped() {
        if signals.take_reload() {
            notify.tell("RELOADING=1");
            reload(&mut daemon, path);
            notify.tell("READY=1");
        }
        let now = monotonic();
        let next = daemon.tick(now);
        if let Some(every) = notify.watchdog
            && heard.elapsed() >= every
        {
            notify.tell("WATCHDOG=1");
            heard = Instant::now();
        }
        let most = notify.watchdog.unwrap_or(Duration::from_secs(10)).min(Duration::from_secs(10));
        let wait = next.saturating_sub(now).clamp(Duration::from_millis(10), most);
        sleep(&daemon, signals, wait)?;
    }
    notify.tell("STOPPING=1");
    let _ = fs::remove_file(&settings.socket);
    stop(daemon, roots)
}

fn sleep(daemon: &Daemon, signals: &Signals, most: Duration) -> io::Result<()> {
    let (woken, event) = (signals.as_fd(), daemon.timer().event());
    let mut files = [PollFd::new(&woken, PollFlags::IN), PollFd::new(&event, PollFlags::IN)];
    let most = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
    match poll(&mut files, Some(&most)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => signals.drain(),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

fn reload(daemon: &mut Daemon, path: &Path) {
    match Config::load(path) {
        Ok(config) => {
            daemon.reload(config);
            daemon.log().note("reload", format_args!("{}", path.display()));
        }
        Err(error) => {
            daemon.log().note("warning", format_args!("configuration not changed: {error}"));
        }
    }
}

fn stop(daemon: Daemon, roots: &Roots) -> io::Result<()> {
    let log = Log::new(Default::default(), Default::default(), Box::new(io::stdout()));
    let config = daemon.config().clone();
    log.note("stop", format_args!("restoring settings"));
    let mut record = daemon.stop()?;
    if config.daemon.on_stop == OnStop::Undo {
        let work = Undo {
            roots,
            files: Arc::new(Sysfs::new(roots.clone())),
            log: &log,
            operation_time: config.limits.operation_time,
            until: Instant::now() + config.daemon.stop_limit,
            stop: &|| false,
        };
        let undone = undo(&mut record, &work)?;
        for (block, why) in &undone.left {
            log.note("warning", format_args!("block {block} remains converted: {why}"));
        }
        log.note("undo", format_args!("{} blocks returned", undone.returned));
    }
    record.end();
    Ok(())
}
