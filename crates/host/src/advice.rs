//! What helps against fragmentation and lack of memory: the rules of every command that advises.
//!
//! A command describes the machine as a [`Situation`], with whatever it knows, and [`advise`]
//! returns what helps, the most effective first. A rule whose facts are not known is silent. No
//! rule acts; each names a setting or a command, the reason, and its source (`rules.rs`).

mod rules;
mod situation;

use std::collections::BTreeMap;

use prairie_frames::KernelVersion;
use serde::Serialize;

use crate::kernel_log::Verdict;

use self::rules::RULES;

/// What a command knows of a machine. `None`, `false`, and nothing mean that it does not know.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Situation {
    /// The kernel.
    pub kernel: Option<KernelVersion>,
    /// A request that failed or waited.
    pub request: Option<AskedFor>,
    /// The share of time that the worst process waited for direct compaction, 0 to 1.
    pub compaction_stall_share: Option<f64>,
    /// The share of time that the worst process waited for direct reclaim, 0 to 1.
    pub reclaim_stall_share: Option<f64>,
    /// A cgroup is at its limit.
    pub cgroup_at_limit: bool,
    /// F_u(9) of the free lists, 0 to 1: the share that cannot serve a huge page.
    pub unusable_free_space_huge: Option<f64>,
    /// The least potential contiguity at 2 MiB, as a share of initialized memory.
    pub potential_2_mib: Option<f64>,
    /// Polluted pageblocks, as a share of those that are initialized.
    pub polluted_share: Option<f64>,
    /// Unmovable frames, as a share of initialized memory.
    pub unmovable_share: Option<f64>,
    /// The process with the most anonymous memory on small pages.
    pub small_pages: Option<SmallPages>,
    /// The cgroup with the most inactive anonymous memory: its path and that memory in bytes.
    pub inactive: Option<(String, u64)>,
    /// Counters of `/proc/vmstat` since boot.
    pub counters: BTreeMap<String, u64>,
    /// `/sys/kernel/mm/transparent_hugepage/enabled`.
    pub thp_enabled: Option<String>,
    /// `/sys/kernel/mm/transparent_hugepage/defrag`.
    pub thp_defrag: Option<String>,
    /// `vm.compaction_proactiveness`, 0 to 100.
    pub compaction_proactiveness: Option<u64>,
    /// `vm.defrag_mode`.
    pub defrag_mode: Option<u64>,
    /// `vm.min_free_kbytes`.
    pub min_free_kib: Option<u64>,
    /// `vm.watermark_scale_factor`.
    pub watermark_scale_factor: Option<u64>,
    /// All memory in KiB.
    pub memory_kib: Option<u64>,
    /// Populated zones that serve ordinary requests: all but Movable and Device.
    pub kernel_zones: Option<u64>,
    /// All swap in KiB.
    pub swap_total_kib: Option<u64>,
}

/// A process with anonymous memory on small pages.
#[derive(Clone, Debug, PartialEq)]
pub struct SmallPages {
    /// Its name.
    pub process: String,
    /// Anonymous memory on small pages.
    pub bytes: u64,
    /// The share of its anonymous memory on huge pages, 0 to 1.
    pub coverage: f64,
}

/// A request that failed or waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedFor {
    /// 2^order pages.
    pub order: u32,
    /// Whether it may wait for reclaim and compaction.
    pub can_wait: bool,
    /// Whether only the first 16 MiB or 4 GiB will do.
    pub low_zone: bool,
    /// Whether it is for a huge page of a program.
    pub huge_page: bool,
    /// Why it failed.
    pub verdict: Verdict,
}

