//! The guardian: restores leased limits however the daemon ends.
//!
//! A daemon that is killed cannot clean up after itself, so another process does. Before a limit is
//! changed, a line that says how to undo it goes into a pipe; what is in a pipe outlives its
//! writer. When the daemon ends, by any death, the pipe ends, and the guardian restores all that
//! was not returned. The same lines are kept in a file, which serves where both were killed: at the
//! next start, or by `prairie offload restore`, which systemd runs after a stop.
//!
//! ```text
//! hold 3 7121 104857600 max /sys/fs/cgroup/workload/web/memory.high
//! free 3
//! ```
//!
//! A hold names itself, the inode of the cgroup's directory, the value that was written, the
//! previous value, and the file. A value is restored only if the cgroup is still the same and the
//! file still has the daemon's value: a value that another program has set since is not touched.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use prairie_daemon::file::Held;
use prairie_daemon::lock::Lock;

/// One value that was borrowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its number.
    pub id: u64,
    /// The inode of the cgroup's directory.
    pub inode: u64,
    /// The value that the daemon wrote.
    pub ours: String,
    /// The previous value.
    pub before: String,
    /// The file.
    pub path: PathBuf,
}

/// Results of restoring leases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Leases that were restored.
    pub restored: usize,
    /// Leases left alone, because the value was no longer the daemon's or the cgroup is gone.
    pub left: usize,
}

impl Lease {
    /// The line that goes into the pipe.
    pub fn line(&self) -> String {
        let Lease { id, inode, ours, before, path } = self;
        format!("hold {id} {inode} {ours} {before} {}\n", path.display())
    }

    fn parse(rest: &str) -> Option<Lease> {
        let mut words = rest.splitn(5, ' ');
        let (id, inode) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let (ours, before) = (words.next()?.to_owned(), words.next()?.to_owned());
        let path = PathBuf::from(words.next()?);
        // Even with a damaged record only limits of cgroups are written.
        let is_limit = path.file_name().is_some_and(|name| LIMITS.iter().any(|l| *l == name));
        let is_value = |word: &str| word == "max" || word.parse::<u64>().is_ok();
        (is_limit && is_value(&ours) && is_value(&before)).then_some(Lease {
            id,
            inode,
            ours,
            before,
            path,
        })
    }

    /// Whether the file still has the daemon's value.
    pub fn is_in_force(&self) -> bool {
        let page_bytes = rustix::param::page_size() as u64;
        fs::read_to_string(&self.path).is_ok_and(|now| is_value(now.trim(), &self.ours, page_bytes))
    }

    /// Puts the value back, if it is still ours to restore.
    pub fn restore(&self) -> io::Result<bool> {
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        match fs::metadata(directory) {
            Ok(meta) if meta.ino() == self.inode => {}
            _ => return Ok(false),
        }
        if !self.is_in_force() {
            return Ok(false);
        }
        Held::open_for_writing(&self.path)?.write(&format!("{}\n", self.before))?;
        Ok(true)
    }
}

/// Whether a file that says `now` was given the value `written`. The kernel keeps limits in pages,
/// and leaves out the part of one: with pages of 64 KiB hardly any limit reads as it was written.
fn is_value(now: &str, written: &str, page_bytes: u64) -> bool {
    let rounded = |written: u64| written - written % page_bytes;
    let numbers = now.parse().ok().zip(written.parse().ok());
    now == written || numbers.is_some_and(|(now, written): (u64, u64)| now == rounded(written))
}

/// The files that may be borrowed.
pub const LIMITS: [&str; 4] =
    ["memory.high", "memory.swap.max", "memory.zswap.max", "memory.zswap.writeback"];

/// Reads lines until they end, then restores what is still held, last first. Lines that make no
/// sense (the last one, cut short) are passed over.
///
/// # Errors
/// None for reading: leases that were read before are restored all the same.
pub fn watch(lines: impl BufRead) -> Restored {
    let mut held: BTreeMap<u64, Lease> = BTreeMap::new();
    for line in lines.lines() {
        let Ok(line) = line else { break };
        match line.split_once(' ') {
            Some(("hold", rest)) => {
                if let Some(hold) = Lease::parse(rest) {
                    held.insert(hold.id, hold);
                }
            }
            Some(("free", id)) => drop(id.parse().ok().and_then(|id: u64| held.remove(&id))),
            _ => {}
        }
    }
    let mut restored = Restored::default();
    for hold in held.values().rev() {
        match hold.restore() {
            Ok(true) => restored.restored += 1,
            Ok(false) | Err(_) => restored.left += 1,
        }
    }
    restored
}

