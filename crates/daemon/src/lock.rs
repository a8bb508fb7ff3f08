//! One process at a time: a lock beside a file that only one may write.

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
    /// Takes the lock beside a file; never waits.
    ///
    /// # Errors
    /// `WouldBlock`, with the process, if another has it; I/O errors of the system, with the
    /// lock's file.
    pub fn take(beside: &Path) -> io::Result<Lock> {
        let path = path(beside);
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(named)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(held(file)),
            Err(error) => return Err(named(error.into())),
        }
        file.set_len(0).map_err(named)?;
        writeln!(file, "{}", std::process::id()).map_err(named)?;
        Ok(Lock(file))
    }
}

/// The error that names the process in the file of a lock.
fn held(mut file: File) -> io::Error {
    let mut text = String::new();
    let _ = file.read_to_string(&mut text);
    let text = match text.trim() {
        "" => "in use by another process; stop it first".to_owned(),
        pid => format!("in use by process {pid}; stop it first"),
    };
    io::Error::new(io::ErrorKind::WouldBlock, text)
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
