//! The policies of an allocator besides placement, on a machine that runs short of memory.

/// How an allocator reclaims and makes contiguity. Each field is one mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policies {
    /// LRU lists of the whole node (Linux 4.8 and later) or of each zone.
    pub node_lru: bool,
    /// Reclaim is that of 2.6.16: anonymous memory and page cache share their lists, and kswapd goes
    /// on until each zone has a free block of the order that it was woken for, instead of leaving
    /// the rest to compaction.
    pub reclaims_as_2_6: bool,
    /// Per-CPU lists are drained before a request fails (since 2.6.24).
    pub drains: bool,
    /// Regions instead of LRU order for requests of order 3 and above (2006 paper, section 10).
    pub linear_reclaim: bool,
    /// Direct compaction.
    pub compaction: bool,
    /// Compaction is deferred after a failure (`defer_compaction`).
    pub deferral: bool,
    /// Compaction by a daemon.
    pub kcompactd: bool,
    /// The daemon works ahead of requests (`vm.compaction_proactiveness`).
    pub proactive: bool,
    /// Refault distances decide who is activated (`workingset_refault`).
    pub workingset: bool,
    /// Fallbacks boost the watermarks.
    pub boost: bool,
    /// Transparent huge pages.
    pub huge_pages: bool,
    /// Small pages are collapsed into huge ones.
    pub khugepaged: bool,
    /// Requests never break up foreign pageblocks as long as reclaim or compaction may help, and
    /// the daemons work until there are whole pageblocks enough
    /// (`vm.defrag_mode`, 6.15).
    pub defrag_mode: bool,
    /// Kernel stacks are single pages of one object, mapped above guard pages (FreeBSD).
    pub stacks_in_object: bool,
    /// Slabs of processes and threads are never returned (`UMA_ZONE_NOFREE`, FreeBSD).
    pub keeps_process_slabs: bool,
    /// Pages that one read brings in are requested as one batch (FreeBSD).
    pub batched_reads: bool,
}

impl Policies {
    /// Linux 2.6.16.
    pub const LINUX_2_6: Policies = Policies {
        node_lru: false,
        reclaims_as_2_6: true,
        drains: false,
        linear_reclaim: false,
        compaction: false,
        deferral: false,
        kcompactd: false,
        proactive: false,
        workingset: false,
        boost: false,
        huge_pages: false,
        khugepaged: false,
        defrag_mode: false,
        stacks_in_object: false,
        keeps_process_slabs: false,
        batched_reads: false,
    };

    /// Linux 6.1.
    pub const LINUX_6_1: Policies = Policies {
        node_lru: true,
        reclaims_as_2_6: false,
        drains: true,
        linear_reclaim: false,
        compaction: true,
        deferral: true,
        kcompactd: true,
        proactive: true,
        workingset: true,
        boost: true,
        huge_pages: true,
        khugepaged: true,
        defrag_mode: false,
        stacks_in_object: false,
        keeps_process_slabs: false,
        batched_reads: false,
    };

    /// Reclaim of 6.1 without Linux's compaction and what depends on it.
    pub const WITHOUT_COMPACTION: Policies = Policies {
        compaction: false,
        kcompactd: false,
        proactive: false,
        boost: false,
        ..Policies::LINUX_6_1
    };
}
