//! What changed in Linux's page allocator, version by version.
//!
//! A kernel version is data: each rule that differs between versions is one row of [`RULES`], and
//! [`Config::of`] applies the rows up to a version. Who reads records and logs of several versions
//! asks the row, too, instead of naming a version of its own.

use super::Config;
use crate::KernelVersion;

/// What a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Area {
    /// Which frame a request gets: free lists, per-CPU lists, pageblocks.
    Placement,
    /// Which zone a request gets it from: watermarks and reserves.
    Zones,
    /// Which pages move, and when.
    Compaction,
    /// The names and numbers of a request's flags. Each
    /// [`NAME`](crate::placement::gfp::names::NAMES) has its numbers before and since
    /// [`GFP_RECLAIM`].
    Gfp,
}

impl Area {
    /// As documents name it.
    pub const fn name(self) -> &'static str {
        match self {
            Area::Placement => "placement",
            Area::Zones => "zones",
            Area::Compaction => "compaction",
            Area::Gfp => "GFP flags",
        }
    }

    /// Whether [`Linux`](super::Linux) decides it.
    pub const fn decides_frames(self) -> bool {
        matches!(self, Area::Placement | Area::Zones)
    }
}

/// How far a rule is part of the model.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Modeled {
    /// The rule is one or more fields of [`Config`].
    By(fn(&mut Config)),
    /// The rule is older than Linux 6.1, which the model starts from.
    FromStart,
    /// The rule shows in records and logs: their readers follow it, and the model need not.
    ByReaders,
    /// The rule is known and not modeled: from its version on the model is not exact.
    NotYet,
}

/// What exercises a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Evidence {
    /// A recording of a kernel with the rule, by its folder in `data/`. It is replayed frame by
    /// frame.
    Recording(&'static str),
    /// A recording that shows one part of a rule.
    PartlyRecorded {
        /// Its folder in `data/`.
        recording: &'static str,
        /// What of the rule it shows.
        shown: &'static str,
    },
    /// A log of a kernel from before or after the change, by its name in
    /// `crates/host/tests/fixtures/kernel-logs/`.
    KernelLog(&'static str),
    /// A test of the model, or of a reader of records and logs. It shows that they follow the rule as
    /// read in the kernel's source, not that the kernel does.
    ModelTest {
        /// Its file in the repository.
        file: &'static str,
        /// Its function.
        name: &'static str,
    },
}

use Evidence::{KernelLog, PartlyRecorded, Recording};

/// By the score of a node.
const PROACTIVE_SCORE: Evidence = Evidence::ModelTest {
    file: "crates/frames/src/compaction/score.rs",
    name: "proactive_compaction_starts_high_stops_low_and_backs_off",
};

/// By hand, on one machine under 6.12 and 6.18.
const FLUSHED_LISTS: Evidence = Evidence::ModelTest {
    file: "crates/frames/tests/linux_tuning.rs",
    name: "larger_blocks_in_a_row_empty_the_lists",
};

/// By hand, on two pageblocks.
const SPARED_PAGEBLOCKS: Evidence = Evidence::ModelTest {
    file: "crates/frames/tests/linux_claim.rs",
    name: "defrag_mode_spares_foreign_pageblocks_until_fallback_is_allowed",
};

/// By hand, on one pageblock.
const SINGLE_BLOCK: Evidence = Evidence::ModelTest {
    file: "crates/frames/tests/linux_claim.rs",
    name: "below_half_a_single_block_goes_and_the_rest_stays",
};

/// By hand, on one machine whose free memory is above or below the mark.
const BELOW_HIGH: Evidence = Evidence::ModelTest {
    file: "crates/frames/tests/linux_tuning.rs",
    name: "since_6_7_lists_hold_less_below_the_high_watermark",
};

/// By hand, on zones around 100 pageblocks.
const ROUNDED_RESERVE: Evidence = Evidence::ModelTest {
    file: "crates/frames/tests/linux_reserves.rs",
    name: "since_6_8_the_reserve_is_a_hundredth_in_whole_pageblocks",
};

/// By hand, on four pageblocks; one of them is reserved.
const FREE_RESERVE: Evidence = Evidence::ModelTest {
    file: "crates/frames/tests/linux_reserves.rs",
    name: "since_6_12_used_frames_of_the_reserve_do_not_count_against_the_watermark",
};

/// By hand, on one batch of frees. Shipped recordings have such frees, but the tests of their exact
/// replay pass without the rule, too.
const PAST_LISTS: Evidence = Evidence::ModelTest {
    file: "crates/replay/src/exact/follow/interrupts.rs",
    name: "a_free_between_frames_of_a_batch_goes_past_the_list",
};

/// By the names and numbers of four releases.
const RENAMED_REPEAT: Evidence = Evidence::ModelTest {
    file: "crates/host/src/kernel_log/gfp.rs",
    name: "repeat_is_read_as_retry_mayfail",
};

/// By hand, on one zone under 6.2 and 6.3.
const URGENT_FRAME: Evidence = Evidence::ModelTest {
    file: "crates/frames/tests/linux_reserves.rs",
    name: "since_6_3_urgent_requests_for_a_frame_ignore_raised_watermarks",
};

/// By the names and numbers of three releases.
const FORMER_ATOMIC: Evidence = Evidence::ModelTest {
    file: "crates/host/src/kernel_log/gfp.rs",
    name: "atomic_requests_are_recognized_without_their_former_flag",
};

/// One rule that differs between versions.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Rule {
    /// What it is about.
    pub area: Area,
    /// What changed, in one sentence.
    pub what: &'static str,
    /// What it means for contiguous memory, in one sentence.
    pub effect: &'static str,
    /// The first release with the change.
    pub since: KernelVersion,
    /// The kernel functions that implement it; empty where the commit's subject names them.
    pub functions: &'static str,
    /// The subject of the commit that changed it, or subjects of several.
    pub commit: &'static str,
    /// What exercises the rule, and fails if it is broken; empty only for a rule that is not modeled.
    pub validated_by: &'static [Evidence],
    /// Whether and how the model follows it.
    pub modeled: Modeled,
}

