//! An alarm for refaults: the kernel wakes the daemon when major faults happen.
//!
//! A page that is read back from swap is a major fault, which the kernel counts as a software event
//! of perf, on every CPU. An event that fires with every few of them costs nothing without faults,
//! and reports at once. Sampling counters several times a second costs all the time, and reports
//! later.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use perf_event::events::Software;
use perf_event::{Builder, Sampler};
use rustix::event::epoll;

/// Major faults of one CPU from one alarm to the next.
const FAULTS: u64 = 16;

/// Room for the event's records, which say nothing: one page is the least there can be.
const RING_BYTES: usize = 4096;

/// The alarm: readable after major faults, on whichever CPU.
pub struct FaultAlarm {
    /// Holds the events of all CPUs, so that they are listened to, or not, with one call.
    epoll: OwnedFd,
    events: Vec<Sampler>,
}

impl FaultAlarm {
    /// Listens on every CPU that is online now. `sys` is where sysfs is.
    ///
    /// # Errors
    /// I/O errors of the system: no permission (it takes CAP_PERFMON), no perf in the kernel.
    pub fn open(sys: &Path) -> io::Result<FaultAlarm> {
        let online = std::fs::read_to_string(sys.join("devices/system/cpu/online"))?;
        let cpus = cpus(&online).ok_or_else(|| io::Error::other("no list of CPUs"))?;
        let events = cpus.into_iter().map(listen).collect::<io::Result<Vec<Sampler>>>()?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for event in &events {
            // SAFETY: the event owns its descriptor, and lives until after this call.
            let file = unsafe { BorrowedFd::borrow_raw(event.as_raw_fd()) };
            epoll::add(&epoll, file, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        }
        Ok(FaultAlarm { epoll, events })
    }

    /// Takes notice, so that there is room for it to ring again.
    pub fn heard(&mut self) {
        self.events.iter_mut().for_each(|event| while event.next_record().is_some() {});
    }
}

impl AsFd for FaultAlarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

fn listen(cpu: usize) -> io::Result<Sampler> {
    let mut event = Builder::new(Software::PAGE_FAULTS_MAJ);
    event.any_pid().one_cpu(cpu).include_kernel().sample_period(FAULTS).wakeup_events(1);
    let mut event = event.build()?.sampled(RING_BYTES)?;
    event.enable()?;
    Ok(event)
}

/// The CPUs of a list such as `0-3,5`.
fn cpus(list: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        cpus.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

    use super::*;
    use crate::world::return_cost::major_faults;

    #[test]
    fn lists_of_cpus() {
        assert_eq!(cpus("0-3,5\n"), Some(vec![0, 1, 2, 3, 5]));
        assert_eq!(cpus("0\n"), Some(vec![0]));
        assert!(cpus("").is_none() && cpus("0-\n").is_none() && cpus("a").is_none());
    }

    #[test]
    fn major_faults_ring() {
        let Ok(mut alarm) = FaultAlarm::open(Path::new("/sys")) else {
            eprintln!("left out: perf events are not allowed here");
            return;
        };
        let before = major_faults();
        read_from_disk(&tempfile::tempdir().unwrap().path().join("pages"));
        let faults = major_faults() - before;
        if faults < 8 * FAULTS {
            eprintln!("left out: {faults} major faults, the files here are in memory");
            return;
        }
        let rings = |alarm: &FaultAlarm| {
            let mut files = [PollFd::new(alarm, PollFlags::IN)];
            poll(&mut files, Some(&Timespec { tv_sec: 1, tv_nsec: 0 })).unwrap() > 0
        };
        assert!(rings(&alarm), "{faults} faults");
        alarm.heard();
    }

    /// Reads a file page by page that is not in memory.
    fn read_from_disk(path: &Path) {
        const PAGES: usize = 1024;
        std::fs::write(path, vec![1; PAGES * 4096]).unwrap();
        let file = std::fs::File::open(path).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let len = PAGES * 4096;
        // SAFETY: a new mapping at a place of the kernel's choice; the file is ours and stays.
        let sum: u64 = unsafe {
            let start = mmap(ptr::null_mut(), len, ProtFlags::READ, MapFlags::PRIVATE, &file, 0);
            let start = start.unwrap();
            madvise(start, len, Advice::Random).unwrap();
            let bytes = std::slice::from_raw_parts(start.cast::<u8>(), len);
            let sum = bytes.iter().step_by(4096).map(|byte| u64::from(*byte)).sum();
            munmap(start, len).unwrap();
            sum
        };
        assert_eq!(sum, PAGES as u64);
    }
}
