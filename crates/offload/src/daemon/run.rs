//! The loop: does what is due, sleeps, listens to signals and the service manager.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::Daemon;
use super::waiting::{Waiting, Wakeup};
use crate::config::Config;
use crate::notify::Notify;
use crate::status::serve_metrics;

/// Descriptors that a container holds open.
const DESCRIPTORS_EACH: u64 = 9;

/// The daemon's own CPU time is reported no more often than this.
const ACCOUNT_EVERY: Duration = Duration::from_secs(1);

/// Signals, as flags and as a stream that wakes the loop.
pub struct Signals {
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
    woken: UnixStream,
}

impl Signals {
    /// Catches SIGTERM, SIGINT (stop) and SIGHUP (read the configuration again).
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn catch() -> io::Result<Signals> {
        let (woken, waker) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        let (stop, reload) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        for (signal, flag) in [(SIGTERM, &stop), (SIGINT, &stop), (SIGHUP, &reload)] {
            signal_hook::flag::register(signal, flag.clone())?;
            signal_hook::low_level::pipe::register(signal, waker.try_clone()?)?;
        }
        Ok(Signals { stop, reload, woken })
    }

    fn drain(&self) {
        let mut bytes = [0; 64];
        while (&self.woken).read(&mut bytes).is_ok_and(|read| read == bytes.len()) {}
    }
}

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
        serve_metrics(&status, address).map_err(at(format!("metrics at {address}")))?;
    }
    let mut waiting = Waiting::new(&[signals.woken.as_fd(), daemon.workers().event()])?;
    daemon.tick(monotonic());
    notify.tell("READY=1");
    let mut heard = Instant::now();
    let mut accounted = Duration::ZERO;
    while !signals.stop.load(Ordering::Relaxed) {
        if signals.reload.swap(false, Ordering::Relaxed) {
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

/// `CLOCK_MONOTONIC`, which no clock that is set makes jump.
fn monotonic() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
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
