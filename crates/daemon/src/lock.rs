//! One process at a time: a lock file that names who has it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// The lock; released when it is dropped, or when its process ends by any death.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code)] File);

/// The lock's file: the same name with the extension `lock`. Not the file itself, which may be
/// replaced by another of its name.
fn path(beside: &Path) -> PathBuf {
    beside.with_extension("lock")
}

impl Lock {
    /// Takes the lock of a file and writes into it who has it, or returns what its holder has
    /// written; never waits.
    ///
    /// # Errors
    /// I/O errors of the system, with the file.
    pub fn take_file(path: &Path, holder: &str) -> io::Result<Result<Lock, String>> {
        take_file(path, holder)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    }

    /// Takes the lock beside a file that only one process may write; never waits.
    ///
    /// # Errors
    /// `WouldBlock`, with the process, if another has it; I/O errors of the system, with the
    /// lock's file.
    pub fn take(beside: &Path) -> io::Result<Lock> {
        let held = match Lock::take_file(&path(beside), &std::process::id().to_string())? {
            Ok(lock) => return Ok(lock),
            Err(holder) => holder,
        };
        let text = match held.trim() {
            "" => "in use by another process; stop it first".to_owned(),
            pid => format!("in use by process {pid}; stop it first"),
        };
        Err(io::Error::new(io::ErrorKind::WouldBlock, text))
    }
}

fn take_file(path: &Path, holder: &str) -> io::Result<Result<Lock, String>> {
    let mut options = OpenOptions::new();
    let mut file = options.read(true).write(true).create(true).truncate(false).open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {
            file.set_len(0)?;
            writeln!(file, "{holder}")?;
            Ok(Ok(Lock(file)))
        }
        Err(Errno::WOULDBLOCK) => {
            let mut text = String::new();
            file.read_to_string(&mut text)?;
            Ok(Err(text))
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_the_other_is_named() {
        let root = tempfile::tempdir().unwrap();
        let record = root.path().join("offload.leases");
        let lock = Lock::take(&record).unwrap();
        let error = Lock::take(&record).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        let expected = format!("in use by process {}; stop it first", std::process::id());
        assert_eq!(error.to_string(), expected);
        assert!(!record.exists() && root.path().join("offload.lock").exists());
        drop(lock);
        drop(Lock::take(&record).unwrap());
        let error = Lock::take(&root.path().join("no/offload.leases")).unwrap_err();
        assert!(error.to_string().contains("no/offload.lock: "), "{error}");
    }
}
