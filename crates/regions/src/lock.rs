//! One daemon, guardian, or command at a time changes memory blocks.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use prairie_daemon::lock::Lock as FileLock;
use prairie_host::Roots;
use rustix::process::{Pid, Signal, kill_process};

/// The lock; released when it is dropped, or when its process ends.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code)] FileLock);

/// Who has the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its role: `daemon`, `guardian`, `command`.
    pub role: String,
    /// Its process.
    pub pid: u32,
}

impl Holder {
    /// By what it has written into the file.
    fn of(text: &str) -> Holder {
        let mut words = text.split_ascii_whitespace();
        let role = words.next().unwrap_or("unknown").to_owned();
        let pid = words.next().and_then(|pid| pid.parse().ok()).unwrap_or(0);
        Holder { role, pid }
    }
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
        if let Some(parent) = path.parent() {
            let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
            fs::create_dir_all(parent).map_err(named)?;
        }
        let taken = FileLock::take_file(&path, &format!("{role} {}", std::process::id()))?;
        Ok(taken.map(Lock).map_err(|text| Holder::of(&text)))
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
    use std::path::Path;

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
