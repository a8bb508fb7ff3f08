//! What `/proc` says of a process, besides its heap.

use std::fs;

/// Resident memory in bytes; 0 of a process that has ended.
pub fn resident_bytes(pid: u32) -> u64 {
    field(pid, "VmRSS:") * 1024
}

/// The name of a process, as `ps` shows it; empty if it has ended.
pub fn name(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// CPU time so far in seconds, with that of children that have ended.
pub fn cpu_seconds(pid: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let ticks = cpu_ticks(&text)?;
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// User and system time of a `/proc/PID/stat`, the process's own and its children's. The name, in
/// brackets, may hold anything.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let rest = &stat[stat.rfind(')')? + 1..];
    let times: Vec<u64> = rest
        .split_ascii_whitespace()
        .skip(11)
        .take(4)
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    (times.len() == 4).then(|| times.iter().sum())
}

fn field(pid: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 95 0 0 0 30 4 2 1 20 0 1 0 8147 0 0";
        assert_eq!(cpu_ticks(stat), Some(37));
        assert_eq!(cpu_ticks("7 (x) S 1"), None);
        assert_eq!(cpu_ticks("nonsense"), None);
    }

    #[test]
    fn this_process_has_a_name_memory_and_time() {
        let pid = std::process::id();
        assert!(!name(pid).is_empty() && resident_bytes(pid) > 0 && cpu_seconds(pid).is_some());
        assert_eq!((name(u32::MAX), resident_bytes(u32::MAX)), (String::new(), 0));
    }
}
