//! The tracepoints' formats, read from tracefs, which is mounted for the moment where it is not.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::{Error, Result};

/// The texts of the `format` files of `events` (`kmem/mm_page_alloc`, …), by event.
///
/// # Errors
/// [`Error::Record`] if tracefs is unavailable or the kernel lacks one of the events.
pub fn formats(mounts: &Path, events: &[&str]) -> Result<BTreeMap<String, String>> {
    let tracefs = Tracefs::open(mounts)?;
    let read = |event: &&str| {
        let path = tracefs.root.join("events").join(event).join("format");
        match fs::read_to_string(&path) {
            Ok(text) => Ok((event.to_string(), text)),
            Err(error) => Err(Error::Record {
                what: format!("the kernel's tracepoint {}", event.replace('/', ":")),
                why: error.to_string(),
                remedy: match error.kind() {
                    io::ErrorKind::NotFound => "needs a kernel with CONFIG_TRACING".into(),
                    _ => super::for_refused().into(),
                },
            }),
        }
    };
    events.iter().map(read).collect()
}

/// Those of `events` that the kernel has, as [`formats`] returns them.
///
/// # Errors
/// [`Error::Record`] if tracefs is unavailable, or hides what it has.
pub fn available(mounts: &Path, events: &[&str]) -> Result<BTreeMap<String, String>> {
    let tracefs = Tracefs::open(mounts)?;
    let mut found = BTreeMap::new();
    for event in events {
        match fs::read_to_string(tracefs.root.join("events").join(event).join("format")) {
            Ok(text) => drop(found.insert((*event).to_owned(), text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(Error::Record {
                    what: format!("the kernel's tracepoint {}", event.replace('/', ":")),
                    why: error.to_string(),
                    remedy: super::for_refused().into(),
                });
            }
        }
    }
    Ok(found)
}

/// A mounted tracefs; unmounted on drop if it was mounted here.
pub(super) struct Tracefs {
    pub(super) root: PathBuf,
    mounted_on: Option<tempfile::TempDir>,
}

impl Tracefs {
    pub(super) fn open(mounts: &Path) -> Result<Tracefs> {
        let text = fs::read_to_string(mounts).unwrap_or_default();
        if let Some(root) = mounted(&text).find(|root| root.join("events").is_dir()) {
            return Ok(Tracefs { root, mounted_on: None });
        }
        let refused = |error: io::Error| Error::Record {
            what: "mounting tracefs, which describes the kernel's tracepoints".into(),
            remedy: match error.kind() {
                io::ErrorKind::PermissionDenied => super::for_refused().into(),
                _ => "needs a kernel with CONFIG_TRACING".into(),
            },
            why: error.to_string(),
        };
        let directory = tempfile::Builder::new().prefix("prairie-tracefs-").tempdir();
        let directory = directory.map_err(refused)?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("prairie", directory.path(), "tracefs", flags, None)
            .map_err(|errno| refused(errno.into()))?;
        Ok(Tracefs { root: directory.path().into(), mounted_on: Some(directory) })
    }
}

impl Drop for Tracefs {
    fn drop(&mut self) {
        if let Some(directory) = &self.mounted_on {
            // Nothing holds a file in it any more; a failure would leave a mount that does no
            // harm, and cannot be reported.
            let _ = unmount(directory.path(), UnmountFlags::DETACH);
        }
    }
}

/// Where tracefs is mounted according to `/proc/mounts`, whose paths have octal escapes.
fn mounted(mounts: &str) -> impl Iterator<Item = PathBuf> {
    let tracefs = mounts.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (_, path, kind) = (words.next()?, words.next()?, words.next()?);
        (kind == "tracefs").then_some(path)
    });
    tracefs.map(|path| PathBuf::from(path.replace("\\040", " ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_mounts() {
        let text = "proc /proc proc rw 0 0\nnone /sys/kernel/tracing tracefs rw,relatime 0 0\n\
                    t /tmp/a\\040b tracefs rw 0 0\nbroken\n";
        let found: Vec<_> = mounted(text).collect();
        assert_eq!(found, [Path::new("/sys/kernel/tracing"), Path::new("/tmp/a b")]);
    }
}