/// What helps, by name: stable, for programs that read JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Remedy {
    /// Raise the cgroup's limit, or reclaim from it in time.
    CgroupLimit,
    /// Nothing has to change.
    Tolerate,
    /// Make the request smaller: `kvmalloc`, smaller rings or frames.
    SmallerRequest,
    /// Let a driver use memory above 4 GiB.
    LowerZone,
    /// `transparent_hugepage/enabled`.
    ThpEnabled,
    /// `transparent_hugepage/defrag`.
    ThpDefrag,
    /// `vm.defrag_mode` (Linux 6.15).
    DefragMode,
    /// `vm.compaction_proactiveness` (Linux 5.9).
    Proactive,
    /// `vm.min_free_kbytes`.
    MinFree,
    /// `vm.watermark_scale_factor`.
    ScaleFactor,
    /// Confine unmovable memory: `prairie regions`.
    Regions,
    /// Find who allocates unmovable memory: `prairie sources`.
    Sources,
    /// Preload the hugepage-aware malloc: `prairie heap run`.
    Heap,
    /// Move cold memory out: `prairie offload`.
    Offload,
    /// Configure swap or zswap.
    Swap,
}

/// One piece of advice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Advice {
    /// What it is about, by name.
    pub remedy: Remedy,
    /// The setting, command, or part of the system: `thp/defrag`, `prairie heap run`.
    pub subject: &'static str,
    /// What to do with it.
    pub action: String,
    /// Why, with the numbers that led to it.
    pub reason: String,
    /// Where the rule comes from.
    pub source: &'static str,
}

