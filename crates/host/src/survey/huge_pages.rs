//! How much memory is on huge pages: the host, its largest processes, the pools of hugetlb.

use std::collections::BTreeMap;

use serde::Serialize;

use super::ratio;
use crate::texts::fields;
use crate::{Capture, Error, ParseError};

/// Huge pages in use.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct HugePages {
    /// Huge-page coverage of the host; `None` without `meminfo`.
    pub host: Option<HostHugePages>,
    /// The processes with the most anonymous memory, most first.
    pub processes: Vec<ProcessHugePages>,
    /// The pools of hugetlb, all nodes together, smallest page first.
    pub hugetlb_pools: Vec<HugetlbPool>,
}

/// Totals of `/proc/meminfo`. Huge here is what the kernel maps as 2 MiB; smaller large folios
/// count as not huge.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct HostHugePages {
    /// Anonymous memory (`AnonPages`, huge pages included).
    pub anonymous_bytes: u64,
    /// Of it on huge pages (`AnonHugePages`).
    pub anonymous_huge_bytes: u64,
    /// Huge-page coverage: the second by the first, 0 to 1; `None` without anonymous memory.
    pub anonymous_coverage: Option<f64>,
    /// Shared memory and tmpfs (`Shmem`).
    pub shmem_bytes: u64,
    /// Of it on huge pages (`ShmemHugePages`).
    pub shmem_huge_bytes: u64,
    /// Page cache of files on huge pages (`FileHugePages`).
    pub file_huge_bytes: u64,
}

/// One process, from its `smaps_rollup`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ProcessHugePages {
    /// Its number.
    pub pid: u32,
    /// Its name (`comm`).
    pub name: String,
    /// Resident memory (`Rss`).
    pub resident_bytes: u64,
    /// Anonymous memory (`Anonymous`).
    pub anonymous_bytes: u64,
    /// Of it on huge pages (`AnonHugePages`).
    pub anonymous_huge_bytes: u64,
    /// Huge-page coverage, 0 to 1; `None` without anonymous memory.
    pub anonymous_coverage: Option<f64>,
}

/// One size of hugetlb pages.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct HugetlbPool {
    /// The page's size.
    pub page_bytes: u64,
    /// Pages in the pool (`nr_hugepages`).
    pub pages: u64,
    /// Of them not in use (`free_hugepages`).
    pub free_pages: u64,
    /// Of the free ones promised to mappings (`resv_hugepages`).
    pub reserved_pages: u64,
    /// Beyond the configured number (`surplus_hugepages`).
    pub surplus_pages: u64,
}

impl HugePages {
    /// The values of the capture's texts.
    ///
    /// # Errors
    /// [`Error::Parse`] where one is malformed.
    pub fn of(capture: &Capture) -> Result<HugePages, Error> {
        let mut processes: Vec<ProcessHugePages> = Vec::new();
        for (name, text) in &capture.files {
            if let Some(pid) = rollup_pid(name) {
                processes.push(process(capture, pid, name, text)?);
            }
        }
        processes.sort_by_key(|process| (std::cmp::Reverse(process.anonymous_bytes), process.pid));
        Ok(HugePages { host: host(capture)?, processes, hugetlb_pools: hugetlb_pools(capture)? })
    }
}

fn host(capture: &Capture) -> Result<Option<HostHugePages>, Error> {
    const FILE: &str = "proc/meminfo";
    let Some(text) = capture.files.get(FILE) else { return Ok(None) };
    let sizes = fields::sizes(FILE, text)?;
    let bytes = |name: &str| sizes.get(name).copied().unwrap_or(0);
    let (all, huge) = (bytes("AnonPages"), bytes("AnonHugePages"));
    Ok(Some(HostHugePages {
        anonymous_bytes: all,
        anonymous_huge_bytes: huge,
        anonymous_coverage: (all > 0).then(|| ratio(huge, all)),
        shmem_bytes: bytes("Shmem"),
        shmem_huge_bytes: bytes("ShmemHugePages"),
        file_huge_bytes: bytes("FileHugePages"),
    }))
}

/// The process of a file `proc/PID/smaps_rollup`.
fn rollup_pid(name: &str) -> Option<u32> {
    name.strip_prefix("proc/")?.strip_suffix("/smaps_rollup")?.parse().ok()
}

