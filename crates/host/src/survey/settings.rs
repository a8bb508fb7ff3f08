//! The settings that shape fragmentation and huge pages, each with its meaning.

use serde::Serialize;

use crate::texts::setting::{self, Setting};
use crate::{Capture, ParseError, contiguitas};

/// One setting of the kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct HostSetting {
    /// Its file: `/sys/kernel/mm/transparent_hugepage/enabled`.
    pub path: String,
    /// The value.
    pub value: String,
    /// What could hold, where the kernel lists it.
    pub choices: Vec<String>,
    /// The meaning of the setting or of its value.
    pub meaning: &'static str,
}

/// Settings by path below `/`, in the order of reports, with what they mean whatever their value.
const MEANINGS: [(&str, &str); 22] = [
    ("sys/kernel/mm/transparent_hugepage/enabled", "who gets huge pages for anonymous memory"),
    (
        "sys/kernel/mm/transparent_hugepage/defrag",
        "which faults reclaim and compact for a huge page",
    ),
    ("sys/kernel/mm/transparent_hugepage/shmem_enabled", "who gets huge pages for shared memory"),
    (
        "sys/kernel/mm/transparent_hugepage/use_zero_page",
        "1: reading untouched memory maps one shared huge zero page",
    ),
    (
        "sys/kernel/mm/transparent_hugepage/shrink_underused",
        "1: huge pages that are mostly zeros are split under pressure",
    ),
    (
        "sys/kernel/mm/transparent_hugepage/khugepaged/defrag",
        "1: khugepaged may compact memory to get a huge page",
    ),
    (
        "sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none",
        "untouched pages, of 512, that may be filled with zeros to form a huge page",
    ),
    (
        "sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan",
        "pages khugepaged scans per pass",
    ),
    (
        "sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs",
        "milliseconds khugepaged sleeps between passes",
    ),
    ("proc/sys/vm/nr_hugepages", "hugetlb pages of the default size kept in the pool"),
    (
        "proc/sys/vm/nr_overcommit_hugepages",
        "hugetlb pages that may be taken from free memory beyond the pool",
    ),
    (
        "proc/sys/vm/compaction_proactiveness",
        "0 to 100: how eagerly kcompactd compacts before anyone asks; 0 never",
    ),
    (
        "proc/sys/vm/compact_unevictable_allowed",
        "1: compaction moves unevictable and mlocked pages; 0: they count as movable here, but \
         compaction leaves them",
    ),
    (
        "proc/sys/vm/extfrag_threshold",
        "thousandths: a large request that fails with a lower fragmentation index reclaims instead \
         of compacting",
    ),
    (
        "proc/sys/vm/defrag_mode",
        "1: the allocator avoids mixing movable and unmovable pages in a pageblock, and reclaims \
         and compacts for whole ones",
    ),
    ("proc/sys/vm/min_free_kbytes", "free memory that only urgent requests may use"),
    (
        "proc/sys/vm/watermark_boost_factor",
        "ten-thousandths of the high watermark: how far mixing types in a pageblock raises the \
         watermarks; 0 turns this off",
    ),
    (
        "proc/sys/vm/watermark_scale_factor",
        "ten-thousandths of memory between the watermarks: how early kswapd starts",
    ),
    (
        "proc/sys/vm/percpu_pagelist_high_fraction",
        "0: the kernel sizes the per-CPU lists itself; otherwise they hold 1/N of a zone",
    ),
    (
        "proc/sys/vm/lowmem_reserve_ratio",
        "share of the lower zones reserved from requests that could use a higher zone",
    ),
    ("proc/sys/vm/swappiness", "0 to 200: anonymous memory against page cache when reclaiming"),
    (
        "proc/sys/vm/overcommit_memory",
        "0: refuse obvious excess; 1: refuse nothing; 2: strict accounting",
    ),
];

/// The settings that the capture has.
///
/// # Errors
/// [`ParseError`] where one is malformed.
pub fn settings(capture: &Capture) -> Result<Vec<HostSetting>, ParseError> {
    let mut found = Vec::new();
    for (path, meaning) in MEANINGS {
        let Some(text) = capture.files.get(path) else { continue };
        found.push(host_setting(path, text, meaning)?);
    }
    // Sizes of transparent huge pages that have a switch of their own (Linux 6.8).
    for (path, text) in &capture.files {
        let size = path.strip_prefix("sys/kernel/mm/transparent_hugepage/hugepages-");
        if size.is_some_and(|rest| rest.ends_with("kB/enabled")) {
            found.push(host_setting(path, text, "who gets anonymous large folios of this size")?);
        }
    }
    for (path, text) in &capture.files {
        if let Some(meaning) = of_border(path) {
            found.push(host_setting(path, text, meaning)?);
        }
    }
    Ok(found)
}

