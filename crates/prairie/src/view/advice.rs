//! Advice: what helps against fragmentation, by rules over plain facts.
//!
//! A rule sees [`Facts`], which a survey, a kernel log, or a row of a fleet can fill as far as they
//! know them, and gives one line or nothing. Rules are independent: each names its source, and the
//! order of [`RULES`] is that of reports.

use std::collections::BTreeMap;

use prairie_frames::Order;
use prairie_host::Survey;
use prairie_report::number;

use super::verdict::{self, Verdict};

/// What the rules judge. What is not known is `None` or missing, and applies to no rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// All memory.
    pub memory_bytes: u64,
    /// Populated zones from which ordinary requests are served: all but Movable and Device.
    pub kernel_zones: u64,
    /// `/sys/kernel/mm/transparent_hugepage/enabled`.
    pub thp_enabled: Option<String>,
    /// `/sys/kernel/mm/transparent_hugepage/defrag`.
    pub thp_defrag: Option<String>,
    /// `vm.compaction_proactiveness`, 0 to 100.
    pub compaction_proactiveness: Option<u64>,
    /// `vm.min_free_kbytes`.
    pub min_free_kbytes: Option<u64>,
    /// F_u(9) of the free lists.
    pub unusable_2_mib: Option<f64>,
    /// The least potential contiguity at 2 MiB, as a share of initialized memory.
    pub potential_2_mib: Option<f64>,
    /// Polluted pageblocks, as a share of those that are initialized.
    pub polluted_share: Option<f64>,
    /// Unmovable frames, as a share of initialized memory.
    pub unmovable_share: Option<f64>,
    /// Counters of `/proc/vmstat` since boot.
    pub counters: BTreeMap<String, u64>,
    /// The process with the most anonymous memory on small pages: its name, that memory in bytes,
    /// and its huge-page coverage.
    pub small_pages: Option<(String, u64, f64)>,
    /// The control group with the most inactive anonymous memory: its path and that memory in bytes.
    pub inactive: Option<(String, u64)>,
}

/// One line of advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The setting or command: `thp/defrag`, `prairie heap run`.
    pub subject: &'static str,
    /// What to do with it, and why, in one line.
    pub text: String,
    /// Where the rule comes from.
    pub source: &'static str,
}

/// A rule: its source, and when it speaks.
pub struct Rule {
    /// The setting or command.
    pub subject: &'static str,
    /// Where its threshold comes from.
    pub source: &'static str,
    /// The advice, if the facts ask for it.
    pub applies: fn(&Facts) -> Option<String>,
}

/// The rules, in the order of reports.
pub const RULES: [Rule; 8] = [
    Rule {
        subject: "thp/enabled",
        source: "Documentation/admin-guide/mm/transhuge.rst",
        applies: thp_is_off,
    },
    Rule {
        subject: "thp/defrag",
        source: "Documentation/admin-guide/mm/transhuge.rst; 10 % is Prairie's choice",
        applies: thp_defrag,
    },
    Rule {
        subject: "vm.compaction_proactiveness",
        source: "fragmentation_score_wmark in mm/compaction.c",
        applies: proactiveness,
    },
    Rule {
        subject: "vm.min_free_kbytes",
        source: "set_recommended_min_free_kbytes in mm/khugepaged.c",
        applies: min_free,
    },
    Rule {
        subject: "prairie regions check",
        source: "Contiguitas: confinement helps where little unmovable memory pollutes much",
        applies: regions,
    },
    Rule {
        subject: "prairie sources",
        source: "Contiguitas: few sources hold most of the unmovable memory",
        applies: sources,
    },
    Rule {
        subject: "prairie heap run",
        source: "TEMERAIRE, Figure 13: coverage that programs reach with its page heap",
        applies: heap,
    },
    Rule {
        subject: "prairie offload check",
        source: "TMO: inactive anonymous memory is what offloading can take; 256 MiB and 1 % of \
                 memory are Prairie's choice",
        applies: offload,
    },
];