/// Per-CPU lists grow and shrink.
pub const ADAPTIVE_LISTS: Rule = Rule {
    area: Area::Placement,
    what: "the high mark of per-CPU lists adapts to demand, and drains to recent frees",
    effect: "lists keep frames that 6.1 drains, and shrink when memory is short",
    since: KernelVersion::new(6, 7),
    functions: "nr_pcp_high, nr_pcp_free, decay_pcp_high",
    commit: "mm: tune PCP high automatically",
    validated_by: &[Recording("boot-files-6.12"), Recording("boot-processes-2cpu-6.12")],
    modeled: Modeled::By(|config| config.adaptive_lists = true),
};

/// Batches of frees hold blocks of more than one frame.
pub const FOLIO_BATCHES: Rule = Rule {
    area: Area::Placement,
    what: "folios of more than one frame are also freed in batches",
    effect: "none by itself: large folios are no longer freed one at a time",
    since: KernelVersion::new(6, 9),
    functions: "free_unref_folios",
    commit: "mm: add free_unref_folios()",
    validated_by: &[Recording("boot-files-6.18"), Recording("boot-network-6.18")],
    modeled: Modeled::ByReaders,
};

/// A free block is on a list of its pageblock's type.
pub const LISTS_BY_TYPE: Rule = Rule {
    area: Area::Placement,
    what: "a free block is always on the free list of its pageblock's type",
    effect: "requests no longer take blocks from other types' pageblocks by way of a wrong list",
    since: KernelVersion::new(6, 10),
    functions: "",
    commit: "mm: page_alloc: fix freelist movement during block conversion",
    validated_by: &[Recording("boot-files-6.12"), Recording("boot-processes-2cpu-6.12")],
    modeled: Modeled::By(|config| config.hygiene = true),
};

