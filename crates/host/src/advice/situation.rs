//! The situation that a kernel's report or a survey describes.

use prairie_frames::{KernelVersion, Order, ZoneKind};

use super::{AskedFor, Situation, SmallPages};
use crate::Survey;
use crate::kernel_log::{Diagnosis, Incident, Verdict};
use crate::survey::ZoneSurvey;

impl Situation {
    /// What a kernel's report of a failed allocation says.
    pub fn of_incident(incident: &Incident, diagnosis: &Diagnosis) -> Situation {
        let gfp = &incident.request.gfp;
        let zones = &incident.memory.zones;
        let sum = |name| zones.iter().map(|zone| zone.kib(name)).fold(0u64, u64::saturating_add);
        let managed = sum("managed").max(sum("present"));
        Situation {
            kernel: incident.kernel_release.as_deref().and_then(KernelVersion::of_kernel),
            request: Some(AskedFor {
                order: incident.request.order,
                can_wait: gfp.can_wait(),
                low_zone: gfp.highest_zone() < ZoneKind::Normal,
                huge_page: incident.request.order >= u32::from(Order::HUGE.get())
                    && gfp.has("__GFP_HIGHMEM"),
                verdict: diagnosis.verdict,
            }),
            cgroup_at_limit: diagnosis.verdict == Verdict::CgroupLimit,
            swap_total_kib: incident.memory.swap_total_kib,
            memory_kib: (managed > 0).then_some(managed),
            ..Situation::default()
        }
    }

    /// What a survey says.
    pub fn of_survey(survey: &Survey) -> Situation {
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
        let small_pages = survey.huge_pages.processes.iter().map(|process| SmallPages {
            process: process.name.clone(),
            bytes: process.anonymous_bytes.saturating_sub(process.anonymous_huge_bytes),
            coverage: process.anonymous_coverage.unwrap_or(0.0),
        });
        let inactive =
            survey.cgroups.iter().map(|group| (group.path.clone(), group.inactive_anonymous_bytes));
        Situation {
            memory_kib: Some(survey.memory_bytes() >> 10),
            kernel_zones: Some(survey.zones.iter().filter(|zone| is_kernel(zone)).count() as u64),
            thp_enabled: setting(&format!("{THP}/enabled")),
            thp_defrag: setting(&format!("{THP}/defrag")),
            compaction_proactiveness: number("/proc/sys/vm/compaction_proactiveness"),
            min_free_kib: number("/proc/sys/vm/min_free_kbytes"),
            unusable_free_space_huge: unusable,
            potential_2_mib: initialized.map(|found| found.potential_2_mib_min),
            polluted_share: initialized.map(|found| found.polluted_share),
            unmovable_share: frames.map(|frames| {
                frames.by_mobility.unmovable as f64 / frames.initialized.frames.max(1) as f64
            }),
            counters: survey.counters.iter().map(|c| (c.name.to_owned(), c.value)).collect(),
            small_pages: small_pages.max_by_key(|found| found.bytes),
            inactive: inactive.max_by_key(|found| found.1),
            ..Situation::default()
        }
    }
}

/// Whether a zone has memory and serves ordinary requests.
fn is_kernel(zone: &ZoneSurvey) -> bool {
    let has_memory = zone.extent.as_ref().is_some_and(|extent| extent.managed_frames > 0);
    has_memory && !matches!(zone.id.kind, ZoneKind::Movable | ZoneKind::Device)
}
