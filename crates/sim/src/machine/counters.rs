//! Event counters under the names of `/proc/vmstat`.

use serde::Serialize;

macro_rules! counters {
    ($($(#[doc = $meaning:literal])+ $name:ident,)+) => {
        /// Counters so far, by the kernel's names and definitions.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
        pub struct Counters {
            $($(#[doc = $meaning])+ pub $name: u64,)+
        }

        impl Counters {
            /// Name and value of each, in the order of `/proc/vmstat`.
            pub fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)+]
            }

            /// The difference to `before`.
            pub fn since(&self, before: &Counters) -> Counters {
                Counters { $($name: self.$name - before.$name,)+ }
            }
        }
    };
}

counters! {
    /// Frames allocated.
    pgalloc,
    /// Frames freed.
    pgfree,
    /// Page faults.
    pgfault,
    /// Page faults that read from a disk.
    pgmajfault,
    /// Pages moved to an active list.
    pgactivate,
    /// Pages moved to an inactive list.
    pgdeactivate,
    /// Pages scanned by kswapd.
    pgscan_kswapd,
    /// Pages scanned by requests that reclaimed for themselves.
    pgscan_direct,
    /// Pages reclaimed by kswapd.
    pgsteal_kswapd,
    /// Pages reclaimed by requests for themselves.
    pgsteal_direct,
    /// Direct reclaim entered for a request that can use DMA at most.
    allocstall_dma,
    /// Direct reclaim entered for a request that can use DMA32 at most.
    allocstall_dma32,
    /// Direct reclaim entered for a request that can use Normal at most.
    allocstall_normal,
    /// Direct reclaim entered for a request that can use HighMem at most.
    allocstall_highmem,
    /// Direct reclaim entered for a request that can use the movable zone.
    allocstall_movable,
    /// Kernel objects that shrinkers scanned.
    slabs_scanned,
    /// Times kswapd began to balance.
    pageoutrun,
    /// Pages read from swap.
    pswpin,
    /// Pages written to swap.
    pswpout,
    /// Reads of anonymous pages that had been evicted.
    workingset_refault_anon,
    /// Reads of file pages that had been evicted.
    workingset_refault_file,
    /// Of these, pages activated at once, for their refault distance was short.
    workingset_activate_anon,
    /// Of these, pages activated at once, for their refault distance was short.
    workingset_activate_file,
    /// Of these, pages that had been active before.
    workingset_restore_anon,
    /// Of these, pages that had been active before.
    workingset_restore_file,
    /// Pages moved.
    pgmigrate_success,
    /// Pages that could not be moved.
    pgmigrate_fail,
    /// Pages that the migration scanner scanned.
    compact_migrate_scanned,
    /// Pages that the free scanner scanned.
    compact_free_scanned,
    /// Pages that compaction took off their lists.
    compact_isolated,
    /// Direct compaction entered.
    compact_stall,
    /// Direct compaction after which there was no block.
    compact_fail,
    /// Direct compaction after which there was a block.
    compact_success,
    /// Times kcompactd began to work.
    compact_daemon_wake,
    /// Pages that its migration scanner scanned.
    compact_daemon_migrate_scanned,
    /// Pages that its free scanner scanned.
    compact_daemon_free_scanned,
    /// Persistent huge pages allocated.
    htlb_buddy_alloc_success,
    /// Persistent huge pages that could not be.
    htlb_buddy_alloc_fail,
    /// Huge pages given at a page fault.
    thp_fault_alloc,
    /// Page faults that got a small page for lack of a huge one.
    thp_fault_fallback,
    /// Huge pages that khugepaged made.
    thp_collapse_alloc,
    /// Huge pages that khugepaged could not allocate.
    thp_collapse_alloc_failed,
    /// Huge pages swapped out whole.
    thp_swpout,
    /// Processes killed by the OOM killer.
    oom_kill,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_fields() {
        let counters = Counters { pgfault: 7, oom_kill: 2, ..Counters::default() };
        let list = counters.list();
        assert!(list.contains(&("pgfault", 7)) && list.contains(&("oom_kill", 2)));
        assert_eq!(list.iter().map(|(_, value)| value).sum::<u64>(), 9);
        assert_eq!(counters.since(&Counters { pgfault: 3, ..Default::default() }).pgfault, 4);
    }
}
