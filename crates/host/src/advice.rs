//! What helps against fragmentation and lack of memory: the rules of every command that advises.
//!
//! A command describes the machine as a [`Situation`], with whatever it knows, and [`advise`]
//! returns what helps, the most effective first. A rule whose facts are not known is silent. No
//! rule acts; each names a setting or a command, and why.
//!
//! | rule | helps against | source |
//! | --- | --- | --- |
//! | [`Remedy::SmallerRequest`] | large requests that cannot wait | `Documentation/core-api/memory-allocation.rst` |
//! | [`Remedy::ThpDefrag`] | faults that compact for a huge page | `Documentation/admin-guide/mm/transhuge.rst` |
//! | [`Remedy::Proactive`], [`Remedy::DefragMode`] | large requests that find no block | `Documentation/admin-guide/sysctl/vm.rst` |
//! | [`Remedy::MinFree`], [`Remedy::ScaleFactor`] | requests that cannot wait for reclaim | the same |
//! | [`Remedy::Regions`] | unmovable pages in most pageblocks | Contiguitas, section 4 |
//! | [`Remedy::CgroupLimit`], [`Remedy::Offload`], [`Remedy::Swap`] | lack of memory | TMO, section 3 |
//! | [`Remedy::Heap`] | programs that get few huge pages | TEMERAIRE, section 4 |
//! | [`Remedy::LowerZone`] | requests limited to the first 16 MiB or 4 GiB | `mm/page_alloc.c`, `lowmem_reserve` |

mod rules;

use serde::Serialize;

use crate::kernel_log::{Diagnosis, Incident, KernelVersion, Verdict};

/// What a command knows of a machine. `None` and `false` mean that it does not know.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Situation {
    /// The kernel.
    pub kernel: Option<KernelVersion>,
    /// A request that failed or waited.
    pub request: Option<AskedFor>,
    /// F_u(9) of free memory, 0 to 1: the share that cannot serve a huge page.
    pub unusable_free_space_huge: Option<f64>,
    /// The share of memory that is free, 0 to 1.
    pub free_share: Option<f64>,
    /// The share of pageblocks with at least one unmovable frame, 0 to 1, by the lower bound.
    pub polluted_share: Option<f64>,
    /// The share of anonymous memory on huge pages, 0 to 1.
    pub huge_page_coverage: Option<f64>,
    /// The share of time that the worst process waited for direct compaction, 0 to 1.
    pub compaction_stall_share: Option<f64>,
    /// The share of time that the worst process waited for direct reclaim, 0 to 1.
    pub reclaim_stall_share: Option<f64>,
    /// A cgroup is at its limit.
    pub cgroup_at_limit: bool,
    /// All swap in KiB.
    pub swap_total_kib: Option<u64>,
    /// `/sys/kernel/mm/transparent_hugepage/enabled`.
    pub thp_enabled: Option<String>,
    /// `/sys/kernel/mm/transparent_hugepage/defrag`.
    pub thp_defrag: Option<String>,
    /// `vm.compaction_proactiveness`.
    pub compaction_proactiveness: Option<u32>,
    /// `vm.defrag_mode`.
    pub defrag_mode: Option<u32>,
    /// `vm.min_free_kbytes`.
    pub min_free_kib: Option<u64>,
    /// `vm.watermark_scale_factor`.
    pub watermark_scale_factor: Option<u32>,
    /// Memory of the machine in KiB.
    pub memory_kib: Option<u64>,
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
pub enum Remedy {
    /// Raise the cgroup's limit, or reclaim from it in time.
    CgroupLimit,
    /// Make the request smaller: `kvmalloc`, smaller rings or frames.
    SmallerRequest,
    /// Let a driver use memory above 4 GiB.
    LowerZone,
    /// `transparent_hugepage/defrag`.
    ThpDefrag,
    /// `vm.defrag_mode` (Linux 6.15).
    DefragMode,
    /// `vm.compaction_proactiveness` (Linux 5.9).
    Proactive,
    /// Confine unmovable memory: `prairie regions`.
    Regions,
    /// `vm.min_free_kbytes`.
    MinFree,
    /// `vm.watermark_scale_factor`.
    ScaleFactor,
    /// Move cold memory out: `prairie offload`.
    Offload,
    /// Configure swap or zswap.
    Swap,
    /// Preload the hugepage-aware malloc: `prairie heap run`.
    Heap,
    /// Nothing has to change.
    Tolerate,
}

/// One piece of advice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// What it is about.
    pub remedy: Remedy,
    /// What to do, in one sentence.
    pub action: String,
    /// Why, with the numbers that led to it.
    pub reason: String,
}

/// What helps, the most effective first; nothing where nothing has to change.
pub fn advise(situation: &Situation) -> Vec<Advice> {
    rules::RULES.iter().filter_map(|rule| rule(situation)).collect()
}

/// The situation that a report of the kernel describes.
pub fn situation_of(incident: &Incident, diagnosis: &Diagnosis) -> Situation {
    use prairie_frames::ZoneKind;
    let gfp = &incident.request.gfp;
    let zones = &incident.memory.zones;
    let main = diagnosis.main_zone.and_then(|id| diagnosis.zones.iter().find(|zone| zone.id == id));
    let sum = |name| zones.iter().map(|zone| zone.kib(name)).fold(0u64, u64::saturating_add);
    let (free, managed) = (sum("free"), sum("managed").max(sum("present")));
    Situation {
        kernel: incident.kernel_release.as_deref().and_then(KernelVersion::of_release),
        request: Some(AskedFor {
            order: incident.request.order,
            can_wait: gfp.can_wait(),
            low_zone: gfp.highest_zone() < ZoneKind::Normal,
            huge_page: incident.request.order >= 9 && gfp.has("__GFP_HIGHMEM"),
            verdict: diagnosis.verdict,
        }),
        unusable_free_space_huge: main
            .and_then(|zone| zone.unusable_free_space_index.get(9).copied()),
        free_share: (managed > 0).then(|| free as f64 / managed as f64),
        cgroup_at_limit: diagnosis.verdict == Verdict::CgroupLimit,
        swap_total_kib: incident.memory.swap_total_kib,
        memory_kib: (managed > 0).then_some(managed),
        ..Situation::default()
    }
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

    #[test]
    fn nothing_known_nothing_said() {
        assert_eq!(advise(&Situation::default()), []);
    }

    #[test]
    fn fragmentation_and_lack_of_memory_have_different_remedies() {
        let fragmented = Situation {
            kernel: Some(KernelVersion(6, 1)),
            ..request(4, true, Verdict::Fragmentation)
        };
        assert_eq!(remedies(&fragmented), [Remedy::SmallerRequest, Remedy::Proactive]);
        let newer = Situation { kernel: Some(KernelVersion(6, 18)), ..fragmented.clone() };
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
        let stalled = Situation {
            kernel: Some(KernelVersion(6, 1)),
            compaction_stall_share: Some(0.2),
            thp_defrag: Some("madvise".to_owned()),
            ..Situation::default()
        };
        assert_eq!(remedies(&stalled), [Remedy::ThpDefrag, Remedy::Proactive]);
        let polluted = Situation { polluted_share: Some(0.4), ..Situation::default() };
        assert_eq!(remedies(&polluted), [Remedy::Regions]);
        let uncovered = Situation { huge_page_coverage: Some(0.1), ..Situation::default() };
        assert_eq!(remedies(&uncovered), [Remedy::Heap]);
    }
}
