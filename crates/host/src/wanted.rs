//! Which files a capture wants, and what a report lacks without them.

use std::io;

use crate::roots::{Roots, is_numbered};
use crate::texts::{buddyinfo, iomem, pagetypeinfo, vmstat, zoneinfo};
use crate::{Capture, LeftOut, contiguitas, remedy};

/// The page flags, as a capture names them.
pub(crate) const KPAGEFLAGS: &str = "proc/kpageflags";

/// Files without which a report lacks something, and what.
const REPORTED: [(&str, &str); 6] = [
    (buddyinfo::FILE, "free blocks by order"),
    (pagetypeinfo::FILE, "free blocks and pageblocks by migrate type"),
    (zoneinfo::FILE, "zones, their extents and watermarks"),
    (vmstat::FILE, "counters of compaction, reclaim and huge pages"),
    ("proc/meminfo", "totals of anonymous memory and huge pages"),
    (iomem::FILE, "the memory map, which tells holes from frames without flags"),
];

/// Files that are taken where they are.
const OPTIONAL: [&str; 3] = ["proc/uptime", "proc/loadavg", "proc/pressure/memory"];

/// Settings below `proc/sys/vm` that shape fragmentation.
const SYSCTLS: [&str; 15] = [
    "compact_unevictable_allowed",
    "compaction_proactiveness",
    "defrag_mode",
    "extfrag_threshold",
    "lowmem_reserve_ratio",
    "min_free_kbytes",
    "nr_hugepages",
    "nr_overcommit_hugepages",
    "overcommit_memory",
    "percpu_pagelist_high_fraction",
    "swappiness",
    "vfs_cache_pressure",
    "watermark_boost_factor",
    "watermark_scale_factor",
    "zone_reclaim_mode",
];

/// Directories of `/sys` whose files are taken, by function below.
const THP: &str = "sys/kernel/mm/transparent_hugepage";
const HUGETLB: &str = "sys/kernel/mm/hugepages";
const NODES: &str = "sys/devices/system/node";

/// The hierarchy of cgroup v2, where systemd mounts it.
pub(crate) const CGROUPS: &str = "sys/fs/cgroup";
/// Groups whose memory is read. Hosts have thousands of small ones.
const MAX_CGROUPS: usize = 256;

/// Reads every text into the capture; what a report would lack and cannot be read is noted.
pub(crate) fn read_texts(roots: &Roots, capture: &mut Capture) {
    for (name, what) in REPORTED {
        match roots.text(name) {
            Ok(text) => drop(capture.files.insert(name.to_owned(), text)),
            Err(error) => capture.left_out.push(left_out(name, what, &error)),
        }
    }
    for name in OPTIONAL {
        take(roots, name.to_owned(), capture);
    }
    for name in SYSCTLS {
        take(roots, format!("proc/sys/vm/{name}"), capture);
    }
    take_directory(roots, THP, capture);
    take_directory(roots, &format!("{THP}/khugepaged"), capture);
    for size in sized(roots, THP) {
        take_directory(roots, &size, capture);
        take_directory(roots, &format!("{size}/stats"), capture);
    }
    take_directory(roots, contiguitas::DIRECTORY, capture);
    contiguitas::read(roots, capture);
    take_cgroups(roots, capture);
    take_pools(roots, HUGETLB, capture);
    for node in roots.list(NODES).iter().filter(|name| is_numbered(name, "node")) {
        take_pools(roots, &format!("{NODES}/{node}/hugepages"), capture);
    }
}

/// `memory.stat` of the groups at the root, and of those one level below a slice.
fn take_cgroups(roots: &Roots, capture: &mut Capture) {
    if roots.text(&format!("{CGROUPS}/cgroup.controllers")).is_err() {
        return;
    }
    let mut left = MAX_CGROUPS;
    for top in roots.list(CGROUPS) {
        let below = if top.ends_with(".slice") {
            roots.list(&format!("{CGROUPS}/{top}"))
        } else {
            Vec::new()
        };
        let groups = below.into_iter().map(|name| format!("{top}/{name}"));
        for group in std::iter::once(top.clone()).chain(groups) {
            if left == 0 {
                return;
            }
            let name = format!("{CGROUPS}/{group}/memory.stat");
            if let Ok(text) = roots.text(&name) {
                capture.files.insert(name, text);
                left -= 1;
            }
        }
    }
}

