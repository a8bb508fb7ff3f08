//! Pinned memory: frames that a driver or a device holds, so that compaction cannot move them.
//!
//! `mlock` does not pin: the kernel still moves locked pages. What pins by plain references, as
//! `vmsplice` and network transmission do, the kernel counts nowhere.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::texts::{fields, lines};
use crate::{Capture, Error};

/// Pinned memory of the host, by who pinned it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Pins {
    /// References by `pin_user_pages` now, one for each frame: those acquired less those released
    /// (`nr_foll_pin_acquired`, `nr_foll_pin_released` in `/proc/vmstat`). Direct IO, RDMA, VFIO,
    /// AF_XDP and io_uring take such pins. `None` where the kernel does not count them.
    pub foll_pin_frames: Option<u64>,
    /// Sum of the processes' `VmPin`: pins that are charged to a process, as those of io_uring and
    /// RDMA are.
    pub charged_bytes: u64,
    /// Of them registered buffers of io_uring.
    pub io_uring_bytes: u64,
    /// The processes with charged pins, largest first.
    pub processes: Vec<ProcessPins>,
}

/// The pins of one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ProcessPins {
    /// Its number.
    pub pid: u32,
    /// Its name (`comm`).
    pub name: String,
    /// `VmPin` of `/proc/PID/status`.
    pub charged_bytes: u64,
    /// Registered buffers of its io_uring instances (`UserBufs` in `/proc/PID/fdinfo`).
    pub io_uring_buffers: u64,
    /// Their size.
    pub io_uring_bytes: u64,
}

impl Pins {
    /// What the capture's texts show; `None` if they have no data on pins, as captures by an older
    /// Prairie do not.
    ///
    /// # Errors
    /// [`Error::Parse`] where one is malformed.
    pub fn of(capture: &Capture, vmstat: &BTreeMap<String, u64>) -> Result<Option<Pins>, Error> {
        let counter = |name: &str| vmstat.get(name).copied();
        let foll_pin_frames = counter("nr_foll_pin_acquired")
            .zip(counter("nr_foll_pin_released"))
            .map(|(acquired, released)| acquired.saturating_sub(released));
        let mut processes = Vec::new();
        for (name, text) in &capture.files {
            let pid = name.strip_prefix("proc/").and_then(|rest| rest.strip_suffix("/status"));
            if let Some(pid) = pid.and_then(|pid| pid.parse().ok()) {
                processes.push(process(capture, pid, name, text)?);
            }
        }
        if foll_pin_frames.is_none() && processes.is_empty() {
            return Ok(None);
        }
        processes.sort_by_key(|process| (std::cmp::Reverse(process.charged_bytes), process.pid));
        Ok(Some(Pins {
            foll_pin_frames,
            charged_bytes: processes.iter().map(|process| process.charged_bytes).sum(),
            io_uring_bytes: processes.iter().map(|process| process.io_uring_bytes).sum(),
            processes,
        }))
    }
}

fn process(capture: &Capture, pid: u32, file: &str, text: &str) -> Result<ProcessPins, Error> {
    let charged_bytes = fields::sizes(file, text)?.get("VmPin").copied().unwrap_or(0);
    let folder = format!("proc/{pid}/fdinfo/");
    let rings = capture.files.range(folder.clone()..).take_while(|(at, _)| at.starts_with(&folder));
    let buffers: Vec<u64> = rings.flat_map(|(name, text)| registered_buffers(name, text)).collect();
    let comm = capture.files.get(&format!("proc/{pid}/comm"));
    Ok(ProcessPins {
        pid,
        name: comm.map_or_else(|| "?".to_owned(), |comm| comm.trim_end().to_owned()),
        charged_bytes,
        io_uring_buffers: buffers.len() as u64,
        io_uring_bytes: buffers.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes)),
    })
}

/// Bytes of each registered buffer: the lines `    0: 0x7f0000000000/65536` below `UserBufs:`.
fn registered_buffers(file: &str, text: &str) -> Vec<u64> {
    let below = lines(file, text).skip_while(|line| !line.text.starts_with("UserBufs:")).skip(1);
    let entries = below.map_while(|line| {
        let (index, entry) = line.text.trim().split_once(": ")?;
        index.parse::<u32>().ok().map(|_| entry.trim().to_owned())
    });
    // A place without a buffer is `<none>`.
    entries.filter_map(|entry| entry.rsplit_once('/')?.1.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(files: &[(&str, &str)]) -> Capture {
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        Capture { files: files.collect(), ..Capture::default() }
    }

    const FDINFO: &str = "pos:\t0\nSqMask:\t0x3\nUserFiles:\t1\n    0: null\nUserBufs:\t3\n    \
                          0: 0x7f0000000000/65536\n    1: <none>\n    2: 0x7f0000100000/4096\n\
                          PollList:\n  op=6, task_works=0\n    9: 0x1/7\n";

    #[test]
    fn buffers_of_io_uring_are_counted() {
        let capture = capture(&[
            ("proc/7/comm", "server\n"),
            ("proc/7/fdinfo/4", FDINFO),
            ("proc/7/status", "Name:\tserver\nVmLck:\t      64 kB\nVmPin:\t      68 kB\n"),
            ("proc/70/fdinfo/4", FDINFO),
            ("proc/8/status", "VmPin:\t     100 kB\n"),
        ]);
        let vmstat = [("nr_foll_pin_acquired", 60), ("nr_foll_pin_released", 18)];
        let vmstat = vmstat.map(|(name, value)| (name.to_owned(), value)).into();
        let pins = Pins::of(&capture, &vmstat).unwrap().unwrap();
        assert_eq!(pins.foll_pin_frames, Some(42));
        assert_eq!((pins.charged_bytes, pins.io_uring_bytes), (168 << 10, 68 << 10));
        let [other, server] = pins.processes.as_slice() else { panic!("{pins:?}") };
        assert_eq!((other.name.as_str(), other.io_uring_buffers), ("?", 0));
        assert_eq!((server.name.as_str(), server.io_uring_buffers), ("server", 2));
    }

    #[test]
    fn captures_without_pins_say_nothing() {
        let capture = capture(&[("proc/7/smaps_rollup", "Rss: 4 kB\n")]);
        assert_eq!(Pins::of(&capture, &BTreeMap::new()).unwrap(), None);
    }
}
