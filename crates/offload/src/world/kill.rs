//! Killing a container: `cgroup.kill`, which ends all of its processes at once (kernels from 5.14
//! on), those that fork meanwhile included.

use std::fs;
use std::io;
use std::path::Path;

use prairie_daemon::file::Held;

/// Kills all processes of the cgroup in `directory` and below it.
///
/// # Errors
/// I/O errors of the system: no such file before 5.14, no permission, or the cgroup is gone.
pub fn kill(directory: &Path) -> io::Result<()> {
    Held::open_for_writing(&directory.join("cgroup.kill"))?.write("1\n")
}

/// Whether there is a process in the cgroup or below it; also where the kernel does not say.
pub fn is_populated(directory: &Path) -> bool {
    let events = fs::read_to_string(directory.join("cgroup.events")).unwrap_or_default();
    !events.lines().any(|line| line.trim() == "populated 0")
}