/// Pageblocks are movable whose first frame was reserved at boot.
pub const DEFERRED_MOVABLE: Rule = Rule {
    area: Area::Placement,
    what: "pageblocks whose first frame is reserved at boot start as movable",
    effect: "on a small machine, tens of additional pageblocks serve movable requests",
    since: KernelVersion::new(6, 13),
    functions: "init_reserved_page, __init_deferred_page",
    commit: "memblock: uniformly initialize all reserved pages to MIGRATE_MOVABLE",
    validated_by: &[Recording("boot-files-6.18")],
    modeled: Modeled::ByReaders,
};

/// Runs of frames are freed as blocks.
pub const RUNS_AS_BLOCKS: Rule = Rule {
    area: Area::Placement,
    what: "vfree frees runs of adjacent frames as larger blocks",
    effect: "blocks that vmalloc has split are free as a whole at once",
    since: KernelVersion::new(7, 2),
    functions: "free_prepared_contig_range",
    commit: "mm/page_alloc: optimize free_contig_range(), vmalloc: optimize vfree with \
             free_pages_bulk()",
    validated_by: &[Recording("boot-files-7.3"), Recording("boot-network-7.3")],
    modeled: Modeled::ByReaders,
};

/// A watermark holds for a zone as a whole.
pub const ZONE_WATERMARKS: Rule = Rule {
    area: Area::Zones,
    what: "watermarks apply to the zone's free memory as a whole, not to each order",
    effect: "a request for a large block fails only if no such block is free, or memory is short",
    since: KernelVersion::new(4, 4),
    functions: "__zone_watermark_ok",
    commit: "mm, page_alloc: only enforce watermarks for order-0 allocations",
    validated_by: &[KernelLog("3.10-atomic-order-4")],
    modeled: Modeled::FromStart,
};

/// Flags say apart whether a request waits and whether it wakes kswapd.
pub const GFP_RECLAIM: Rule = Rule {
    area: Area::Gfp,
    what: "separate flags allow direct reclaim and wake kswapd, and flag bits move",
    effect: "none: the numbers in older logs stand for other flags",
    since: KernelVersion::new(4, 4),
    functions: "",
    commit: "mm, page_alloc: distinguish between being unable to sleep, unwilling to sleep and \
             avoiding waking kswapd",
    validated_by: &[KernelLog("3.10-oom"), KernelLog("4.4-kernel-order-5")],
    modeled: Modeled::ByReaders,
};

/// kcompactd compacts before it is asked.
pub const PROACTIVE_COMPACTION: Rule = Rule {
    area: Area::Compaction,
    what: "kcompactd compacts proactively (`vm.compaction_proactiveness`)",
    effect: "large blocks become free before they are requested",
    since: KernelVersion::new(5, 9),
    functions: "proactive_compact_node",
    commit: "mm: proactive compaction",
    validated_by: &[PROACTIVE_SCORE],
    modeled: Modeled::FromStart,
};

/// Per-CPU lists are used with interrupts on.
pub const PCP_INTERRUPTS: Rule = Rule {
    area: Area::Placement,
    what: "per-CPU lists are used with interrupts enabled (backported to 6.1.57)",
    effect: "none: a free in an interrupt bypasses a list that is in use",
    since: KernelVersion::new(6, 2),
    functions: "",
    commit: "mm/page_alloc: leave IRQs enabled for per-cpu page allocations",
    validated_by: &[PAST_LISTS],
    modeled: Modeled::ByReaders,
};

/// `vm.defrag_mode` exists.
pub const DEFRAG_MODE: Rule = Rule {
    area: Area::Placement,
    what: "`vm.defrag_mode`, off by default, avoids fallbacks to other types",
    effect: "reclaim and compaction run before a pageblock mixes types",
    since: KernelVersion::new(6, 15),
    functions: "",
    commit: "mm: page_alloc: defrag_mode",
    validated_by: &[SPARED_PAGEBLOCKS],
    // Off by default: `Config::linux_6_15` turns it on.
    modeled: Modeled::By(|_| {}),
};

