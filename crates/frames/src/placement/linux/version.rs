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
pub const RULES: [Rule; 9] = [
    Rule {
        what: "per-CPU lists change their size: refills grow, drains follow the last frees",
        since: Version::new(6, 7),
        source: "nr_pcp_alloc, nr_pcp_high, nr_pcp_free (PCP auto-tuning)",
        validated_by: "",
        modeled: Modeled::NotYet,
    },
    Rule {
        what: "a request is first tried against the high watermark",
        since: Version::new(6, 7),
        source: "get_page_from_freelist (ZONE_BELOW_HIGH)",
        validated_by: "",
        modeled: Modeled::NotYet,
    },
    Rule {
        what: "a batch of frees may contain blocks of more than one frame",
        since: Version::new(6, 9),
        source: "free_unref_folios",
        validated_by: "",
        modeled: Modeled::NotYet,
    },
    Rule {
        what: "a free block is only on a list of its pageblock's type",
        since: Version::new(6, 10),
        source: "mm: page_alloc: fix freelist movement during block conversion",
        validated_by: "",
        modeled: Modeled::By(|config| config.hygiene = true),
    },
    Rule {
        what: "a per-CPU list drains a frame to the list of its pageblock's type",
        since: Version::new(6, 10),
        source: "free_pcppages_bulk (remove pcppage migratetype caching)",
        validated_by: "",
        modeled: Modeled::NotYet,
    },
    Rule {
        what: "a fallback either claims a pageblock or takes a single block",
        since: Version::new(6, 15),
        source: "__rmqueue_claim, __rmqueue_steal",
        validated_by: "",
        modeled: Modeled::By(|config| config.hygiene = true),
    },
    Rule {
        what: "pageblocks whose first frame was reserved at boot are movable",
        since: Version::new(6, 15),
        source: "__init_deferred_page",
        validated_by: "",
        modeled: Modeled::NotYet,
    },
    Rule {
        what: "vmalloc and kernel stacks ask for large blocks and split them",
        since: Version::new(7, 0),
        source: "vm_area_alloc_pages",
        validated_by: "",
        modeled: Modeled::NotYet,
    },
    Rule {
        what: "the atomic reserve serves the fast path, one block at a time",
        since: Version::new(7, 1),
        source: "alloc_flags_nonblocking, __rmqueue_pcplist",
        validated_by: "",
        modeled: Modeled::NotYet,
    },
];

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
    fn defrag_mode_is_6_15_with_one_switch() {
        let config = Config { defrag_mode: true, ..Config::of(Version::V6_15) };
        assert_eq!(config, Config::linux_6_15());
        assert!(Config::of(Version::new(6, 9)) == Config::default());
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

    extern crate std;
    use std::string::ToString;
}
