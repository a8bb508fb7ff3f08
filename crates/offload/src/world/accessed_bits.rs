//! Ages by the accessed bits of page tables: `clear_refs` and `smaps_rollup` of each process.
//!
//! Clearing, waiting and summing up reports, to the page, how much mapped memory stayed untouched.
//! It costs the kernel a walk of the page tables, some milliseconds for each 100 MiB, twice per
//! round. Page cache that no process has mapped is not seen and counts as idle: the kernel's own
//! lists and refaults take care of that.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use prairie_host::texts::fields;

/// Clears the accessed bits of all processes in the cgroup and below. Returns the processes that
/// let it happen.
pub fn clear(proc: &Path, cgroup: &Path) -> BTreeSet<u32> {
    let clears = |pid: &u32| fs::write(proc.join(pid.to_string()).join("clear_refs"), "1").is_ok();
    processes(cgroup).into_iter().filter(clears).collect()
}

/// Processes whose end is noticed: those with the most idle memory.
const FOLLOWED: usize = 8;

/// Idle memory by process, the most first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdleProcesses(Vec<(u32, u64)>);

impl IdleProcesses {
    /// Memory that these processes have mapped and not touched since their bits were cleared. A
    /// process that began since then does not belong to them: a child starts with page tables
    /// without accessed bits. Memory that several processes share is counted by its share of each
    /// (the kernel's proportional set size).
    pub fn of(proc: &Path, processes: &BTreeSet<u32>) -> IdleProcesses {
        let idle = |pid: &u32| Some((*pid, idle_bytes(proc, *pid)?));
        let mut found: Vec<(u32, u64)> = processes.iter().filter_map(idle).collect();
        found.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        IdleProcesses(found)
    }

    /// Bytes of all of them; `None` where not one process could be read.
    pub fn bytes(&self) -> Option<u64> {
        let bytes = self.0.iter().map(|(_, bytes)| *bytes);
        (!self.0.is_empty()).then(|| bytes.fold(0, u64::saturating_add))
    }

    /// Whether processes with most of it have ended: what others have now was not measured.
    pub fn have_ended(&self, proc: &Path) -> bool {
        let followed = self.0.iter().take(FOLLOWED);
        let (mut bytes, mut ended) = (0u64, 0u64);
        for (pid, idle) in followed {
            bytes = bytes.saturating_add(*idle);
            if !proc.join(pid.to_string()).exists() {
                ended = ended.saturating_add(*idle);
            }
        }
        ended > bytes / 2
    }
}

/// Bytes that a process has mapped and not touched since its bits were cleared, by its share.
fn idle_bytes(proc: &Path, pid: u32) -> Option<u64> {
    let text = fs::read_to_string(proc.join(pid.to_string()).join("smaps_rollup")).ok()?;
    let sizes = fields::sizes("smaps_rollup", &text).ok()?;
    let (rss, referenced) = (*sizes.get("Rss")?, *sizes.get("Referenced")?);
    let pss = sizes.get("Pss").copied().unwrap_or(rss).min(rss);
    let unlocked = rss.saturating_sub(sizes.get("Locked").copied().unwrap_or(0));
    let idle = unlocked.saturating_sub(referenced) as f64;
    Some((idle * pss as f64 / rss.max(1) as f64) as u64)
}

/// Processes of the cgroup and all below it.
pub fn processes(cgroup: &Path) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut pending = vec![cgroup.to_owned()];
    while let Some(directory) = pending.pop() {
        let text = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
        found.extend(text.lines().filter_map(|line| line.trim().parse::<u32>().ok()));
        let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
        pending.extend(
            entries
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                .map(|entry| entry.path()),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_is_what_was_not_referenced() {
        let root = tempfile::tempdir().unwrap();
        let (proc, cgroup) = (root.path().join("proc"), root.path().join("cg"));
        fs::create_dir_all(cgroup.join("below")).unwrap();
        fs::write(cgroup.join("cgroup.procs"), "7\n8\n").unwrap();
        fs::write(cgroup.join("below/cgroup.procs"), "9\nx\n").unwrap();
        let idle = || IdleProcesses::of(&proc, &processes(&cgroup));
        assert_eq!(idle().bytes(), None);
        let write = |pid: u32, text: &str| {
            fs::create_dir_all(proc.join(pid.to_string())).unwrap();
            fs::write(proc.join(format!("{pid}/smaps_rollup")), text).unwrap();
            fs::write(proc.join(format!("{pid}/clear_refs")), "").unwrap();
        };
        write(7, "Rss: 1000 kB\nPss: 1000 kB\nReferenced: 400 kB\nLocked: 100 kB\n");
        // Half of it shared with another.
        write(9, "Rss: 1000 kB\nPss: 500 kB\nReferenced: 0 kB\nLocked: 0 kB\n");
        assert_eq!(idle().bytes(), Some((500 + 500) * 1024));
        assert_eq!(clear(&proc, &cgroup), BTreeSet::from([7, 9]), "8 has gone");
        assert_eq!(fs::read_to_string(proc.join("9/clear_refs")).unwrap(), "1");
    }
}