/// Every rule, oldest change first.
pub const RULES: [Rule; 26] = [
    ZONE_WATERMARKS,
    GFP_RECLAIM,
    Rule {
        area: Area::Gfp,
        what: "allocation failure reports print flag names",
        effect: "none: logs show names beside the number",
        since: KernelVersion::new(4, 6),
        functions: "",
        commit: "mm, page_alloc: print symbolic gfp_flags on allocation failure",
        validated_by: &[KernelLog("4.9-slab-order-3")],
        modeled: Modeled::ByReaders,
    },
    Rule {
        area: Area::Gfp,
        what: "`__GFP_REPEAT` becomes `__GFP_RETRY_MAYFAIL`",
        effect: "large requests can ask for more reclaim before they fail",
        since: KernelVersion::new(4, 13),
        functions: "",
        commit: "mm, tree wide: replace __GFP_REPEAT by __GFP_RETRY_MAYFAIL with more useful \
                 semantic",
        validated_by: &[RENAMED_REPEAT],
        modeled: Modeled::ByReaders,
    },
    PROACTIVE_COMPACTION,
    PCP_INTERRUPTS,
    Rule {
        area: Area::Zones,
        what: "`__GFP_ATOMIC` is removed, and single-frame requests with `__GFP_HIGH` ignore watermark boosts instead",
        effect: "urgent requests that are not atomic get frames that boosted watermarks withheld",
        since: KernelVersion::new(6, 3),
        functions: "zone_watermark_fast",
        commit: "mm: discard __GFP_ATOMIC",
        validated_by: &[FORMER_ATOMIC, URGENT_FRAME],
        modeled: Modeled::By(|config| config.high_ignores_boost = true),
    },
    Rule {
        area: Area::Placement,
        what: "the refill batch of a per-CPU list doubles while the CPU only allocates",
        effect: "a busy CPU holds thousands of frames, whose pageblocks cannot become entirely free until they drain",
        since: KernelVersion::new(6, 7),
        functions: "nr_pcp_alloc",
        commit: "mm, page_alloc: scale the number of pages that are batch allocated",
        validated_by: &[Recording("boot-files-6.12"), Recording("boot-processes-2cpu-6.12")],
        modeled: Modeled::By(|config| config.adaptive_lists = true),
    },
    ADAPTIVE_LISTS,
    Rule {
        area: Area::Placement,
        what: "freeing larger blocks in a row flushes the per-CPU list",
        effect: "blocks that are only freed reach the free lists and merge sooner",
        since: KernelVersion::new(6, 7),
        functions: "free_unref_page_commit",
        commit: "mm, pcp: reduce detecting time of consecutive high order page freeing",
        validated_by: &[FLUSHED_LISTS],
        modeled: Modeled::By(|config| config.adaptive_lists = true),
    },
    Rule {
        area: Area::Zones,
        what: "requests check the high watermark first; below it, per-CPU lists shrink",
        effect: "per-CPU lists hold less while free memory is low",
        since: KernelVersion::new(6, 7),
        functions: "get_page_from_freelist",
        commit: "mm, pcp: decrease PCP high if free pages < high watermark",
        validated_by: &[BELOW_HIGH],
        modeled: Modeled::By(|config| config.adaptive_lists = true),
    },
    Rule {
        area: Area::Zones,
        what: "the high-atomic reserve is 1 % of a zone, rounded up to pageblocks, and none below one pageblock",
        effect: "small zones reserve nothing, larger ones up to a pageblock less",
        since: KernelVersion::new(6, 8),
        functions: "reserve_highatomic_pageblock",
        commit: "mm: page_alloc: correct high atomic reserve calculations, mm: page_alloc: \
                 enforce minimum zone size to do high atomic reserves",
        validated_by: &[ROUNDED_RESERVE],
        modeled: Modeled::By(|config| config.rounded_reserve = true),
    },
    FOLIO_BATCHES,
    Rule {
        area: Area::Compaction,
        what: "compaction migrates large folios whole",
        effect: "compaction also moves folios that it skipped before",
        since: KernelVersion::new(6, 9),
        functions: "",
        commit: "mm/compaction: add support for >0 order folio memory compaction.",
        validated_by: &[],
        modeled: Modeled::NotYet,
    },
    LISTS_BY_TYPE,
    Rule {
        area: Area::Placement,
        what: "per-CPU lists drain a frame to the list of its pageblock's current type",
        effect: "frames follow a pageblock whose type changed meanwhile",
        since: KernelVersion::new(6, 10),
        functions: "free_pcppages_bulk",
        commit: "mm: page_alloc: remove pcppage migratetype caching",
        validated_by: &[Recording("boot-files-6.12"), Recording("boot-processes-2cpu-6.12")],
        modeled: Modeled::By(|config| config.hygiene = true),
    },
    Rule {
        area: Area::Zones,
        what: "watermark checks subtract only the free frames of the high-atomic reserve, not all of it",
        effect: "reserved frames in use no longer trigger reclaim early",
        since: KernelVersion::new(6, 12),
        functions: "__zone_watermark_unusable_free",
        commit: "mm/page_alloc: keep track of free highatomic",
        validated_by: &[FREE_RESERVE],
        modeled: Modeled::By(|config| config.free_reserve = true),
    },
    DEFERRED_MOVABLE,
    Rule {
        area: Area::Placement,
        what: "a fallback either claims a pageblock or takes a single block (backported to 6.12.29 and 6.14.7)",
        effect: "a fallback converts a whole pageblock if it can, and otherwise takes the smallest block, not part of the largest",
        since: KernelVersion::new(6, 15),
        functions: "__rmqueue_claim, __rmqueue_steal",
        commit: "mm: page_alloc: don't steal single pages from biggest buddy",
        validated_by: &[
            PartlyRecorded { recording: "boot-files-6.12", shown: "claims of free pageblocks" },
            SINGLE_BLOCK,
        ],
        modeled: Modeled::By(|config| config.hygiene = true),
    },
    DEFRAG_MODE,
    Rule {
        area: Area::Placement,
        what: "a flush by larger blocks needs a batch plus half the list's minimum high mark of frees in a row, instead of a batch",
        effect: "per-CPU lists keep larger blocks longer, so these merge later",
        since: KernelVersion::new(6, 16),
        functions: "free_frozen_page_commit",
        commit: "mm: pcp: increase pcp->free_count threshold to trigger free_high",
        validated_by: &[FLUSHED_LISTS],
        modeled: Modeled::By(|config| config.late_flush = true),
    },
    Rule {
        area: Area::Placement,
        what: "per-CPU lists drain batch by batch and release the zone lock in between",
        effect: "none by itself: other CPUs can allocate during a drain",
        since: KernelVersion::new(6, 19),
        functions: "free_frozen_page_commit",
        commit: "mm/page_alloc: batch page freeing in free_frozen_page_commit",
        validated_by: &[Recording("boot-files-7.3")],
        modeled: Modeled::By(|config| config.drains_by_batch = true),
    },
    Rule {
        area: Area::Placement,
        what: "vmalloc and kernel stacks request large blocks and split them",
        effect: "unmovable memory is allocated in blocks, not in scattered frames",
        since: KernelVersion::new(6, 19),
        functions: "vm_area_alloc_pages",
        commit: "mm/vmalloc: request large order pages from buddy allocator",
        validated_by: &[Recording("boot-files-7.3"), Recording("boot-network-7.3")],
        modeled: Modeled::ByReaders,
    },
    Rule {
        area: Area::Placement,
        what: "a high-order atomic request does not refill an empty per-CPU list, and extends the high-atomic reserve only if the free lists serve it",
        effect: "per-CPU lists take no blocks that the reserve could use",
        since: KernelVersion::new(7, 1),
        functions: "__rmqueue_pcplist, rmqueue_buddy",
        commit: "mm/page_alloc: don't increase highatomic reserve after pcp alloc",
        validated_by: &[Recording("boot-files-7.3"), Recording("boot-network-7.3")],
        modeled: Modeled::By(|config| config.buddy_reserve = true),
    },
    RUNS_AS_BLOCKS,
    Rule {
        area: Area::Placement,
        what: "high-order atomic requests use the high-atomic reserve on the fast path",
        effect: "these requests split fewer free blocks",
        since: KernelVersion::new(7, 3),
        functions: "alloc_flags_nonblocking",
        commit: "mm/page_alloc: use existing highatomic reserves on the buddy fastpath",
        validated_by: &[Recording("boot-files-7.3"), Recording("boot-network-7.3")],
        modeled: Modeled::By(|config| config.early_reserve = true),
    },
];