/// What a file of a kernel with a border between unmovable and movable memory means, if a report
/// shows it.
fn of_border(path: &str) -> Option<&'static str> {
    let (_, name) = path.strip_prefix(contiguitas::DIRECTORY)?.rsplit_once('/')?;
    let meaning = match name {
        "border_pfn" => "first frame of the movable region",
        "unmovable_kb" => "KiB of the unmovable region",
        "movable_kb" => "KiB of the movable region",
        "unmovable_available_kb" => "KiB free below the border for ordinary requests",
        "movable_available_kb" => "KiB free above the border",
        "unmovable_low_kb" => "the unmovable region grows with fewer KiB free",
        "unmovable_high_kb" => "the unmovable region shrinks with more KiB free",
        "floor_kb" => "least KiB of the unmovable region",
        "ceiling_kb" => "most KiB of the unmovable region",
        "unmovable_pressure" => "time in which a task stalled for unmovable memory, as PSI",
        "movable_pressure" => "time in which a task stalled for movable memory, as PSI",
        _ => return None,
    };
    Some(meaning)
}

fn host_setting(path: &str, text: &str, meaning: &'static str) -> Result<HostSetting, ParseError> {
    let parsed = setting::parse(path, text)?;
    let value = parsed.value().replace('\t', " ");
    let meaning = of_value(path, &value).unwrap_or(meaning);
    let choices = match parsed {
        Setting::Choice { choices, .. } => choices,
        Setting::Plain(_) => Vec::new(),
    };
    Ok(HostSetting { path: format!("/{path}"), value, choices, meaning })
}

/// The meaning of one value.
fn of_value(path: &str, value: &str) -> Option<&'static str> {
    let name = path.rsplit('/').next()?;
    // A switch for one size speaks of that size alone.
    let name = if path.contains("/hugepages-") { "enabled for one size" } else { name };
    let meaning = match (name, value) {
        ("enabled for one size", "always") => "folios of this size for all anonymous memory",
        ("enabled for one size", "madvise") => {
            "folios of this size only where a program asks with madvise(MADV_HUGEPAGE)"
        }
        ("enabled for one size", "never") => "no folios of this size at a fault",
        ("enabled for one size", "inherit") => "as the switch for all sizes says",
        ("enabled", "always") => "huge pages for all anonymous memory that has room for one",
        ("enabled", "madvise") => {
            "huge pages only where a program asks with madvise(MADV_HUGEPAGE)"
        }
        ("enabled", "never") => "no transparent huge pages",
        ("defrag", "always") => "every fault that wants a huge page reclaims and compacts for it",
        ("defrag", "defer") => "faults take what is free and wake kswapd and kcompactd",
        ("defrag", "defer+madvise") => {
            "faults wake kswapd and kcompactd; those in madvised memory reclaim and compact"
        }
        ("defrag", "madvise") => "only faults in madvised memory reclaim and compact",
        ("defrag", "never") => "faults take a huge page only if one is free",
        ("shmem_enabled", "always") => "huge pages for all shared memory mappings",
        ("shmem_enabled", "within_size") => "huge pages for shared memory up to the file's size",
        ("shmem_enabled", "advise") => "huge pages for shared memory that is madvised",
        ("shmem_enabled", "never" | "deny") => "no huge pages for shared memory",
        ("shmem_enabled", "force") => "huge pages for all shared memory, for testing",
        _ => return None,
    };
    Some(meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_with_a_border_shows_where_it_is() {
        let mut capture = Capture::default();
        let node = "sys/kernel/mm/contiguitas/node0";
        for (name, text) in [
            ("border_pfn", "81920\n"),
            ("movable_pressure", "some avg10=0.00 avg60=0.10 avg300=0.02 total=61734\n"),
            ("counters", "wake_ups 12\nwaits 0\n"),
        ] {
            capture.files.insert(format!("{node}/{name}"), text.to_owned());
        }
        let found = settings(&capture).unwrap();
        let shown = found.iter().map(|setting| (setting.path.as_str(), setting.value.as_str()));
        let pressure = "some avg10=0.00 avg60=0.10 avg300=0.02 total=61734";
        assert!(shown.eq([
            ("/sys/kernel/mm/contiguitas/node0/border_pfn", "81920"),
            ("/sys/kernel/mm/contiguitas/node0/movable_pressure", pressure),
        ]));
    }

    #[test]
    fn the_switch_of_one_size_speaks_of_that_size() {
        const THP: &str = "sys/kernel/mm/transparent_hugepage";
        let all = of_value(&format!("{THP}/enabled"), "never").unwrap();
        let one = of_value(&format!("{THP}/hugepages-64kB/enabled"), "never").unwrap();
        assert!(all.contains("no transparent huge pages") && one.contains("this size"));
        assert!(of_value(&format!("{THP}/hugepages-64kB/enabled"), "inherit").is_some());
    }
}
