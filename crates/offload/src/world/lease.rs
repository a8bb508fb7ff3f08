//! Leases: limits of a cgroup that are changed for a while and restored in any case.
//!
//! Everything else that the daemon does leaves nothing behind. Where a limit must be moved
//! (`memory.high` on kernels without `memory.reclaim`, the choice of a back end), the guardian is
//! informed first, then the file is written.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use prairie_host::cgroup::limit;

use super::guardian::{LIMITS, Lease, restore_locked};
use super::record::Record;
use prairie_daemon::file::Held;
use prairie_daemon::lock::Lock;

/// All leases, and their recorder.
#[derive(Debug, Default)]
pub struct Leases {
    held: Vec<Lease>,
    next_id: u64,
    guardian: Option<Child>,
    record: Option<Record>,
    /// The record's: no other daemon runs, and no command restores what is leased here.
    lock: Option<Lock>,
}

impl Leases {
    /// Restores what the record at `record` still holds of an earlier daemon, starts the guardian,
    /// `program arguments…` with the pipe as its standard input, and keeps the record.
    ///
    /// # Errors
    /// `WouldBlock` while another daemon has the record; nothing has been restored then. I/O
    /// errors of the system.
    pub fn guarded(program: &Path, arguments: &[&str], record: &Path) -> io::Result<Leases> {
        let lock = Lock::take(record)?;
        restore_locked(record, &lock)?;
        let guardian = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // A group of its own: Ctrl-C at a terminal is for the daemon, which then ends the pipe.
            .process_group(0)
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("the guardian: {error}")))?;
        let record = Record::open(record)?;
        let (held, next_id) = (Vec::new(), 0);
        Ok(Leases {
            held,
            next_id,
            guardian: Some(guardian),
            record: Some(record),
            lock: Some(lock),
        })
    }

    /// Writes `value` into `file` of the cgroup in `directory`, after it is sure that what is
    /// there now will be restored. A second lease of the same file keeps the first's old value,
    /// unless another program has set one since.
    ///
    /// # Errors
    /// I/O errors of the system; nothing has been written then. Without a guardian nothing is ever written.
    pub fn take(&mut self, directory: &Path, file: &str, value: &str) -> io::Result<()> {
        let written = self.announce(directory, file, value)?.write(&format!("{value}\n"));
        if written.is_err() {
            // A signal may report an error after the write took effect: restore the value.
            let _ = self.restore(directory, file);
        }
        written
    }

    /// The first half of [`Leases::take`]: ensures that the present value will be restored, and
    /// returns the file to write. For a write that may block, so that no other thread waits for
    /// these leases during it.
    ///
    /// # Errors
    /// As [`Leases::take`].
    pub fn announce(&mut self, directory: &Path, file: &str, value: &str) -> io::Result<Held> {
        assert!(LIMITS.contains(&file), "{file} is none of the files that may be borrowed");
        let path = directory.join(file);
        let inode = fs::metadata(directory)?.ino();
        let now = fs::read_to_string(&path)?;
        let now = limit::parse(file, &now)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let writing = Held::open_for_writing(&path)?;
        let earlier = self.held.iter().position(|hold| hold.path == path && hold.inode == inode);
        let ours = earlier.map(|at| &self.held[at]).filter(|held| held.is_in_force());
        let before = ours.map_or(now.to_string(), |held| held.before.clone());
        let id = self.next_id;
        let hold = Lease { id, inode, ours: value.to_owned(), before, path };
        self.tell(&hold.line())?;
        self.next_id += 1;
        self.held.push(hold);
        if let Some(at) = earlier {
            self.release(at)?;
        }
        Ok(writing)
    }

    /// Puts back what `file` said before.
    ///
    /// # Errors
    /// I/O errors of the system; the guardian will try again.
    pub fn restore(&mut self, directory: &Path, file: &str) -> io::Result<()> {
        let path = directory.join(file);
        let Some(at) = self.held.iter().position(|hold| hold.path == path) else { return Ok(()) };
        match self.held[at].restore() {
            Err(error) if !prairie_daemon::file::is_gone(&error) => return Err(error),
            _ => {}
        }
        self.release(at)
    }

    /// Ends a lease, and keeps the record from growing with those that have ended.
    fn release(&mut self, at: usize) -> io::Result<()> {
        let hold = self.held.remove(at);
        self.tell(&format!("free {}\n", hold.id))?;
        if let Some(record) = self.record.as_mut().filter(|record| record.is_long()) {
            let lines: String = self.held.iter().map(Lease::line).collect();
            record.compact(&lines);
        }
        Ok(())
    }

    /// Whether the file is leased, and with what value.
    pub fn value(&self, directory: &Path, file: &str) -> Option<&str> {
        let path = directory.join(file);
        self.held.iter().find(|hold| hold.path == path).map(|hold| hold.ours.as_str())
    }

    /// Whether a leased file still has the value that was written into it.
    pub fn is_in_force(&self, directory: &Path, file: &str) -> bool {
        let path = directory.join(file);
        self.held.iter().any(|hold| hold.path == path && hold.is_in_force())
    }

    /// How many are held.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Restores all limits of the cgroup in `directory`, which is no longer named or was removed.
    pub fn restore_below(&mut self, directory: &Path) {
        let files: Vec<PathBuf> = self.held.iter().map(|hold| hold.path.clone()).collect();
        for path in files.iter().filter(|path| path.parent() == Some(directory)) {
            if let Some(file) = path.file_name().and_then(|name| name.to_str()) {
                let _ = self.restore(directory, file);
            }
        }
    }

    /// Puts back everything and lets the guardian go.
    pub fn restore_all(&mut self) {
        for hold in std::mem::take(&mut self.held).iter().rev() {
            if hold.restore().is_ok() {
                let _ = self.tell(&format!("free {}\n", hold.id));
            }
        }
        if let Some(mut guardian) = self.guardian.take() {
            drop(guardian.stdin.take());
            let _ = guardian.wait();
        }
        if let Some(record) = &mut self.record {
            record.clear();
        }
        self.lock = None;
    }

    fn tell(&mut self, line: &str) -> io::Result<()> {
        let none = || io::Error::other("no guardian is there to put it back");
        let pipe =
            self.guardian.as_mut().and_then(|child| child.stdin.as_mut()).ok_or_else(none)?;
        if let Some(record) = &mut self.record {
            record.append(line)?;
        }
        pipe.write_all(line.as_bytes())
    }
}

