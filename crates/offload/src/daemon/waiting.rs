//! Sleeping until something is due, a job is done, a trigger fires or a signal comes.
//!
//! One `epoll` holds all of it, so that waking up costs the same with one container and with
//! hundreds.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use super::Daemon;
use crate::world::fault_alarm::FaultAlarm;
use crate::world::trigger::Trigger;

/// Events that are heard at once; the rest are heard next time.
const AT_ONCE: usize = 64;

/// The number of other files; those of containers start at zero.
const OTHER: u64 = u64::MAX;

/// The alarm of major faults.
const ALARM: u64 = u64::MAX - 1;

/// Everything that may wake the daemon.
pub struct Waiting {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

/// The wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakeup {
    /// One of the files is readable.
    Readable,
    /// Major faults of any process.
    Faults,
    /// A burst of pressure in the container with that number.
    Burst(u64),
    /// Its cgroup is gone.
    Gone(u64),
}

impl Waiting {
    /// Wakes when any of `files` becomes readable.
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn new(files: &[BorrowedFd<'_>]) -> io::Result<Waiting> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for file in files {
            epoll::add(&epoll, file, epoll::EventData::new_u64(OTHER), epoll::EventFlags::IN)?;
        }
        Ok(Waiting { epoll, events: Vec::with_capacity(AT_ONCE) })
    }

    /// Wakes when the trigger fires. It is forgotten when its file is closed.
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn hear(&self, id: u64, trigger: &Trigger) -> io::Result<()> {
        let data = epoll::EventData::new_u64(id);
        Ok(epoll::add(&self.epoll, trigger, data, epoll::EventFlags::PRI)?)
    }

    /// Wakes at the next alarm, and not again until the next call: thousands of faults a second
    /// need only one wake-up.
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn hear_once(&self, alarm: &FaultAlarm) -> io::Result<()> {
        let data = epoll::EventData::new_u64(ALARM);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        match epoll::modify(&self.epoll, alarm, data, flags) {
            Err(rustix::io::Errno::NOENT) => Ok(epoll::add(&self.epoll, alarm, data, flags)?),
            done => Ok(done?),
        }
    }

    /// Sleeps no longer than `most`; returns the wake-ups.
    ///
    /// # Errors
    /// I/O errors of the system; a signal is none.
    pub fn sleep(&mut self, most: Duration) -> io::Result<impl Iterator<Item = Wakeup>> {
        // In whole milliseconds, which is all that kernels before 5.11 take.
        let ms = i64::try_from(most.as_millis()).unwrap_or(i64::MAX).clamp(1, 60_000);
        let most = Timespec { tv_sec: ms / 1_000, tv_nsec: ms % 1_000 * 1_000_000 };
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&most)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(self.events.drain(..).map(|event| {
            let (flags, id) = (event.flags, event.data.u64());
            match id {
                OTHER => Wakeup::Readable,
                ALARM => Wakeup::Faults,
                // A burst of a removed cgroup is ignored.
                _ if flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP) => {
                    Wakeup::Gone(id)
                }
                _ => Wakeup::Burst(id),
            }
        }))
    }
}

impl Daemon {
    /// The trigger of the container with that number fired: it is sampled once its period is
    /// over, however idle it was.
    pub fn burst(&mut self, id: u64) {
        let Some(container) = self.containers.iter_mut().find(|container| container.id == id)
        else {
            return;
        };
        let period = container.controller.profile().period;
        container.due = container.due.min(container.seen.at + period);
        if !std::mem::replace(&mut container.burst, true) {
            let path = &container.cgroup.path;
            self.setting
                .log
                .note("burst", format_args!("{path}: burst of pressure, reclaim blocked"));
        }
    }

    /// The cgroup of the container with that number is gone; its trigger is closed.
    pub fn lost(&mut self, id: u64) {
        if let Some(container) = self.containers.iter_mut().find(|container| container.id == id) {
            container.trigger = None;
            self.next_discovery = Duration::ZERO;
        }
    }

    /// Has triggers that are new wake the daemon, and the alarm, if it is waited for.
    pub(super) fn listen(&mut self, waiting: &Waiting) {
        if let Some(alarm) = &self.setting.alarm
            && self.watch.listen()
            && waiting.hear_once(alarm).is_err()
        {
            self.setting.alarm = None;
        }
        for container in self.containers.iter_mut().filter(|container| !container.heard) {
            container.heard = true;
            if let Some(trigger) = &container.trigger
                && waiting.hear(container.id, trigger).is_err()
            {
                container.trigger = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn only_readable_files_wake() {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut waiting = Waiting::new(&[reader.as_fd()]).unwrap();
        let started = std::time::Instant::now();
        assert_eq!(waiting.sleep(Duration::from_millis(30)).unwrap().count(), 0);
        assert!(started.elapsed() >= Duration::from_millis(29));
        rustix::io::write(&writer, b"x").unwrap();
        let started = std::time::Instant::now();
        let heard: Vec<Wakeup> = waiting.sleep(Duration::from_secs(60)).unwrap().collect();
        assert_eq!(heard, [Wakeup::Readable]);
        assert!(started.elapsed() < Duration::from_secs(30));
    }
}