fn process(
    capture: &Capture,
    pid: u32,
    file: &str,
    text: &str,
) -> Result<ProcessHugePages, ParseError> {
    let sizes = fields::sizes(file, text)?;
    let bytes = |name: &str| sizes.get(name).copied().unwrap_or(0);
    let (all, huge) = (bytes("Anonymous"), bytes("AnonHugePages"));
    let comm = capture.files.get(&format!("proc/{pid}/comm"));
    Ok(ProcessHugePages {
        pid,
        name: comm.map_or_else(|| "?".to_owned(), |comm| comm.trim_end().to_owned()),
        resident_bytes: bytes("Rss"),
        anonymous_bytes: all,
        anonymous_huge_bytes: huge,
        anonymous_coverage: (all > 0).then(|| ratio(huge, all)),
    })
}

/// The pools below `sys/kernel/mm/hugepages/hugepages-…kB/`.
fn hugetlb_pools(capture: &Capture) -> Result<Vec<HugetlbPool>, ParseError> {
    let mut pools: BTreeMap<u64, HugetlbPool> = BTreeMap::new();
    for (name, text) in &capture.files {
        let Some((page_bytes, counter)) = pool_file(name) else { continue };
        let pool = pools.entry(page_bytes).or_insert(HugetlbPool {
            page_bytes,
            pages: 0,
            free_pages: 0,
            reserved_pages: 0,
            surplus_pages: 0,
        });
        let field = match counter {
            "nr_hugepages" => &mut pool.pages,
            "free_hugepages" => &mut pool.free_pages,
            "resv_hugepages" => &mut pool.reserved_pages,
            "surplus_hugepages" => &mut pool.surplus_pages,
            _ => continue,
        };
        *field = text.trim().parse().map_err(|_| ParseError {
            file: name.clone(),
            line: 1,
            expected: "a number of pages".to_owned(),
            found: text.chars().take(60).collect(),
        })?;
    }
    Ok(pools.into_values().collect())
}

/// Page size and counter of a file `…/hugepages-2048kB/free_hugepages` of the host's pools.
fn pool_file(name: &str) -> Option<(u64, &str)> {
    let rest = name.strip_prefix("sys/kernel/mm/hugepages/hugepages-")?;
    let (size, counter) = rest.split_once("kB/")?;
    Some((size.parse::<u64>().ok()?.checked_mul(1024)?, counter))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(files: &[(&str, &str)]) -> Capture {
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        Capture { files: files.collect(), ..Capture::default() }
    }

    #[test]
    fn coverage_of_the_host_and_its_processes() {
        let rollup = |anon: u64, huge: u64| {
            format!(
                "0-1 ---p 0 0:0 0 [rollup]\nRss: {anon} kB\nAnonymous: {anon} kB\nAnonHugePages: {huge} kB\n"
            )
        };
        let capture = capture(&[
            ("proc/meminfo", "AnonPages: 4096 kB\nAnonHugePages: 1024 kB\nShmem: 8 kB\n"),
            ("proc/12/smaps_rollup", &rollup(100, 0)),
            ("proc/12/comm", "small\n"),
            ("proc/7/smaps_rollup", &rollup(4096, 2048)),
            ("proc/9/smaps_rollup", &rollup(0, 0)),
        ]);
        let found = HugePages::of(&capture).unwrap();
        assert_eq!(found.host.unwrap().anonymous_coverage, Some(0.25));
        let row = |p: &ProcessHugePages| (p.pid, p.name.clone(), p.anonymous_coverage);
        assert_eq!(
            found.processes.iter().map(row).collect::<Vec<_>>(),
            [
                (7, "?".to_owned(), Some(0.5)),
                (12, "small".to_owned(), Some(0.0)),
                (9, "?".to_owned(), None),
            ]
        );
    }

    #[test]
    fn pools_by_size() {
        let pool = "sys/kernel/mm/hugepages/hugepages-2048kB";
        let found = HugePages::of(&capture(&[
            (&format!("{pool}/nr_hugepages"), "8\n"),
            (&format!("{pool}/free_hugepages"), "3\n"),
            (&format!("{pool}/demote_size"), "4kB\n"),
        ]))
        .unwrap();
        let [pool_2m] = &found.hugetlb_pools[..] else { panic!("{found:?}") };
        assert_eq!((pool_2m.page_bytes, pool_2m.pages, pool_2m.free_pages), (2 << 20, 8, 3));
        let bad = capture(&[(&format!("{pool}/nr_hugepages"), "x")]);
        assert!(HugePages::of(&bad).is_err());
    }
}