impl Drop for Leases {
    fn drop(&mut self) {
        self.restore_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::guardian::restore_record;

    fn leases(root: &Path) -> Leases {
        Leases::guarded(Path::new("cat"), &[], &root.join("record")).unwrap()
    }

    fn high(root: &Path) -> String {
        let text = fs::read_to_string(root.join("memory.high")).unwrap();
        text.lines().next().unwrap().to_owned()
    }

    #[test]
    fn a_lease_ends_with_what_was_there_before() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("memory.high"), "max\n").unwrap();
        let mut leases = leases(root.path());
        leases.take(root.path(), "memory.high", "4096").unwrap();
        assert_eq!((high(root.path()).as_str(), leases.len()), ("4096", 1));
        fs::write(root.path().join("memory.high"), "4096\n").unwrap();
        leases.take(root.path(), "memory.high", "8192").unwrap();
        fs::write(root.path().join("memory.high"), "8192\n").unwrap();
        assert_eq!((leases.value(root.path(), "memory.high"), leases.len()), (Some("8192"), 1));
        drop(leases);
        assert_eq!(high(root.path()), "max");
        assert_eq!(fs::read_to_string(root.path().join("record")).unwrap(), "");
    }

    #[test]
    fn a_second_daemon_or_command_leaves_the_limits_of_the_first() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("memory.high"), "max\n").unwrap();
        let mut first = leases(root.path());
        first.take(root.path(), "memory.high", "4096").unwrap();
        let record = root.path().join("record");
        let before = fs::read_to_string(&record).unwrap();
        let refused = Leases::guarded(Path::new("cat"), &[], &record).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        let refused = restore_record(&record).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(high(root.path()), "4096");
        assert_eq!(fs::read_to_string(&record).unwrap(), before);
        // As when the daemon is killed with its guardian.
        first.guardian.take().unwrap().kill().unwrap();
        std::mem::take(&mut first.held);
        first.record = None;
        drop(first);
        drop(leases(root.path()));
        assert_eq!(high(root.path()), "max", "the next start restores what is left");
    }

    #[test]
    fn a_record_keeps_what_is_leased_however_many_leases_have_ended() {
        let root = tempfile::tempdir().unwrap();
        for file in ["memory.high", "memory.zswap.max"] {
            fs::write(root.path().join(file), "max\n").unwrap();
        }
        let mut leases = leases(root.path());
        leases.take(root.path(), "memory.zswap.max", "0").unwrap();
        fs::write(root.path().join("memory.zswap.max"), "0\n").unwrap();
        // Requests of five hours by memory.high.
        for _ in 0..3_000 {
            leases.take(root.path(), "memory.high", "4096").unwrap();
            fs::write(root.path().join("memory.high"), "4096\n").unwrap();
            leases.restore(root.path(), "memory.high").unwrap();
            fs::write(root.path().join("memory.high"), "max\n").unwrap();
        }
        let record = fs::read(root.path().join("record")).unwrap();
        assert!(record.len() < 70 << 10, "{} bytes", record.len());
        drop(leases.guardian.take());
        assert_eq!(crate::world::guardian::watch(&record[..]).restored, 1);
        let limit = fs::read_to_string(root.path().join("memory.zswap.max")).unwrap();
        assert!(limit.starts_with("max"), "{limit}");
    }

    #[test]
    fn a_limit_that_another_program_has_set_meanwhile_is_what_is_restored() {
        let root = tempfile::tempdir().unwrap();
        let write = |text: &str| fs::write(root.path().join("memory.high"), text).unwrap();
        write("max\n");
        let mut leases = leases(root.path());
        leases.take(root.path(), "memory.high", "8192").unwrap();
        write("16384\n");
        assert!(!leases.is_in_force(root.path(), "memory.high"));
        leases.take(root.path(), "memory.high", "4096").unwrap();
        write("4096\n");
        assert!(leases.is_in_force(root.path(), "memory.high"));
        drop(leases);
        assert_eq!(high(root.path()), "16384");
    }

    #[test]
    fn without_a_guardian_nothing_is_written() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("memory.high"), "max\n").unwrap();
        assert!(Leases::default().take(root.path(), "memory.high", "4096").is_err());
        assert_eq!(high(root.path()), "max");
        // Nor with one that has died.
        let mut leases = Leases::guarded(Path::new("true"), &[], &root.path().join("r")).unwrap();
        leases.guardian.as_mut().unwrap().wait().unwrap();
        assert!(leases.take(root.path(), "memory.high", "4096").is_err());
        assert_eq!(high(root.path()), "max");
    }
}
