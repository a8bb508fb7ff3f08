//! Settings, and switches that disable single mechanisms.

/// Settings of [`Linux`](super::Linux). The default is the kernel's with transparent huge pages
/// and without the contiguous memory allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// CPUs of each node, which share what per-CPU lists may hold.
    pub cpus_per_node: u16,
    /// Whether huge pages go through per-CPU lists (`CONFIG_TRANSPARENT_HUGEPAGE`).
    pub huge_pages: bool,
    /// Whether movable requests may use areas of the contiguous memory allocator (`CONFIG_CMA`).
    pub cma: bool,
    /// How far a fragmenting fallback raises a zone's watermarks at most, in ten-thousandths of
    /// the high watermark; 0 turns boosting off (`vm.watermark_boost_factor`).
    pub watermark_boost_factor: u64,
    /// Whether a boost stays until [`Linux::end_boost`](super::Linux::end_boost). Otherwise kswapd
    /// is taken to have finished as soon as it is woken.
    pub keep_boost: bool,
    /// Whether blocks and requests have types at all (`page_group_by_mobility_disabled`).
    pub grouping: bool,
    /// Whether frames pass through per-CPU lists.
    pub per_cpu_lists: bool,
    /// Whether a fallback takes the rest of a pageblock along and claims it; without, it takes a
    /// single block, unless that is a whole pageblock.
    pub claiming: bool,
    /// Whether a request first looks into lower zones before it breaks up a foreign pageblock
    /// (`ALLOC_NOFRAGMENT`).
    pub nofragment: bool,
    /// Whether pageblocks are reserved for atomic requests of more than one frame
    /// (`MIGRATE_HIGHATOMIC`).
    pub highatomic: bool,
    /// Whether a freed block that may soon merge goes to the tail of its list
    /// (`buddy_merge_likely`).
    pub merge_likely_to_tail: bool,
    /// Whether a free block is only ever on a list of its pageblock's type (Linux 6.10), and a
    /// fallback either claims the pageblock, with all that is free in it, or takes a single block
    /// and leaves the rest where it is (6.15: `__rmqueue_claim`, `__rmqueue_steal`).
    pub hygiene: bool,
    /// Whether requests for a frame ignore raised watermarks if they are urgent (`__GFP_HIGH`, 6.3)
    /// rather than atomic (`__GFP_ATOMIC`).
    pub high_ignores_boost: bool,
    /// Whether per-CPU lists adapt their size to what is allocated and freed (6.7: `nr_pcp_alloc`,
    /// `nr_pcp_high`), down again below the high watermark (`ZONE_BELOW_HIGH`).
    pub adaptive_lists: bool,
    /// Whether frees of larger blocks in a row empty the lists only from half of the least high
    /// mark on (6.16).
    pub late_flush: bool,
    /// Whether drains go batch by batch; each batch may overshoot by a block (6.19).
    pub drains_by_batch: bool,
    /// Whether small zones have no reserve for atomic requests, and the reserve is a hundredth of
    /// the others, in whole pageblocks (6.8).
    pub rounded_reserve: bool,
    /// Whether watermarks leave out the free frames of that reserve instead of all of it (6.12).
    pub free_reserve: bool,
    /// Whether atomic requests for larger blocks refill no empty list, and only those that the free
    /// lists serve add to that reserve (7.1).
    pub buddy_reserve: bool,
    /// Whether atomic requests turn to that reserve before memory is short (7.3). Only those that take
    /// the last memory add to it.
    pub early_reserve: bool,
    /// Whether requests spare foreign pageblocks in every zone until reclaim and compaction have
    /// failed (`vm.defrag_mode`, 6.15). The code that reclaims reports this failure
    /// ([`Stepwise::may_mix`](crate::placement::stepwise::Stepwise::may_mix)).
    pub defrag_mode: bool,
}

impl Config {
    /// The rules of Linux 6.1 with its usual settings, for one CPU a node.
    pub const LINUX_6_1: Config = Config {
        cpus_per_node: 1,
        huge_pages: true,
        cma: false,
        watermark_boost_factor: 15_000,
        keep_boost: false,
        grouping: true,
        per_cpu_lists: true,
        claiming: true,
        nofragment: true,
        highatomic: true,
        merge_likely_to_tail: true,
        hygiene: false,
        high_ignores_boost: false,
        adaptive_lists: false,
        late_flush: false,
        drains_by_batch: false,
        rounded_reserve: false,
        free_reserve: false,
        buddy_reserve: false,
        early_reserve: false,
        defrag_mode: false,
    };

    /// Linux 6.1 with the fallback of 6.15 and `vm.defrag_mode=1`, for comparisons that leave all
    /// else as it is.
    pub fn linux_6_15() -> Config {
        Config { hygiene: true, defrag_mode: true, ..Config::default() }
    }
}

impl Default for Config {
    fn default() -> Config {
        Config::LINUX_6_1
    }
}
