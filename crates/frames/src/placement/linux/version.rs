//! What changed in Linux's page allocator, version by version.
//!
//! A kernel version is data: each rule that differs from Linux 6.1 is one row of [`RULES`], and
//! [`Config::of`] applies the rows up to a version.

use core::fmt;
use core::str::FromStr;

use super::Config;

/// A release of Linux, without the stable update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The first number.
    pub major: u8,
    /// The second number.
    pub minor: u8,
}

impl Version {
    /// The release that the model reproduces frame by frame.
    pub const V6_1: Version = Version::new(6, 1);
    /// The release that introduced `vm.defrag_mode`.
    pub const V6_15: Version = Version::new(6, 15);

    /// The release `major.minor`.
    pub const fn new(major: u8, minor: u8) -> Version {
        Version { major, minor }
    }

    /// The release that a kernel reports of itself (`uname -r`): `6.12.95+deb13-amd64` is 6.12.
    pub fn of_kernel(release: &str) -> Option<Version> {
        let (major, rest) = release.trim().split_once('.')?;
        let minor = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        Some(Version { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for Version {
    type Err = core::num::ParseIntError;

    /// Reads `6.1`.
    fn from_str(text: &str) -> Result<Version, Self::Err> {
        let (major, minor) = text.split_once('.').unwrap_or((text, ""));
        Ok(Version { major: major.parse()?, minor: minor.parse()? })
    }
}

/// How far a rule is part of the model.
#[derive(Clone, Copy)]
pub enum Modeled {
    /// The rule is one or more fields of [`Config`].
    By(fn(&mut Config)),
    /// The rule is known and not modeled: from its version on the model is not exact.
    NotYet,
}

/// One rule that differs from Linux 6.1.
#[derive(Clone, Copy)]
pub struct Rule {
    /// What changed, in one sentence.
    pub what: &'static str,
    /// What it means for contiguous memory, in one sentence.
    pub effect: &'static str,
    /// The first release with the change.
    pub since: Version,
    /// The kernel function, or the subject of the commit that changed it.
    pub source: &'static str,
    /// The recording that validates the rule; empty where there is none.
    pub validated_by: &'static str,
    /// Whether and how the model follows it.
    pub modeled: Modeled,
}

/// The rules that decide which frame a request gets, oldest change first.
pub const RULES: [Rule; 16] = [
    Rule {
        what: "refills of per-CPU lists double while nothing is freed",
        effect: "a busy CPU holds thousands of frames, and until they drain their pageblocks do not become whole",
        since: Version::new(6, 7),
        source: "nr_pcp_alloc (mm, page_alloc: scale the number of pages that are batch allocated)",
        validated_by: "boot-files-6.12, boot-processes-2cpu-6.12",
        modeled: Modeled::By(|config| config.adaptive_lists = true),
    },
    Rule {
        what: "the high mark of per-CPU lists moves, and drains follow the last frees",
        effect: "lists keep frames that 6.1 drained; they shrink where memory is short",
        since: Version::new(6, 7),
        source: "nr_pcp_high, nr_pcp_free, decay_pcp_high (mm: tune PCP high automatically)",
        validated_by: "boot-files-6.12, boot-processes-2cpu-6.12",
        modeled: Modeled::By(|config| config.adaptive_lists = true),
    },
    Rule {
        what: "larger blocks freed in a row empty a per-CPU list",
        effect: "blocks that are only freed reach the free lists, and merge, sooner",
        since: Version::new(6, 7),
        source: "free_unref_page_commit (mm, pcp: reduce detecting time of consecutive high order \
                 page freeing)",
        validated_by: "",
        modeled: Modeled::By(|config| config.adaptive_lists = true),
    },
    Rule {
        what: "a request is first tried against the high watermark",
        effect: "lists hold less while free memory is low",
        since: Version::new(6, 7),
        source: "get_page_from_freelist (mm, pcp: decrease PCP high if free pages < high watermark)",
        validated_by: "",
        modeled: Modeled::By(|config| config.adaptive_lists = true),
    },
    Rule {
        what: "the atomic reserve is a hundredth of a zone in whole pageblocks",
        effect: "small zones reserve nothing",
        since: Version::new(6, 8),
        source: "reserve_highatomic_pageblock",
        validated_by: "",
        modeled: Modeled::By(|config| config.rounded_reserve = true),
    },
    Rule {
        what: "a batch of frees may contain blocks of more than one frame",
        effect: "large folios return whole, not frame by frame",
        since: Version::new(6, 9),
        source: "free_unref_folios (mm: add free_unref_folios())",
        validated_by: "boot-files-6.18, boot-network-6.18",
        // A replay learns from the record which frees are one batch.
        modeled: Modeled::By(|_| {}),
    },
    Rule {
        what: "a free block is only on a list of its pageblock's type",
        effect: "no stray blocks on foreign lists: pageblocks stay of one type",
        since: Version::new(6, 10),
        source: "mm: page_alloc: fix freelist movement during block conversion",
        validated_by: "boot-files-6.12, boot-processes-2cpu-6.12",
        modeled: Modeled::By(|config| config.hygiene = true),
    },
    Rule {
        what: "a per-CPU list drains a frame to the list of its pageblock's type",
        effect: "a frame follows a pageblock that changed its type meanwhile",
        since: Version::new(6, 10),
        source: "free_pcppages_bulk (mm: page_alloc: remove pcppage migratetype caching)",
        validated_by: "boot-files-6.12, boot-processes-2cpu-6.12",
        modeled: Modeled::By(|config| config.hygiene = true),
    },
    Rule {
        what: "a fallback either claims a pageblock or takes a single block (also in 6.12.29)",
        effect: "a fallback converts a whole pageblock where it can and takes the smallest block where it cannot",
        since: Version::new(6, 12),
        source: "__rmqueue_claim, __rmqueue_steal (mm: page_alloc: don't steal single pages from \
                 biggest buddy)",
        validated_by: "boot-files-6.12 (claims of free pageblocks)",
        modeled: Modeled::By(|config| config.hygiene = true),
    },
    Rule {
        what: "watermarks leave out the free frames of the atomic reserve alone",
        effect: "used frames of the reserve no longer start reclaim",
        since: Version::new(6, 12),
        source: "__zone_watermark_unusable_free (nr_free_highatomic)",
        validated_by: "",
        modeled: Modeled::By(|config| config.free_reserve = true),
    },
    Rule {
        what: "pageblocks whose first frame was reserved at boot are movable",
        effect: "tens of pageblocks of a small machine are open to movable memory",
        since: Version::new(6, 15),
        source: "__init_deferred_page",
        validated_by: "boot-files-6.18",
        // A replay takes the types of pageblocks from the record.
        modeled: Modeled::By(|_| {}),
    },
    Rule {
        what: "larger blocks empty a per-CPU list from half of its least high mark on",
        effect: "lists keep larger blocks longer, and these merge later",
        since: Version::new(6, 16),
        source: "free_frozen_page_commit (free_high)",
        validated_by: "",
        modeled: Modeled::By(|config| config.late_flush = true),
    },
    Rule {
        what: "drains go batch by batch and release the lock in between",
        effect: "none by itself: others allocate between the parts of a drain",
        since: Version::new(6, 19),
        source: "free_frozen_page_commit (to_free_batched)",
        validated_by: "boot-files-7.3",
        modeled: Modeled::By(|config| config.drains_by_batch = true),
    },
    Rule {
        what: "vmalloc and kernel stacks ask for large blocks and split them",
        effect: "unmovable memory comes in blocks, not in scattered frames",
        since: Version::new(7, 0),
        source: "vm_area_alloc_pages",
        validated_by: "boot-files-7.3, boot-network-7.3",
        // The demand changes, and with it the record; the rules of placement do not.
        modeled: Modeled::By(|_| {}),
    },
    Rule {
        what: "the atomic reserve serves the fast path, one block at a time",
        effect: "atomic requests for larger blocks split fewer blocks",
        since: Version::new(7, 1),
        source: "alloc_flags_nonblocking, __rmqueue_pcplist",
        validated_by: "boot-files-7.3, boot-network-7.3",
        modeled: Modeled::By(|config| config.early_reserve = true),
    },
    Rule {
        what: "vfree returns runs of frames as larger blocks",
        effect: "what vmalloc took as a block returns as one and merges at once",
        since: Version::new(7, 1),
        source: "free_prepared_contig_range (Optimize free_contig_range)",
        validated_by: "boot-files-7.3, boot-network-7.3",
        modeled: Modeled::By(|_| {}),
    },
];

/// The releases whose rules recordings of the kernel itself validate, frame by frame.
pub const VALIDATED: [Version; 4] =
    [Version::V6_1, Version::new(6, 12), Version::new(6, 18), Version::new(7, 3)];

impl Config {
    /// The configuration of a release: that of Linux 6.1 with every modeled rule up to `version`.
    pub fn of(version: Version) -> Config {
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
    fn rules_are_ordered_and_newer_than_6_1() {
        assert!(RULES.windows(2).all(|pair| pair[0].since <= pair[1].since));
        assert!(RULES.iter().all(|rule| rule.since > Version::V6_1));
        assert_eq!(Config::of(Version::V6_1), Config::default());
    }

    #[test]
    fn validated_releases_are_in_order_and_fully_modeled() {
        assert!(VALIDATED.windows(2).all(|pair| pair[0] < pair[1]));
        let last = VALIDATED[VALIDATED.len() - 1];
        let modeled = |rule: &Rule| matches!(rule.modeled, Modeled::By(_));
        assert!(RULES.iter().filter(|rule| rule.since <= last).all(modeled));
    }

    #[test]
    fn defrag_mode_comes_with_the_fallback_of_6_15() {
        let (defrag, release) = (Config::linux_6_15(), Config::of(Version::V6_15));
        assert!(defrag.defrag_mode && !release.defrag_mode);
        assert!(defrag.hygiene && release.hygiene && release.adaptive_lists);
    }

    #[test]
    fn a_version_has_the_rules_up_to_it() {
        assert!(Config::of(Version::new(6, 6)) == Config::default());
        let (lists, types) = (Config::of(Version::new(6, 9)), Config::of(Version::new(6, 10)));
        assert!(lists.adaptive_lists && !lists.hygiene);
        assert!(types.adaptive_lists && types.hygiene && !types.late_flush);
        assert!(!Config::of(Version::new(6, 18)).drains_by_batch);
        assert!(Config::of(Version::new(7, 3)).early_reserve);
    }

    #[test]
    fn versions_are_read_as_they_are_written() {
        for text in ["6.1", "6.12", "7.3"] {
            assert_eq!(text.parse::<Version>().unwrap().to_string(), text);
        }
        for wrong in ["", "6", "6.", ".1", "6.x", "6.1.2"] {
            assert!(wrong.parse::<Version>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn kernels_report_their_release() {
        for (text, version) in [
            ("6.1.0-56-amd64", Some(Version::V6_1)),
            ("6.12.95+deb12-amd64\n", Some(Version::new(6, 12))),
            ("7.3-rc1", Some(Version::new(7, 3))),
            ("six", None),
            ("6.x", None),
        ] {
            assert_eq!(Version::of_kernel(text), version, "{text}");
        }
    }

    extern crate std;
    use std::string::ToString;
}