/// The releases whose rules recordings of the kernel itself validate, frame by frame.
pub const VALIDATED: [KernelVersion; 4] = [
    KernelVersion::V6_1,
    KernelVersion::new(6, 12),
    KernelVersion::new(6, 18),
    KernelVersion::new(7, 3),
];

impl Config {
    /// The configuration of a release: that of Linux 6.1 with every modeled rule up to `version`.
    pub fn of(version: KernelVersion) -> Config {
        let mut config = Config::default();
        for rule in RULES.iter().filter(|rule| rule.since <= version) {
            if let Modeled::By(apply) = rule.modeled {
                apply(&mut config);
            }
        }
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_ordered_and_those_of_the_model_newer_than_6_1() {
        assert!(RULES.windows(2).all(|pair| pair[0].since <= pair[1].since));
        let applied = |rule: &&Rule| matches!(rule.modeled, Modeled::By(_));
        assert!(RULES.iter().filter(applied).all(|rule| rule.since > KernelVersion::V6_1));
        assert_eq!(Config::of(KernelVersion::V6_1), Config::default());
    }

    #[test]
    fn exactly_the_rules_that_are_not_modeled_have_no_evidence() {
        for rule in &RULES {
            let modeled = !matches!(rule.modeled, Modeled::NotYet);
            assert_eq!(!rule.validated_by.is_empty(), modeled, "{}", rule.what);
        }
    }

    #[test]
    fn every_rule_names_its_commit() {
        for rule in &RULES {
            // A subject has a prefix and is no function's name.
            let subject = rule.commit.split_whitespace().count() > 2;
            assert!(subject, "{}: {:?}", rule.what, rule.commit);
        }
    }

    #[test]
    fn validated_releases_are_in_order_and_fully_modeled() {
        assert!(VALIDATED.windows(2).all(|pair| pair[0] < pair[1]));
        let last = VALIDATED[VALIDATED.len() - 1];
        let in_question = |rule: &&Rule| rule.since <= last && rule.area.decides_frames();
        let missing = |rule: &Rule| matches!(rule.modeled, Modeled::NotYet);
        assert!(!RULES.iter().filter(in_question).any(missing));
    }

    #[test]
    fn defrag_mode_comes_with_the_fallback_of_6_15() {
        let (defrag, release) = (Config::linux_6_15(), Config::of(DEFRAG_MODE.since));
        assert!(defrag.defrag_mode && !release.defrag_mode);
        assert!(defrag.hygiene && release.hygiene && release.adaptive_lists);
    }

    #[test]
    fn a_version_has_the_rules_up_to_it() {
        assert!(Config::of(KernelVersion::new(6, 2)) == Config::default());
        assert!(Config::of(KernelVersion::new(6, 6)).high_ignores_boost);
        let (lists, types) =
            (Config::of(KernelVersion::new(6, 9)), Config::of(KernelVersion::new(6, 10)));
        assert!(lists.adaptive_lists && !lists.hygiene);
        assert!(types.adaptive_lists && types.hygiene && !types.late_flush);
        assert!(!Config::of(KernelVersion::new(6, 18)).drains_by_batch);
        assert!(!Config::of(KernelVersion::new(7, 0)).buddy_reserve);
        let (grows, serves) =
            (Config::of(KernelVersion::new(7, 2)), Config::of(KernelVersion::new(7, 3)));
        assert!(grows.buddy_reserve && !grows.early_reserve);
        assert!(serves.buddy_reserve && serves.early_reserve);
    }
}