/// What all rules say.
pub fn advice(facts: &Facts) -> Vec<Advice> {
    let one = |rule: &Rule| {
        let text = (rule.applies)(facts)?;
        Some(Advice { subject: rule.subject, text, source: rule.source })
    };
    RULES.iter().filter_map(one).collect()
}

/// Faults that must have happened before their shares mean anything.
const MIN_FAULTS: u64 = 1000;
/// Memory below which no program and no container is worth a line.
const MIN_BYTES: u64 = 256 << 20;

fn thp_is_off(facts: &Facts) -> Option<String> {
    (facts.thp_enabled.as_deref() == Some("never"))
        .then(|| "set madvise or always; never gives no program a huge page".to_owned())
}

/// Faults that fall back to small pages where they may not compact; faults that compact without success.
fn thp_defrag(facts: &Facts) -> Option<String> {
    const SUGGESTED: &str = "defer+madvise";
    let defrag = facts.thp_defrag.as_deref().filter(|defrag| *defrag != SUGGESTED)?;
    let [stalls, failures] = ["compact_stall", "compact_fail"].map(|name| facts.counter(name));
    if defrag == "always" && stalls >= MIN_FAULTS && failures * 2 > stalls {
        let share = number::percent(failures as f64 / stalls as f64);
        return Some(format!("set {SUGGESTED}; {share} of compacting faults do not succeed"));
    }
    let [fallen, served] = ["thp_fault_fallback", "thp_fault_alloc"].map(|n| facts.counter(n));
    let wanted = fallen + served;
    let share = fallen as f64 / wanted.max(1) as f64;
    (defrag != "always" && wanted >= MIN_FAULTS && share >= 0.1).then(|| {
        format!("set {SUGGESTED}; {} of huge-page faults got small pages", number::percent(share))
    })
}

/// Free memory is fragmented, compaction could undo it, and kcompactd waits for more.
fn proactiveness(facts: &Facts) -> Option<String> {
    let now = facts.compaction_proactiveness?;
    let unusable = facts.unusable_2_mib?;
    let can_help = facts.potential_2_mib.is_none_or(|share| share >= verdict::POTENTIAL.poor);
    if !can_help || verdict::UNUSABLE.verdict(unusable) == Verdict::Good {
        return None;
    }
    const WANTED: u64 = 60;
    if now == 0 {
        return Some("raise 0 to 20, the default; kcompactd never compacts ahead".to_owned());
    }
    // It stops at a score of 100 less this value, and a score is F_u in percent.
    let left = 100_u64.saturating_sub(now).max(5);
    (now < WANTED)
        .then(|| format!("raise {now} to {WANTED}; kcompactd leaves up to {left} % in pieces"))
}

/// Less is kept free than khugepaged recommends to keep movable and unmovable pages apart.
fn min_free(facts: &Facts) -> Option<String> {
    let now = facts.min_free_kbytes?;
    if facts.thp_enabled.as_deref().is_none_or(|enabled| enabled == "never") {
        return None;
    }
    let recommended = recommended_min_free_kbytes(facts.kernel_zones, facts.memory_bytes);
    (now < recommended)
        .then(|| format!("raise {now} to {recommended}, as khugepaged recommends for huge pages"))
}

/// What khugepaged sets: two pageblocks for each zone, and for each pair of types on the per-CPU
/// lists one more, at most 5 % of memory.
pub fn recommended_min_free_kbytes(kernel_zones: u64, memory_bytes: u64) -> u64 {
    const PCP_TYPES: u64 = 3;
    let pageblocks = kernel_zones * (2 + PCP_TYPES * PCP_TYPES);
    (pageblocks * (Order::HUGE.bytes() >> 10)).min((memory_bytes >> 10) / 20)
}

/// Little unmovable memory pollutes many pageblocks.
fn regions(facts: &Facts) -> Option<String> {
    let (polluted, unmovable) = (facts.polluted_share?, facts.unmovable_share?);
    let scattered = polluted > verdict::POLLUTED.good && unmovable * 2.0 < polluted;
    scattered.then(|| {
        format!(
            "{} unmovable memory pollutes {} of pageblocks",
            number::percent(unmovable),
            number::percent(polluted)
        )
    })
}

