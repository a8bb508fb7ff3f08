//! Verdicts on a measure in one word, by a table of thresholds whose sources are named.
//!
//! `docs/src/concepts/verdicts.md` shows the same table; a test compares them.

/// A verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing to do.
    Good,
    /// Worth watching.
    Fair,
    /// Worth acting on.
    Poor,
    /// Unknown frames leave more than one verdict open.
    Unclear,
    /// Not measured.
    Unknown,
}

impl Verdict {
    /// The verdict in one word.
    pub const fn word(self) -> &'static str {
        match self {
            Verdict::Good => "good",
            Verdict::Fair => "fair",
            Verdict::Poor => "poor",
            Verdict::Unclear => "unclear",
            Verdict::Unknown => "unknown",
        }
    }
}

/// The direction in which a measure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Smaller values.
    Lower,
    /// Larger values.
    Higher,
}

impl Better {
    /// The direction in one word.
    pub const fn word(self) -> &'static str {
        match self {
            Better::Lower => "lower",
            Better::Higher => "higher",
        }
    }
}

/// A measure from 0 to 1, and where its verdicts change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// What is measured, as a continuation of "17 % ...".
    pub label: &'static str,
    /// Which direction is better.
    pub better: Better,
    /// Good from here on, in the better direction; the threshold itself is good.
    pub good: f64,
    /// Poor from here on, in the other direction; the threshold itself is poor.
    pub poor: f64,
    /// Where the threshold for good comes from.
    pub good_source: &'static str,
    /// Where the threshold for poor comes from.
    pub poor_source: &'static str,
}

/// F_u(9) of the free lists.
pub const UNUSABLE: Scale = Scale {
    label: "free memory in pieces smaller than 2 MiB",
    better: Better::Lower,
    good: 0.5,
    poor: 0.8,
    good_source: "Prairie's choice: half of free memory can serve a huge page at once",
    poor_source: "`fragmentation_score_wmark` in `mm/compaction.c`: the score down to which \
                  kcompactd compacts proactively at the default `compaction_proactiveness` of 20",
};

/// Polluted pageblocks of those that are initialized.
pub const POLLUTED: Scale = Scale {
    label: "pageblocks polluted by unmovable frames",
    better: Better::Lower,
    good: 0.2,
    poor: 0.5,
    good_source: "what a kernel that confines unmovable memory sets aside: `initial_percent` of \
                  `prairie regions`",
    poor_source: "Contiguitas, Potential Memory Contiguity: under Linux the blocks with unmovable \
                  memory are \"less than half\" of production servers",
};

/// Potential contiguity at 2 MiB of initialized memory.
pub const POTENTIAL: Scale = Scale {
    label: "potential contiguity at 2 MiB",
    better: Better::Higher,
    good: 0.8,
    poor: 0.5,
    good_source: "100 % less the threshold of polluted pageblocks",
    poor_source: "100 % less the threshold of polluted pageblocks",
};

/// Anonymous memory on huge pages.
pub const COVERAGE: Scale = Scale {
    label: "anonymous memory on huge pages",
    better: Better::Higher,
    good: 0.67,
    poor: 0.23,
    good_source: "TEMERAIRE, Figure 13: the fleet's programs that keep their memory, with the \
                  hugepage-aware page heap (67.3 %)",
    poor_source: "TEMERAIRE, Figure 13: its programs that release memory to the system, with the \
                  same page heap (23 %)",
};

/// Every scale, in the order of the first screen.
pub const SCALES: [Scale; 4] = [UNUSABLE, POLLUTED, POTENTIAL, COVERAGE];

impl Scale {
    /// The verdict on one value.
    pub fn verdict(&self, value: f64) -> Verdict {
        let at_least_as_good = |limit: f64| match self.better {
            Better::Lower => value <= limit,
            Better::Higher => value >= limit,
        };
        match () {
            () if !value.is_finite() => Verdict::Unknown,
            () if at_least_as_good(self.good) => Verdict::Good,
            () if at_least_as_good(self.poor) && value != self.poor => Verdict::Fair,
            () => Verdict::Poor,
        }
    }

    /// The verdict on a value that is only known to lie in a range.
    pub fn verdict_on(&self, least: f64, most: f64) -> Verdict {
        let (one, other) = (self.verdict(least), self.verdict(most));
        if one == other { one } else { Verdict::Unclear }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_belong_to_their_own_verdict() {
        for (scale, value, verdict) in [
            (UNUSABLE, 0.0, Verdict::Good),
            (UNUSABLE, 0.5, Verdict::Good),
            (UNUSABLE, 0.51, Verdict::Fair),
            (UNUSABLE, 0.8, Verdict::Poor),
            (UNUSABLE, 1.0, Verdict::Poor),
            (COVERAGE, 1.0, Verdict::Good),
            (COVERAGE, 0.67, Verdict::Good),
            (COVERAGE, 0.3, Verdict::Fair),
            (COVERAGE, 0.23, Verdict::Poor),
            (COVERAGE, f64::NAN, Verdict::Unknown),
        ] {
            assert_eq!(scale.verdict(value), verdict, "{} {value}", scale.label);
        }
    }

    #[test]
    fn a_range_over_a_threshold_is_unclear() {
        assert_eq!(POTENTIAL.verdict_on(0.9, 0.95), Verdict::Good);
        assert_eq!(POTENTIAL.verdict_on(0.1, 0.95), Verdict::Unclear);
    }
}
