//! The counters of `/proc/vmstat` that report fragmentation, each with its meaning.

use std::collections::BTreeMap;

use serde::Serialize;

/// One counter, since boot unless it says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Counter {
    /// The kernel's name.
    pub name: &'static str,
    /// Its value.
    pub value: u64,
    /// Its meaning.
    pub meaning: &'static str,
}

/// Names and meanings, in the order of reports.
const MEANINGS: [(&str, &str); 38] = [
    ("thp_fault_alloc", "page faults that got a huge page immediately"),
    (
        "thp_fault_fallback",
        "page faults that wanted a huge page and got small ones: no free 2 MiB block",
    ),
    (
        "thp_fault_fallback_charge",
        "page faults that got small pages because the cgroup was at its limit",
    ),
    ("thp_collapse_alloc", "huge pages that khugepaged allocated to gather small ones"),
    ("thp_collapse_alloc_failed", "times khugepaged found no free 2 MiB block"),
    ("thp_file_alloc", "huge pages allocated for shared memory and files"),
    ("thp_file_fallback", "huge pages wanted for shared memory and not available"),
    ("thp_split_page", "huge pages split into small ones"),
    ("thp_split_page_failed", "huge pages that could not be split because they are pinned"),
    (
        "thp_deferred_split_page",
        "huge pages put on the list to be split under pressure, partly unmapped",
    ),
    ("thp_split_pmd", "huge mappings split (the page may stay whole)"),
    ("thp_zero_page_alloc", "times the huge zero page was allocated"),
    ("thp_swpout", "huge pages swapped out whole"),
    ("thp_swpout_fallback", "huge pages split before they were swapped out"),
    ("compact_stall", "allocations that stopped to compact memory themselves"),
    ("compact_success", "of these, allocations that then succeeded"),
    ("compact_fail", "of these, allocations that then failed"),
    ("compact_daemon_wake", "times kcompactd was woken"),
    ("compact_daemon_migrate_scanned", "frames kcompactd scanned to move"),
    ("compact_daemon_free_scanned", "frames kcompactd scanned as targets"),
    ("compact_migrate_scanned", "frames compaction scanned to move"),
    ("compact_free_scanned", "frames compaction scanned as targets"),
    ("compact_isolated", "frames compaction took off their lists"),
    ("pgmigrate_success", "frames that were moved"),
    ("pgmigrate_fail", "frames that could not be moved: pinned, or in use at the moment"),
    ("thp_migration_success", "huge pages that were moved whole"),
    ("thp_migration_fail", "huge pages that could not be moved"),
    ("thp_migration_split", "huge pages that were split to be moved"),
    ("htlb_buddy_alloc_success", "hugetlb pages allocated from the page allocator"),
    ("htlb_buddy_alloc_fail", "hugetlb pages that the page allocator could not provide"),
    ("allocstall_dma", "allocations from DMA that stopped to reclaim memory themselves"),
    ("allocstall_dma32", "allocations from DMA32 that stopped to reclaim memory themselves"),
    ("allocstall_normal", "allocations from Normal that stopped to reclaim memory themselves"),
    ("allocstall_movable", "movable allocations that stopped to reclaim memory themselves"),
    ("pgscan_direct", "frames such allocations scanned to reclaim"),
    ("pgsteal_direct", "frames such allocations reclaimed"),
    ("pgsteal_kswapd", "frames that kswapd reclaimed in the background"),
    ("unevictable_pgs_mlocked", "frames that were locked into memory"),
];

/// The names of all counters that any kernel may have, in the order of reports.
pub fn names() -> impl Iterator<Item = &'static str> {
    MEANINGS.iter().map(|(name, _)| *name)
}

/// The counters that this kernel has.
pub fn counters(vmstat: &BTreeMap<String, u64>) -> Vec<Counter> {
    let present = |(name, meaning): &(&'static str, &'static str)| {
        let value = *vmstat.get(*name)?;
        Some(Counter { name, value, meaning })
    };
    MEANINGS.iter().filter_map(present).collect()
}