/// The hugetlb pools below `directory`.
fn take_pools(roots: &Roots, directory: &str, capture: &mut Capture) {
    for size in sized(roots, directory) {
        take_directory(roots, &size, capture);
    }
}

/// The directories `hugepages-…kB` in a directory.
fn sized(roots: &Roots, directory: &str) -> Vec<String> {
    let names = roots.list(directory).into_iter().filter(|name| name.starts_with("hugepages-"));
    names.map(|name| format!("{directory}/{name}")).collect()
}

/// Takes every file of a directory that can be read as a text.
fn take_directory(roots: &Roots, directory: &str, capture: &mut Capture) {
    for name in roots.list(directory) {
        take(roots, format!("{directory}/{name}"), capture);
    }
}

/// Takes a file if it is there, is a file and may be read.
fn take(roots: &Roots, name: String, capture: &mut Capture) {
    if let Ok(text) = roots.text(&name) {
        capture.files.insert(name, text);
    }
}

/// Why a file is missing and how to get it.
fn left_out(name: &str, what: &str, error: &io::Error) -> LeftOut {
    let remedy = match error.kind() {
        io::ErrorKind::NotFound => "a full copy of /proc, or a kernel with the file",
        _ => remedy::for_refused(),
    };
    LeftOut { what: what.to_owned(), why: format!("/{name}: {error}"), remedy: remedy.to_owned() }
}

/// Takes `smaps_rollup` and `comm` of up to `wanted` processes: those with the most anonymous
/// memory, by `statm` (resident less shared), of those that may be looked into. A process that
/// ends meanwhile is passed over.
pub(crate) fn read_processes(roots: &Roots, wanted: usize, capture: &mut Capture) {
    let mut taken = 0;
    let mut refused: Option<(usize, String, io::Error)> = None;
    for pid in by_anonymous_memory(roots) {
        if taken == wanted {
            break;
        }
        let name = format!("proc/{pid}/smaps_rollup");
        match roots.text(&name) {
            Ok(text) if !text.is_empty() => {
                capture.files.insert(name, text);
                take(roots, format!("proc/{pid}/comm"), capture);
                taken += 1;
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let before = refused.map_or(0, |(count, ..)| count);
                refused = Some((before + 1, name, error));
            }
            // Ended meanwhile, or a kernel thread.
            Ok(_) | Err(_) => {}
        }
    }
    if let Some((count, name, error)) = refused {
        let processes = if count == 1 { "process" } else { "processes" };
        let what = format!("huge pages of {count} other {processes}");
        let remedy = remedy::by_user(
            "run as root (sudo), outside a container",
            "allow ptrace (CAP_SYS_PTRACE)",
        );
        let remedy = remedy.to_owned();
        capture.left_out.push(LeftOut { remedy, ..left_out(&name, &what, &error) });
    }
}

/// Processes that have anonymous memory, most first.
fn by_anonymous_memory(roots: &Roots) -> Vec<u32> {
    let anonymous_pages = |pid: u32| {
        let text = roots.text(&format!("proc/{pid}/statm")).ok()?;
        let mut pages = text.split_ascii_whitespace().skip(1).map_while(|word| word.parse().ok());
        let (resident, shared): (u64, u64) = (pages.next()?, pages.next()?);
        resident.checked_sub(shared).filter(|&pages| pages > 0)
    };
    let pids = roots.list("proc").into_iter().filter_map(|name| name.parse().ok());
    let mut found: Vec<(u64, u32)> =
        pids.filter_map(|pid| Some((anonymous_pages(pid)?, pid))).collect();
    found.sort_by_key(|&(pages, pid)| (std::cmp::Reverse(pages), pid));
    found.into_iter().map(|(_, pid)| pid).collect()
}
