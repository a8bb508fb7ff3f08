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

/// Clears the accessed bits of all processes in the cgroup and below. Returns how many processes
/// let it happen.
pub fn clear(proc: &Path, cgroup: &Path) -> usize {
    let clears = |pid: &u32| fs::write(proc.join(pid.to_string()).join("clear_refs"), "1").is_ok();
    processes(cgroup).iter().filter(|pid| clears(pid)).count()
}

/// Bytes that no process of the cgroup has touched since the bits were cleared, of memory that it
/// has mapped; `None` where not one process could be read. Memory that several processes share is
/// counted by its share of each (the kernel's proportional set size).
pub fn idle_bytes(proc: &Path, cgroup: &Path) -> Option<u64> {
    let idle = |pid: &u32| {
        let text = fs::read_to_string(proc.join(pid.to_string()).join("smaps_rollup")).ok()?;
        let sizes = fields::sizes("smaps_rollup", &text).ok()?;
        let (rss, referenced) = (*sizes.get("Rss")?, *sizes.get("Referenced")?);
        let pss = sizes.get("Pss").copied().unwrap_or(rss).min(rss);
        let unlocked = rss.saturating_sub(sizes.get("Locked").copied().unwrap_or(0));
        let idle = unlocked.saturating_sub(referenced) as f64;
        Some((idle * pss as f64 / rss.max(1) as f64) as u64)
    };
    let known: Vec<u64> = processes(cgroup).iter().filter_map(idle).collect();
    (!known.is_empty()).then(|| known.into_iter().fold(0, u64::saturating_add))
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
        assert_eq!(idle_bytes(&proc, &cgroup), None);
        let write = |pid: u32, text: &str| {
            fs::create_dir_all(proc.join(pid.to_string())).unwrap();
            fs::write(proc.join(format!("{pid}/smaps_rollup")), text).unwrap();
            fs::write(proc.join(format!("{pid}/clear_refs")), "").unwrap();
        };
        write(7, "Rss: 1000 kB\nPss: 1000 kB\nReferenced: 400 kB\nLocked: 100 kB\n");
        // Half of it shared with another.
        write(9, "Rss: 1000 kB\nPss: 500 kB\nReferenced: 0 kB\nLocked: 0 kB\n");
        assert_eq!(idle_bytes(&proc, &cgroup), Some((500 + 500) * 1024));
        assert_eq!(clear(&proc, &cgroup), 2, "8 has gone");
        assert_eq!(fs::read_to_string(proc.join("9/clear_refs")).unwrap(), "1");
    }
}
