//! The soft limit in bytes: `PRAIRIE_HEAP_LIMIT` may state a share of what the process may use.

use core::ffi::CStr;

use super::settings::{Limit, Path, number};
use crate::front::file::File;

/// The limit in bytes. `None` if it is a share of something that the kernel does not report, as in
/// a sandbox without `/proc`.
pub fn bytes(limit: Limit) -> Option<u64> {
    match limit {
        Limit::Bytes(bytes) => Some(bytes),
        Limit::Percent(percent) => {
            usable_memory().map(|bytes| (u128::from(bytes) * u128::from(percent) / 100) as u64)
        }
    }
}

/// The least of `memory.max` and `memory.high` of the process's cgroup and of those above it, and
/// of the machine's memory. Limits of cgroup v1 are `memory.limit_in_bytes`.
fn usable_memory() -> Option<u64> {
    let mut text = [0; 4096];
    let len = File::open(c"/proc/self/cgroup").map_or(0, |file| file.read(&mut text));
    let (root, files, group): (&str, &[&str], _) = match memory_group(&text[..len]) {
        Some((1, group)) => ("/sys/fs/cgroup/memory", &["memory.limit_in_bytes"], group),
        Some((_, group)) => ("/sys/fs/cgroup", &["memory.max", "memory.high"], group),
        None => ("", &[], &[][..]),
    };
    let limits = ancestors(group).flat_map(|group| {
        files.iter().filter_map(move |file| {
            let group = core::str::from_utf8(group).ok()?;
            number_in(Path::of(format_args!("{root}{group}/{file}"))?.as_c_str())
        })
    });
    limits.chain(total_memory()).min()
}

/// The version of the hierarchy that limits memory, and the process's group in it, of a
/// `/proc/self/cgroup`: `0::/group` for version 2, `5:memory:/group` for version 1, which is the one
/// in charge where both are mounted.
fn memory_group(text: &[u8]) -> Option<(u8, &[u8])> {
    let mut of_version_2 = None;
    for line in text.split(|&byte| byte == b'\n') {
        let mut parts = line.splitn(3, |&byte| byte == b':');
        let (Some(id), Some(controllers), Some(group)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        if controllers.split(|&byte| byte == b',').any(|name| name == b"memory") {
            return Some((1, group));
        }
        if id == b"0" && controllers.is_empty() {
            of_version_2 = Some((2, group));
        }
    }
    of_version_2
}

/// The group and those above it, without a slash at the end: `/a/b`, `/a`, and the empty root.
fn ancestors(group: &[u8]) -> impl Iterator<Item = &[u8]> {
    let group = group.strip_suffix(b"/").unwrap_or(group);
    core::iter::successors(Some(group), |group| {
        group.iter().rposition(|&byte| byte == b'/').map(|slash| &group[..slash])
    })
}

/// The number that a file consists of; `max` is none.
fn number_in(path: &CStr) -> Option<u64> {
    let mut text = [0; 32];
    let len = File::open(path).ok()?.read(&mut text);
    number(text[..len].trim_ascii())
}

fn total_memory() -> Option<u64> {
    let mut text = [0; 256];
    let len = File::open(c"/proc/meminfo").ok()?.read(&mut text);
    total_of(&text[..len])
}

/// `MemTotal` of a `/proc/meminfo`, whose first line it is.
fn total_of(meminfo: &[u8]) -> Option<u64> {
    let line = meminfo.split(|&byte| byte == b'\n').next()?;
    let kib = line.strip_prefix(b"MemTotal:")?.strip_suffix(b"kB")?;
    number(kib.trim_ascii())?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_is_that_of_the_hierarchy_that_limits_memory() {
        assert_eq!(memory_group(b"0::/user/a\n"), Some((2, &b"/user/a"[..])));
        let both = b"7:cpu,cpuacct:/x\n5:memory,hugetlb:/y:z\n0::/a\n";
        assert_eq!(memory_group(both), Some((1, &b"/y:z"[..])));
        assert_eq!(memory_group(b"nonsense\n1:cpu:/x"), None);
    }

    #[test]
    fn limits_of_all_groups_above_count() {
        let all = |group: &'static [u8]| ancestors(group).collect::<Vec<_>>();
        assert_eq!(all(b"/a/b"), [&b"/a/b"[..], b"/a", b""]);
        assert_eq!(all(b"/"), [b""]);
    }

    #[test]
    fn a_share_is_at_most_the_memory_of_the_machine() {
        assert_eq!(
            total_of(b"MemTotal:       24651928 kB\nMemFree: 1 kB\n"),
            Some(24_651_928 << 10)
        );
        assert_eq!(total_of(b"MemFree: 1 kB\n"), None);
        let (Some(all), Some(total)) = (bytes(Limit::Percent(100)), total_memory()) else {
            return; // a sandbox without `/proc`
        };
        assert!(0 < all && all <= total, "{all} of {total}");
        assert_eq!(bytes(Limit::Percent(50)), Some(all / 2));
    }
}
