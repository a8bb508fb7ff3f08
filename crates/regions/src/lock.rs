//! One daemon, guardian, or command at a time changes memory blocks.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use prairie_host::Roots;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};

/// The lock; released when it is dropped, or when its process ends.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code)] File);

/// Who has the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its role: `daemon`, `guardian`, `command`.
    pub role: String,
    /// Its process.
    pub pid: u32,
}

/// The lock's file: one for the host, whatever record a daemon keeps, because there is one set of
/// memory blocks. `/run/prairie/regions.lock`.
pub fn path(roots: &Roots) -> PathBuf {
    roots.sys.with_file_name("run").join("prairie/regions.lock")
}

impl Lock {
    /// Takes the host's lock, or says who has it.
    ///
    /// # Errors
    /// I/O errors of the system, with the file's name.
    pub fn take(roots: &Roots, role: &str) -> io::Result<Result<Lock, Holder>> {
        let path = path(roots);
        Lock::take_file(&path, role)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    }

    fn take_file(path: &Path, role: &str) -> io::Result<Result<Lock, Holder>> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                file.set_len(0)?;
                file.write_all(format!("{role} {}\n", std::process::id()).as_bytes())?;
                Ok(Ok(Lock(file)))
            }
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut text = String::new();
                file.rewind()?;
                file.read_to_string(&mut text)?;
                let mut words = text.split_ascii_whitespace();
                let role = words.next().unwrap_or("unknown").to_owned();
                let pid = words.next().and_then(|pid| pid.parse().ok()).unwrap_or(0);
                Ok(Err(Holder { role, pid }))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the lock. Signals a guardian that holds it, and waits until it ends; also waits for a
    /// command that is about to end.
    ///
    /// # Errors
    /// I/O errors of the system; `WouldBlock` where another daemon runs, or what runs does not end
    /// within `patience`.
    pub fn take_over(roots: &Roots, role: &str, patience: Duration) -> io::Result<Lock> {
        let until = Instant::now() + patience;
        loop {
            let holder = match Lock::take(roots, role)? {
                Ok(lock) => return Ok(lock),
                Err(holder) => holder,
            };
            if holder.role == "guardian"
                && let Some(pid) = Pid::from_raw(holder.pid as i32)
            {
                let _ = kill_process(pid, Signal::TERM);
            }
            if holder.role == "daemon" || Instant::now() >= until {
                let Holder { role, pid } = holder;
                let text = format!(
                    "{}: held by the {role} with process {pid}; stop it first",
                    path(roots).display()
                );
                return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let root = tempfile::tempdir().unwrap();
        let roots = Roots::at(&root.path().join("proc"));
        let lock = Lock::take(&roots, "daemon").unwrap().unwrap();
        let holder = Lock::take(&roots, "command").unwrap().unwrap_err();
        assert_eq!(holder, Holder { role: "daemon".into(), pid: std::process::id() });
        let error = Lock::take_over(&roots, "daemon", Duration::from_secs(60)).unwrap_err();
        assert!(error.to_string().contains("held by the daemon"), "{error}");
        drop(lock);
        let command = Lock::take(&roots, "command").unwrap().unwrap();
        let error = Lock::take_over(&roots, "daemon", Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains("held by the command"), "{error}");
        drop(command);
        Lock::take_over(&roots, "daemon", Duration::ZERO).unwrap();
    }

    #[test]
    fn this_host_has_one_lock() {
        assert_eq!(path(&Roots::live()), Path::new("/run/prairie/regions.lock"));
    }

    #[test]
    fn an_error_names_the_file() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("run"), "").unwrap();
        let roots = Roots::at(&root.path().join("proc"));
        let error = Lock::take(&roots, "daemon").unwrap_err().to_string();
        assert!(error.contains("run/prairie/regions.lock: "), "{error}");
    }
}