/// Puts back what the record at `path` still holds and empties it; a missing record holds
/// nothing.
///
/// # Errors
/// `WouldBlock` while a daemon runs, whose limits these are; the system's, if the record can be
/// neither read nor emptied.
pub fn restore_record(path: &Path) -> io::Result<Restored> {
    if !path.exists() {
        // No lock either: its folder may be missing, or not ours to write.
        return Ok(Restored::default());
    }
    restore_locked(path, &Lock::take(path)?)
}

/// The same for who has the record's lock.
pub(super) fn restore_locked(path: &Path, _: &Lock) -> io::Result<Restored> {
    let file = match fs::File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Restored::default()),
        file => file?,
    };
    let restored = watch(io::BufReader::new(file));
    fs::write(path, "")?;
    Ok(restored)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cgroup() -> (tempfile::TempDir, PathBuf, u64) {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("memory.high");
        let inode = fs::metadata(root.path()).unwrap().ino();
        (root, path, inode)
    }

    fn hold(path: &Path, inode: u64) -> Lease {
        let (ours, before) = ("4096".to_owned(), "max".to_owned());
        Lease { id: 3, inode, ours, before, path: path.to_owned() }
    }

    #[test]
    fn the_end_of_the_pipe_puts_back_what_is_held() {
        let (_root, path, inode) = cgroup();
        let line = hold(&path, inode).line();
        fs::write(&path, "4096\n").unwrap();
        let freed = format!("{line}free 3\n");
        assert_eq!(watch(freed.as_bytes()), Restored::default());
        assert_eq!(fs::read_to_string(&path).unwrap(), "4096\n");
        let cut = format!("{line}hold 4 {inode} 40");
        assert_eq!(watch(cut.as_bytes()), Restored { restored: 1, left: 0 });
        assert!(fs::read_to_string(&path).unwrap().starts_with("max\n"));
    }

    #[test]
    fn later_changes_by_others_are_kept() {
        let (_root, path, inode) = cgroup();
        fs::write(&path, "8192\n").unwrap();
        assert_eq!(watch(hold(&path, inode).line().as_bytes()), Restored { restored: 0, left: 1 });
        assert_eq!(fs::read_to_string(&path).unwrap(), "8192\n");
        fs::write(&path, "4096\n").unwrap();
        let another = hold(&path, inode + 1);
        assert_eq!(watch(another.line().as_bytes()), Restored { restored: 0, left: 1 });
    }

    #[test]
    fn a_limit_reads_as_whole_pages() {
        let written = (250 << 20) + 4096;
        for (page_bytes, now) in [(4096, written), (65_536, 250 << 20), (16_384, 250 << 20)] {
            let now = now.to_string();
            assert!(is_value(&now, &written.to_string(), page_bytes), "{page_bytes}");
        }
        assert!(is_value("max", "max", 65_536) && is_value("0", "0", 65_536));
        for other in ["max", "0", "262144000", "262213632"] {
            assert!(!is_value(other, &written.to_string(), 4096), "{other}");
        }
    }

    #[test]
    fn a_damaged_record_writes_nowhere_else() {
        let (root, _, inode) = cgroup();
        let other = root.path().join("passwd");
        fs::write(&other, "4096\n").unwrap();
        let good = hold(&root.path().join("memory.high"), inode);
        for bad in [
            hold(&other, inode).line(),
            Lease { before: "rm".into(), ..good.clone() }.line(),
            "hold x\nhold 1 2 3\nfree\nfree x\n\0\u{fffd}".to_owned(),
        ] {
            assert_eq!(watch(bad.as_bytes()), Restored::default(), "{bad}");
        }
        assert_eq!(fs::read_to_string(&other).unwrap(), "4096\n");
    }

    #[test]
    fn a_record_is_emptied() {
        let (root, path, inode) = cgroup();
        let record = root.path().join("leases");
        assert_eq!(restore_record(&record).unwrap(), Restored::default());
        fs::write(&path, "4096").unwrap();
        fs::write(&record, hold(&path, inode).line()).unwrap();
        assert_eq!(restore_record(&record).unwrap().restored, 1);
        assert_eq!(fs::read_to_string(&record).unwrap(), "");
    }
}
