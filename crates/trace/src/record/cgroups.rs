//! The cgroup of a process, for memory.

use std::collections::HashMap;
use std::fs;

use prairie_host::Roots;

/// The cgroups of processes, each read once.
///
/// A process that ended before its cgroup was read has none.
#[derive(Debug, Default)]
pub struct Cgroups {
    by_pid: HashMap<i32, Option<String>>,
}

impl Cgroups {
    /// The cgroup of `pid` if this is the first question about it and the answer is known.
    pub fn first(&mut self, roots: &Roots, pid: i32) -> Option<&str> {
        if self.by_pid.contains_key(&pid) {
            return None;
        }
        let text = fs::read_to_string(roots.proc.join(pid.to_string()).join("cgroup")).ok();
        let found = text.and_then(|text| of_memory(&text).map(str::to_owned));
        self.by_pid.entry(pid).or_insert(found).as_deref()
    }

    /// The process ended: its number may become another's.
    pub fn forget(&mut self, pid: i32) {
        self.by_pid.remove(&pid);
    }
}

/// The path of a `/proc/PID/cgroup` in the hierarchy that accounts for memory: that of the memory
/// controller of version 1 where there is one, else that of version 2.
fn of_memory(text: &str) -> Option<&str> {
    let lines = || {
        text.lines().filter_map(|line| {
            let (_, rest) = line.split_once(':')?;
            rest.split_once(':')
        })
    };
    let of_version_1 = lines().find(|(names, _)| names.split(',').any(|name| name == "memory"));
    of_version_1.or_else(|| lines().find(|(names, _)| names.is_empty())).map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_of_memory() {
        assert_eq!(of_memory("0::/system.slice/a.service\n"), Some("/system.slice/a.service"));
        let both = "5:cpu,cpuacct:/x\n4:memory:/box:1\n0::/init\n";
        assert_eq!(of_memory(both), Some("/box:1"));
        assert_eq!(of_memory("1:name=systemd:/x\n"), None);
        assert_eq!(of_memory(""), None);
    }

    #[test]
    fn each_process_is_asked_once() {
        let here = tempfile::tempdir().unwrap();
        fs::create_dir_all(here.path().join("proc/7")).unwrap();
        fs::write(here.path().join("proc/7/cgroup"), "0::/a\n").unwrap();
        let roots = Roots::at(&here.path().join("proc"));
        let mut cgroups = Cgroups::default();
        assert_eq!(cgroups.first(&roots, 7), Some("/a"));
        assert_eq!(cgroups.first(&roots, 7), None);
        assert_eq!(cgroups.first(&roots, 8), None);
        cgroups.forget(7);
        assert_eq!(cgroups.first(&roots, 7), Some("/a"));
    }
}
