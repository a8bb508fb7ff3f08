//! Reads the files that are cheap to read: no walk over processes, no lock that an allocation
//! waits for longer than for one `cat /proc/buddyinfo`.

use std::fs;
use std::io;
use std::time::SystemTime;

use prairie_host::texts::{buddyinfo, iomem, vmstat, zoneinfo};
use prairie_host::{Capture, Error, LeftOut, Roots, contiguitas, remedy};

/// Without these a reading lacks something, and what.
const TEXTS: [(&str, &str); 4] = [
    (buddyinfo::FILE, "free blocks by order"),
    (vmstat::FILE, "counters of compaction, reclaim and huge pages"),
    ("proc/meminfo", "totals of anonymous memory and huge pages"),
    ("proc/pressure/memory", "memory pressure"),
];

/// Where the pools of hugetlb are.
const POOLS: &str = "kernel/mm/hugepages";

/// Reads free lists, counters, totals, pressure, and the regions of a kernel that has some.
///
/// # Errors
/// [`Error::Io`] where `proc` is no directory.
pub fn texts(roots: &Roots) -> Result<Capture, Error> {
    fs::metadata(&roots.proc).map_err(|source| Error::Io { path: roots.proc.clone(), source })?;
    let mut capture = named(roots);
    for (name, what) in TEXTS {
        match text(roots, name) {
            Ok(text) => drop(capture.files.insert(name.to_owned(), text)),
            Err(error) => capture.left_out.push(left_out(name, what, &error)),
        }
    }
    contiguitas::read(roots, &mut capture);
    for pool in list(roots, POOLS) {
        for counter in ["nr_hugepages", "free_hugepages"] {
            let name = format!("sys/{POOLS}/{pool}/{counter}");
            if let Ok(text) = text(roots, &name) {
                capture.files.insert(name, text);
            }
        }
    }
    Ok(capture)
}

/// Reads what shows where frames are: zones and, where permitted, the memory map.
pub fn extents(roots: &Roots) -> Capture {
    let mut capture = named(roots);
    for (name, what) in [
        (zoneinfo::FILE, "zones, and with them the frames"),
        (iomem::FILE, "the memory map, which tells holes from frames without flags"),
    ] {
        match text(roots, name) {
            Ok(text) => drop(capture.files.insert(name.to_owned(), text)),
            Err(error) => capture.left_out.push(left_out(name, what, &error)),
        }
    }
    let map = capture.files.get(iomem::FILE).map(|text| iomem::system_ram(text));
    if matches!(map, Some(Ok(ranges)) if ranges.is_empty()) {
        capture.left_out.push(LeftOut {
            what: "the memory map, which tells holes from frames without flags".to_owned(),
            why: format!("/{}: no address of \"System RAM\" in it", iomem::FILE),
            remedy: remedy::for_refused().to_owned(),
        });
    }
    capture
}

/// A capture without files.
fn named(roots: &Roots) -> Capture {
    let word = |name: &str| match text(roots, name) {
        Ok(text) => text.trim().to_owned(),
        Err(_) => "unknown".to_owned(),
    };
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Capture {
        taken_at_unix_ns: since.map_or(0, |since| since.as_nanos() as u64),
        taken_at_monotonic_ns: prairie_host::monotonic_ns(),
        kernel_release: word("proc/sys/kernel/osrelease"),
        machine: match word("proc/sys/kernel/arch") {
            // Kernels before 6.1 have no such file.
            arch if arch == "unknown" && roots.is_live() => {
                rustix::system::uname().machine().to_string_lossy().into_owned()
            }
            arch => arch,
        },
        page_bytes: rustix::param::page_size() as u64,
        ..Capture::default()
    }
}

fn left_out(name: &str, what: &str, error: &io::Error) -> LeftOut {
    let remedy = match error.kind() {
        io::ErrorKind::NotFound => "a full copy of /proc, or a kernel with the file",
        _ => remedy::for_refused(),
    };
    LeftOut { what: what.to_owned(), why: format!("/{name}: {error}"), remedy: remedy.to_owned() }
}

/// The text of a file that a capture names `proc/…` or `sys/…`.
fn text(roots: &Roots, name: &str) -> io::Result<String> {
    let path = match name.split_once('/') {
        Some(("sys", rest)) => roots.sys.join(rest),
        Some((_, rest)) => roots.proc.join(rest),
        None => roots.proc.join(name),
    };
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The names in a directory of `/sys`, sorted.
fn list(roots: &Roots, directory: &str) -> Vec<String> {
    let entries = fs::read_dir(roots.sys.join(directory)).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}
