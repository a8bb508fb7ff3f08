//! The loop: does what is due, sleeps, listens to signals and the service manager.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
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

/// Keeps the process alive when memory is short. To be called before a thread is started. What is
/// refused is reported, and is no reason not to run.
pub fn protect(log: &Log) {
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

/// Keeps what the process uses from now on in memory, without what only its start needed. To be
/// called last before the loop.
pub fn lock_memory(log: &Log) {
    if let Err(error) = drop_start() {
        log.note("warning", format_args!("memory of the start is kept: {error}"));
    }
    // ONFAULT: used pages stay resident, but the program is not read in as a whole.
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    if let Err(error) = mlockall(flags) {
        log.note("warning", format_args!("memory is not locked: {error}"));
    }
}

/// Returns memory that only the start needed: free heap, and pages of files that are mapped to be
/// read or executed. The loop maps those that it needs again when it first uses them.
fn drop_start() -> io::Result<()> {
    // SAFETY: returns free memory of the allocator to the kernel.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
    let smaps = fs::read_to_string("/proc/self/smaps")?;
    for range in file_pages(&smaps) {
        // SAFETY: a mapping of a file that cannot be written, and without pages of its own: all are
        // the file's, and are mapped again from there.
        unsafe { madvise(range.start as *mut _, range.len(), Advice::LinuxDontNeed)? };
    }
    Ok(())
}

/// The mappings in `smaps` that cannot be written and have no page but their file's. One that was
/// written once (relocated data, which is read-only from then on) has pages of its own.
fn file_pages(smaps: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut current = None;
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if let Some((start, end)) = first.split_once('-') {
            let number = |text| usize::from_str_radix(text, 16).ok();
            let is_file = line.contains(" /") && !second.contains('w') && second.ends_with('p');
            current = number(start).zip(number(end)).filter(|_| is_file);
        } else if first == "Anonymous:"
            && second == "0"
            && let Some((start, end)) = current.take()
        {
            found.push(start..end);
        }
    }
    found
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
    // A dry run beside a daemon leaves it its socket.
    let serves = !daemon.is_dry_run() || UnixStream::connect(&settings.socket).is_err();
    if serves {
        status.serve(&settings.socket).map_err(at(settings.socket.display().to_string()))?;
    }
    if let Some(address) = settings.metrics {
        status.serve_metrics(address).map_err(at(format!("metrics at {address}")))?;
    }
    // What follows takes long on large hosts, and boot waits for this.
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
    if serves {
        let _ = fs::remove_file(&settings.socket);
    }
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

/// Ends the daemon, and undoes what it did, if that is its configuration. A dry run did nothing: what
/// its record says is another daemon's, which may be running.
///
/// # Errors
/// I/O errors of the system.
pub fn stop(daemon: Daemon, roots: &Roots) -> io::Result<()> {
    if daemon.is_dry_run() {
        return daemon.stop().map(drop);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
5000-6000 r--p 00000000 fe:00 42                         /usr/bin/prairie
Rss:                   4 kB
Anonymous:             0 kB
AnonHugePages:         0 kB
6000-9000 r-xp 00001000 fe:00 42                         /usr/bin/prairie
Anonymous:             0 kB
9000-a000 r--p 00004000 fe:00 42                         /usr/bin/prairie
Anonymous:             4 kB
a000-b000 rw-p 00005000 fe:00 42                         /usr/bin/prairie
Anonymous:             0 kB
b000-c000 r--s 00000000 fe:00 43                         /usr/lib/locale
Anonymous:             0 kB
c000-d000 r-xp 00000000 00:00 0                          [vdso]
Anonymous:             0 kB
d000-e000 r-xp 00000000 fe:00 44                         /usr/lib/libm.so.6
VmFlags: rd ex mr mw me
";

    #[test]
    fn only_pages_that_the_file_still_has_are_dropped() {
        assert_eq!(file_pages(SMAPS), [0x5000..0x6000, 0x6000..0x9000]);
        assert!(file_pages("").is_empty());
    }

    #[test]
    fn a_program_goes_on_without_the_pages_of_its_start() {
        let text: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
        drop_start().unwrap();
        assert_eq!(text.iter().map(|n| n.parse::<u32>().unwrap()).sum::<u32>(), 499_500);
        let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
        assert!(!file_pages(&smaps).is_empty());
    }
}