/// What helps, the most effective first; nothing where nothing has to change.
pub fn advise(situation: &Situation) -> Vec<Advice> {
    let one = |rule: &rules::Rule| {
        let (action, reason) = (rule.applies)(situation)?;
        let rules::Rule { remedy, subject, source, .. } = *rule;
        Some(Advice { remedy, subject, action, reason, source })
    };
    RULES.iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(order: u32, can_wait: bool, verdict: Verdict) -> Situation {
        let request = AskedFor { order, can_wait, low_zone: false, huge_page: false, verdict };
        Situation { request: Some(request), ..Situation::default() }
    }

    fn remedies(situation: &Situation) -> Vec<Remedy> {
        advise(situation).into_iter().map(|advice| advice.remedy).collect()
    }

    fn counters(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn nothing_known_nothing_advised() {
        assert_eq!(advise(&Situation::default()), []);
    }

    #[test]
    fn every_rule_has_a_source_and_a_short_subject() {
        for rule in RULES {
            assert!(!rule.source.is_empty() && rule.subject.len() <= 27, "{}", rule.subject);
        }
    }

    #[test]
    fn fragmentation_and_lack_of_memory_have_different_remedies() {
        let fragmented = Situation {
            kernel: Some(KernelVersion::new(6, 1)),
            ..request(4, true, Verdict::Fragmentation)
        };
        assert_eq!(remedies(&fragmented), [Remedy::SmallerRequest, Remedy::Proactive]);
        let newer = Situation { kernel: Some(KernelVersion::new(6, 18)), ..fragmented.clone() };
        assert!(remedies(&newer).contains(&Remedy::DefragMode));
        let low = Situation { swap_total_kib: Some(0), ..request(0, true, Verdict::LowMemory) };
        assert_eq!(remedies(&low), [Remedy::Swap]);
        let low = Situation { swap_total_kib: Some(1), ..low };
        assert_eq!(remedies(&low), [Remedy::Offload]);
    }

    #[test]
    fn requests_that_cannot_wait_need_a_reserve() {
        let atomic = Situation {
            memory_kib: Some(8 << 20),
            min_free_kib: Some(67584),
            ..request(0, false, Verdict::LowMemory)
        };
        let advice = advise(&atomic);
        let min_free = advice.iter().find(|advice| advice.remedy == Remedy::MinFree).unwrap();
        assert!(min_free.action.contains("83886"), "{}", min_free.action);
        let raised = Situation { min_free_kib: Some(100_000), ..atomic };
        assert!(!remedies(&raised).contains(&Remedy::MinFree));
    }

    #[test]
    fn limits_and_stalls() {
        let limit = Situation { cgroup_at_limit: true, ..request(0, true, Verdict::CgroupLimit) };
        assert_eq!(remedies(&limit), [Remedy::CgroupLimit]);
        let stalled = |defrag: &str| Situation {
            kernel: Some(KernelVersion::new(6, 1)),
            compaction_stall_share: Some(0.2),
            thp_defrag: Some(defrag.to_owned()),
            ..Situation::default()
        };
        for (defrag, better) in [("always", "defer+madvise"), ("madvise", "defer")] {
            let advice = advise(&stalled(defrag));
            assert_eq!(remedies(&stalled(defrag)), [Remedy::ThpDefrag, Remedy::Proactive]);
            assert_eq!(advice[0].action, format!("set {better}"));
        }
        assert_eq!(remedies(&stalled("defer")), [Remedy::Proactive]);
    }

    /// Each rule on the state of one host that needs it and of one that does not.
    #[test]
    fn each_rule_advises_where_it_helps() {
        let thp = |enabled: &str, defrag: &str| Situation {
            thp_enabled: Some(enabled.to_owned()),
            thp_defrag: Some(defrag.to_owned()),
            ..Situation::default()
        };
        assert_eq!(remedies(&thp("never", "madvise")), [Remedy::ThpEnabled]);
        assert_eq!(remedies(&thp("always", "madvise")), []);

        let fallbacks = counters(&[("thp_fault_fallback", 300), ("thp_fault_alloc", 700)]);
        let host = Situation { counters: fallbacks.clone(), ..thp("always", "madvise") };
        assert_eq!(remedies(&host), [Remedy::ThpDefrag]);
        assert!(advise(&host)[0].reason.contains("30.0 %"), "{:?}", advise(&host));
        let host = Situation { counters: fallbacks, ..thp("always", "defer+madvise") };
        assert_eq!(remedies(&host), []);
        let failures = counters(&[("compact_stall", 1000), ("compact_fail", 900)]);
        let host = Situation { counters: failures, ..thp("always", "always") };
        assert_eq!(remedies(&host), [Remedy::ThpDefrag]);

        let fragmented = |proactiveness, potential| Situation {
            compaction_proactiveness: Some(proactiveness),
            unusable_free_space_huge: Some(0.7),
            potential_2_mib: Some(potential),
            ..Situation::default()
        };
        assert_eq!(remedies(&fragmented(20, 0.9)), [Remedy::Proactive]);
        assert_eq!(remedies(&fragmented(0, 0.9)), [Remedy::Proactive]);
        // It acts already; compaction cannot help.
        assert_eq!(remedies(&fragmented(60, 0.9)), []);
        assert_eq!(remedies(&fragmented(20, 0.3)), []);

        let reserve = |kib| Situation {
            min_free_kib: Some(kib),
            kernel_zones: Some(3),
            memory_kib: Some(24 << 20),
            ..thp("madvise", "madvise")
        };
        assert_eq!(remedies(&reserve(45056)), [Remedy::MinFree]);
        assert_eq!(remedies(&reserve(67584)), []);

        let polluted = |polluted, unmovable| Situation {
            polluted_share: Some(polluted),
            unmovable_share: Some(unmovable),
            ..Situation::default()
        };
        assert_eq!(remedies(&polluted(0.34, 0.05)), [Remedy::Regions]);
        assert_eq!(remedies(&polluted(0.34, 0.3)), [Remedy::Sources]);
        assert_eq!(remedies(&polluted(0.1, 0.05)), []);

        let process = |bytes, coverage| {
            let process = "redis-server".to_owned();
            let small_pages = Some(SmallPages { process, bytes, coverage });
            Situation { small_pages, ..Situation::default() }
        };
        assert_eq!(remedies(&process(1 << 30, 0.06)), [Remedy::Heap]);
        assert_eq!(remedies(&process(1 << 30, 0.9)), []);
        assert_eq!(remedies(&process(1 << 20, 0.0)), []);

        let container = |bytes| Situation {
            memory_kib: Some(64 << 20),
            inactive: Some(("system.slice/web.service".to_owned(), bytes)),
            ..Situation::default()
        };
        assert_eq!(remedies(&container(1 << 30)), [Remedy::Offload]);
        assert_eq!(remedies(&container(300 << 20)), []);
    }
}