/// Much memory is unmovable, wherever it is.
fn sources(facts: &Facts) -> Option<String> {
    let unmovable = facts.unmovable_share.filter(|share| *share > verdict::POLLUTED.good)?;
    Some(format!("{} is unmovable; a recording shows who allocates", number::percent(unmovable)))
}

/// A large program on small pages.
fn heap(facts: &Facts) -> Option<String> {
    let (name, bytes, coverage) = facts.small_pages.as_ref()?;
    let large = *bytes >= MIN_BYTES && verdict::COVERAGE.verdict(*coverage) != Verdict::Good;
    large.then(|| {
        let short: String = name.chars().take(15).collect();
        format!("{short} has {} of anonymous memory on small pages", number::bytes(*bytes))
    })
}

/// A container whose memory lies idle.
fn offload(facts: &Facts) -> Option<String> {
    let (path, bytes) = facts.inactive.as_ref()?;
    let large = *bytes >= MIN_BYTES.max(facts.memory_bytes / 100);
    large.then(|| format!("{} lies inactive in {path}", number::bytes(*bytes)))
}

impl Facts {
    fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }

    /// What a survey knows.
    pub fn of(survey: &Survey) -> Facts {
        let setting = |path: &str| {
            let found = survey.settings.iter().find(|setting| setting.path == path);
            found.map(|setting| setting.value.clone())
        };
        let number = |path: &str| setting(path)?.parse().ok();
        const THP: &str = "/sys/kernel/mm/transparent_hugepage";
        let frames = survey.frames.as_ref();
        let initialized = frames.map(|frames| frames.initialized);
        let unusable = survey.free_lists.as_ref().and_then(|lists| {
            let found = lists.indices.iter().find(|found| found.order == Order::HUGE.get());
            found.map(|found| found.unusable_free_space_index)
        });
        let is_kernel = |zone: &&prairie_host::survey::ZoneSurvey| {
            let has_memory = zone.extent.as_ref().is_some_and(|extent| extent.managed_frames > 0);
            has_memory && !matches!(zone.id.kind.name(), "Movable" | "Device")
        };
        let small_pages = survey.huge_pages.processes.iter().map(|process| {
            let small = process.anonymous_bytes.saturating_sub(process.anonymous_huge_bytes);
            (process.name.clone(), small, process.anonymous_coverage.unwrap_or(0.0))
        });
        let inactive =
            survey.cgroups.iter().map(|group| (group.path.clone(), group.inactive_anonymous_bytes));
        Facts {
            memory_bytes: survey.memory_bytes(),
            kernel_zones: survey.zones.iter().filter(is_kernel).count() as u64,
            thp_enabled: setting(&format!("{THP}/enabled")),
            thp_defrag: setting(&format!("{THP}/defrag")),
            compaction_proactiveness: number("/proc/sys/vm/compaction_proactiveness"),
            min_free_kbytes: number("/proc/sys/vm/min_free_kbytes"),
            unusable_2_mib: unusable,
            potential_2_mib: initialized.map(|found| found.potential_2_mib_min),
            polluted_share: initialized.map(|found| found.polluted_share),
            unmovable_share: frames.map(|frames| {
                frames.by_mobility.unmovable as f64 / frames.initialized.frames.max(1) as f64
            }),
            counters: survey.counters.iter().map(|c| (c.name.to_owned(), c.value)).collect(),
            small_pages: small_pages.max_by_key(|found| found.1),
            inactive: inactive.max_by_key(|found| found.1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    fn subjects(facts: &Facts) -> Vec<&'static str> {
        advice(facts).iter().map(|advice| advice.subject).collect()
    }

    #[test]
    fn nothing_known_nothing_said() {
        assert_eq!(advice(&Facts::default()), []);
    }

    #[test]
    fn the_recommended_reserve_is_the_kernels() {
        // dmesg of x86-64 machines with three zones: "raising min_free_kbytes ... to 67584".
        assert_eq!(recommended_min_free_kbytes(3, 24 << 30), 67584);
        // 5 % of 512 MiB.
        assert_eq!(recommended_min_free_kbytes(3, 512 << 20), 26214);
    }

    /// Each rule on one host that needs it and one that does not.
    #[test]
    fn each_rule_speaks_where_it_helps() {
        let thp = |enabled: &str, defrag: &str| Facts {
            thp_enabled: Some(enabled.to_owned()),
            thp_defrag: Some(defrag.to_owned()),
            ..Facts::default()
        };
        assert_eq!(subjects(&thp("never", "madvise")), ["thp/enabled"]);
        assert_eq!(subjects(&thp("always", "madvise")), [""; 0]);

        let fallbacks = counters(&[("thp_fault_fallback", 300), ("thp_fault_alloc", 700)]);
        let facts = Facts { counters: fallbacks.clone(), ..thp("always", "madvise") };
        assert_eq!(subjects(&facts), ["thp/defrag"]);
        assert!(advice(&facts)[0].text.contains("30.0"), "{:?}", advice(&facts));
        let facts = Facts { counters: fallbacks, ..thp("always", "defer+madvise") };
        assert_eq!(subjects(&facts), [""; 0]);
        let in_vain = counters(&[("compact_stall", 1000), ("compact_fail", 900)]);
        assert_eq!(
            subjects(&Facts { counters: in_vain, ..thp("always", "always") }),
            ["thp/defrag"]
        );

        let fragmented = |proactiveness, potential| Facts {
            compaction_proactiveness: Some(proactiveness),
            unusable_2_mib: Some(0.7),
            potential_2_mib: Some(potential),
            ..Facts::default()
        };
        assert_eq!(subjects(&fragmented(20, 0.9)), ["vm.compaction_proactiveness"]);
        assert_eq!(subjects(&fragmented(0, 0.9)), ["vm.compaction_proactiveness"]);
        // It acts already; compaction cannot help.
        assert_eq!(subjects(&fragmented(60, 0.9)), [""; 0]);
        assert_eq!(subjects(&fragmented(20, 0.3)), [""; 0]);

        let reserve = |kbytes| Facts {
            min_free_kbytes: Some(kbytes),
            kernel_zones: 3,
            memory_bytes: 24 << 30,
            ..thp("madvise", "madvise")
        };
        assert_eq!(subjects(&reserve(45056)), ["vm.min_free_kbytes"]);
        assert_eq!(subjects(&reserve(67584)), [""; 0]);

        let polluted = |polluted, unmovable| Facts {
            polluted_share: Some(polluted),
            unmovable_share: Some(unmovable),
            ..Facts::default()
        };
        assert_eq!(subjects(&polluted(0.34, 0.05)), ["prairie regions check"]);
        assert_eq!(subjects(&polluted(0.34, 0.3)), ["prairie sources"]);
        assert_eq!(subjects(&polluted(0.1, 0.05)), [""; 0]);

        let process = |bytes, coverage| Facts {
            small_pages: Some(("redis-server".to_owned(), bytes, coverage)),
            ..Facts::default()
        };
        assert_eq!(subjects(&process(1 << 30, 0.06)), ["prairie heap run"]);
        assert_eq!(subjects(&process(1 << 30, 0.9)), [""; 0]);
        assert_eq!(subjects(&process(1 << 20, 0.0)), [""; 0]);

        let container = |bytes| Facts {
            memory_bytes: 64 << 30,
            inactive: Some(("system.slice/web.service".to_owned(), bytes)),
            ..Facts::default()
        };
        assert_eq!(subjects(&container(1 << 30)), ["prairie offload check"]);
        assert_eq!(subjects(&container(300 << 20)), [""; 0]);
    }

    #[test]
    fn every_rule_has_a_source() {
        for rule in RULES {
            assert!(!rule.source.is_empty() && rule.subject.len() <= 27, "{}", rule.subject);
        }
    }
}
