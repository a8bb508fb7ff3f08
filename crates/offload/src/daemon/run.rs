//! The loop: does what is due, sleeps, listens to signals and the service manager.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::Daemon;
use super::waiting::{Waiting, Wakeup};
use crate::config::Config;
use prairie_daemon::notify::Notify;
use prairie_daemon::{Signals, monotonic};

/// Descriptors that a container holds open.
const DESCRIPTORS_EACH: u64 = 9;

/// The daemon's own CPU time is reported no more often than this.
const ACCOUNT_EVERY: Duration = Duration::from_secs(1);

/// Runs until a signal ends it. `path` is the configuration, for SIGHUP.
///
/// # Errors
/// I/O errors of the system: sockets taken, polling refused, a series that cannot be finished.
pub fn run(mut daemon: Daemon, path: &Path, signals: &Signals, notify: &Notify) -> io::Result<()> {
    raise_descriptor_limit();
    let status = daemon.status();
    let settings = &daemon.config().daemon;
    let socket = settings.socket.clone();
    let at = |what: String| move |error| io::Error::other(format!("{what}: {error}"));
    status.serve(&socket).map_err(at(socket.display().to_string()))?;
    if let Some(address) = settings.metrics {
        status.serve_metrics(address).map_err(at(format!("metrics at {address}")))?;
    }
    let mut waiting = Waiting::new(&[signals.as_fd(), daemon.workers().event()])?;
    daemon.tick(monotonic());
    notify.tell("READY=1");
    let mut heard = Instant::now();
    let mut accounted = Duration::ZERO;
    while !signals.is_stopped() {
        if signals.take_reload() {
            notify.tell("RELOADING=1");
            reload(&mut daemon, path);
            notify.tell("READY=1");
        }
        let now = monotonic();
        let next = daemon.tick(now);
        daemon.workers().interrupt_overdue(Instant::now());
        if now >= accounted + ACCOUNT_EVERY {
            account(&daemon);
            accounted = now;
        }
        if let Some(every) = notify.watchdog
            && heard.elapsed() >= every
        {
            notify.tell("WATCHDOG=1");
            heard = Instant::now();
        }
        // Woken in time for the watchdog and for overdue jobs, too.
        let most = notify.watchdog.unwrap_or(Duration::from_secs(10)).min(Duration::from_secs(10));
        let busy = daemon.containers().iter().any(|container| container.jobs > 0);
        let most = if busy { most.min(daemon.config().daemon.deadline) } else { most };
        let wait = next.saturating_sub(now).clamp(Duration::from_millis(10), most);
        wait_for(&mut daemon, &mut waiting, signals, wait)?;
    }
    notify.tell("STOPPING=1");
    daemon.log().note("stop", format_args!("restoring leased limits"));
    let _ = std::fs::remove_file(&socket);
    daemon.stop()
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

/// Sleeps, and hands triggers that fired to the daemon.
fn wait_for(
    daemon: &mut Daemon,
    waiting: &mut Waiting,
    signals: &Signals,
    most: Duration,
) -> io::Result<()> {
    daemon.listen(waiting);
    for heard in waiting.sleep(most)? {
        match heard {
            Wakeup::Readable => signals.drain(),
            Wakeup::Faults => daemon.faults(),
            Wakeup::Burst(id) => daemon.burst(id),
            Wakeup::Gone(id) => daemon.lost(id),
        }
    }
    Ok(())
}

/// Every container holds several files open; the usual limit of 1024 is soon reached.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(1 << 20).min(1 << 20);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum });
    debug_assert!(wanted >= DESCRIPTORS_EACH);
}

/// The daemon's own CPU time: this thread's. What the process used beyond is the workers', which
/// is the cost of reclaim itself.
fn account(daemon: &Daemon) {
    let us = |clock| {
        let time = clock_gettime(clock);
        time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
    };
    let (own, all) = (us(ClockId::ThreadCPUTime), us(ClockId::ProcessCPUTime));
    let status = daemon.status();
    let mut status = status.lock();
    status.own_cpu_us = own;
    status.reclaim_cpu_us = all.saturating_sub(own);
}
