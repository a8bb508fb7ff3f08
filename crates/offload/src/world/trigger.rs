//! PSI triggers: the kernel reports a burst of pressure within the second.
//!
//! The totals show a burst only at the end of a period. A trigger on `memory.pressure` wakes the
//! daemon when stalls within one second reach its mark; it then stops, and never starts, anything.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// A trigger; it is armed as long as its file is open.
#[derive(Debug)]
pub struct Trigger(File);

/// Windows to try. One second wants CAP_SYS_RESOURCE from 6.5 on, where without it the window has
/// to be a multiple of two.
const WINDOWS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];

impl Trigger {
    /// Requests a notification when some task of the cgroup in `directory` has stalled on memory for the
    /// `share` of a second.
    ///
    /// # Errors
    /// I/O errors of the system: no permission, or a kernel without triggers.
    pub fn arm(directory: &Path, share: f64) -> io::Result<Trigger> {
        let mut refused = None;
        for window in WINDOWS {
            let mut options = OpenOptions::new();
            options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
            let mut file = options.open(directory.join("memory.pressure"))?;
            let stall_us = (window.as_micros() as f64 * share).max(1.0) as u64;
            let text = format!("some {stall_us} {}\0", window.as_micros());
            match file.write_all(text.as_bytes()) {
                Ok(()) => return Ok(Trigger(file)),
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.expect("there is a window to try"))
    }
}

impl AsFd for Trigger {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
