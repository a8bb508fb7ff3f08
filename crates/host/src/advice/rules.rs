//! The rules, a function each: silent where the facts that they need are not known.

use prairie_frames::placement::linux::version::{DEFRAG_MODE, PROACTIVE_COMPACTION};
use prairie_frames::{KernelVersion, Order};

use super::{Remedy, Situation};
use crate::kernel_log::Verdict;
use crate::verdict;

/// A rule, with the action and the reason that it gives.
pub(crate) struct Rule {
    /// What it is about.
    pub remedy: Remedy,
    /// The setting, command, or part of the system.
    pub subject: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Action and reason, if the facts ask for them.
    pub applies: fn(&Situation) -> Option<(String, String)>,
}

const VM_RST: &str = "Documentation/admin-guide/sysctl/vm.rst";
const THP_RST: &str = "Documentation/admin-guide/mm/transhuge.rst";

/// The rules, the most effective first.
pub(crate) const RULES: [Rule; 15] = [
    Rule {
        remedy: Remedy::CgroupLimit,
        subject: "memory.max",
        source: "Documentation/admin-guide/cgroup-v2.rst",
        applies: cgroup_limit,
    },
    Rule {
        remedy: Remedy::Tolerate,
        subject: "no change",
        source: "Documentation/core-api/memory-allocation.rst",
        applies: tolerate,
    },
    Rule {
        remedy: Remedy::SmallerRequest,
        subject: "size of the request",
        source: "Documentation/core-api/memory-allocation.rst; PAGE_ALLOC_COSTLY_ORDER",
        applies: smaller_request,
    },
    Rule {
        remedy: Remedy::LowerZone,
        subject: "DMA mask of the device",
        source: "lowmem_reserve in mm/page_alloc.c",
        applies: lower_zone,
    },
    Rule {
        remedy: Remedy::ThpEnabled,
        subject: "thp/enabled",
        source: THP_RST,
        applies: thp_is_off,
    },
    Rule {
        remedy: Remedy::ThpDefrag,
        subject: "thp/defrag",
        source: "Documentation/admin-guide/mm/transhuge.rst; 1 % of time and 10 % of faults are \
                 Prairie's choice",
        applies: thp_defrag,
    },
    Rule {
        remedy: Remedy::DefragMode,
        subject: "vm.defrag_mode",
        source: VM_RST,
        applies: defrag_mode,
    },
    Rule {
        remedy: Remedy::Proactive,
        subject: "vm.compaction_proactiveness",
        source: "fragmentation_score_wmark in mm/compaction.c",
        applies: proactive,
    },
    Rule {
        remedy: Remedy::MinFree,
        subject: "vm.min_free_kbytes",
        source: "set_recommended_min_free_kbytes in mm/khugepaged.c; 1 % for requests that cannot \
                 wait is Prairie's choice",
        applies: min_free,
    },
    Rule {
        remedy: Remedy::ScaleFactor,
        subject: "vm.watermark_scale_factor",
        source: VM_RST,
        applies: scale_factor,
    },
    Rule {
        remedy: Remedy::Regions,
        subject: "prairie regions check",
        source: "Contiguitas: confinement helps where little unmovable memory pollutes much",
        applies: regions,
    },
    Rule {
        remedy: Remedy::Sources,
        subject: "prairie sources",
        source: "Contiguitas: few sources hold most of the unmovable memory",
        applies: sources,
    },
    Rule {
        remedy: Remedy::Heap,
        subject: "prairie heap run",
        source: "TEMERAIRE, Figure 13: coverage that programs reach with its page heap",
        applies: heap,
    },
    Rule {
        remedy: Remedy::Offload,
        subject: "prairie offload check",
        source: "TMO: inactive anonymous memory is what offloading can take; 256 MiB and 1 % of \
                 memory are Prairie's choice",
        applies: offload,
    },
    Rule { remedy: Remedy::Swap, subject: "swap", source: "TMO, section 3", applies: swap },
];

/// Share of time or memory below which nothing is worth a line.
const NOTICEABLE: f64 = 0.01;
/// Faults that must have happened before their shares mean anything.
const MIN_FAULTS: u64 = 1000;
/// Memory below which no program and no container is worth a line.
const MIN_BYTES: u64 = 256 << 20;

impl Situation {
    /// Whether a request failed or waited because large blocks are missing.
    fn lacks_blocks(&self) -> bool {
        let by_verdict = self.request.as_ref().is_some_and(|request| {
            request.order > 0
                && matches!(
                    request.verdict,
                    Verdict::Fragmentation | Verdict::LowAndFragmented | Verdict::Reserved
                )
        });
        by_verdict || self.compaction_stall_share.is_some_and(|share| share > NOTICEABLE)
    }

    /// Whether a request failed or waited because memory itself is missing.
    fn lacks_memory(&self) -> bool {
        let by_verdict = self.request.as_ref().is_some_and(|request| {
            matches!(
                request.verdict,
                Verdict::LowMemory | Verdict::LowAndFragmented | Verdict::LowmemReserve
            )
        });
        by_verdict || self.reclaim_stall_share.is_some_and(|share| share > NOTICEABLE)
    }

    /// Whether the kernel is at least this one, or not known.
    fn may_be(&self, version: KernelVersion) -> bool {
        self.kernel.is_none_or(|kernel| kernel >= version)
    }

    fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }
}

fn advice(action: impl Into<String>, reason: impl Into<String>) -> Option<(String, String)> {
    Some((action.into(), reason.into()))
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

fn cgroup_limit(s: &Situation) -> Option<(String, String)> {
    if !s.cgroup_at_limit {
        return None;
    }
    advice(
        "raise the limit, set memory.high below it, or shrink the workload",
        "the cgroup reached its own limit: free memory of the machine could not be used",
    )
}

fn tolerate(s: &Situation) -> Option<(String, String)> {
    let request = s.request.as_ref()?;
    if request.huge_page && request.verdict != Verdict::CgroupLimit {
        return advice(
            "do nothing if the program works: it got small pages instead",
            "huge pages of programs are optional",
        );
    }
    if request.verdict == Verdict::ServedMeanwhile && !request.can_wait {
        return advice(
            "do nothing if it stays rare: the caller tries again or drops a packet",
            "the request could not wait, and memory was free again when the report was printed",
        );
    }
    None
}

fn smaller_request(s: &Situation) -> Option<(String, String)> {
    let request = s.request.as_ref().filter(|request| !request.huge_page)?;
    if request.verdict == Verdict::TooLarge {
        return advice(
            "use vmalloc or kvmalloc, or reserve memory at boot (CMA)",
            format!("no block of order {} exists: this is a bug of the caller", request.order),
        );
    }
    let is_costly = request.order > 3;
    if request.order == 0 || !(s.lacks_blocks() || (is_costly && s.lacks_memory())) {
        return None;
    }
    let kib = 4u64 << request.order.min(20);
    let why = match (is_costly, request.can_wait) {
        (true, _) => "the kernel does not guarantee requests above order 3",
        (false, true) => "every order below is easier to serve",
        (false, false) => "the caller cannot wait for reclaim or compaction",
    };
    advice(
        format!(
            "make the caller ask for less than {kib} KiB in one piece: smaller rings, frames or \
             batches of the driver or file system in the call trace, or an update that uses kvmalloc"
        ),
        format!("order {}: {why}", request.order),
    )
}

fn lower_zone(s: &Situation) -> Option<(String, String)> {
    s.request.as_ref().filter(|request| request.low_zone)?;
    advice(
        "use a 64-bit DMA mask in the driver, or an IOMMU",
        "the request accepts only the lowest zones, whatever is free above",
    )
}

fn thp_is_off(s: &Situation) -> Option<(String, String)> {
    (s.thp_enabled.as_deref() == Some("never")).then(|| {
        ("set madvise or always".to_owned(), "never gives no program a huge page".to_owned())
    })
}

fn thp_defrag(s: &Situation) -> Option<(String, String)> {
    stalled_faults(s).or_else(|| failed_faults(s))
}

/// Tasks wait while page faults compact.
fn stalled_faults(s: &Situation) -> Option<(String, String)> {
    let waits = s.compaction_stall_share.is_some_and(|share| share > NOTICEABLE)
        || s.request.as_ref().is_some_and(|request| request.huge_page && request.can_wait);
    let better = match s.thp_defrag.as_deref() {
        Some("always") => "defer+madvise",
        None | Some("madvise" | "defer+madvise") => "defer",
        Some(_) => return None,
    };
    if !waits {
        return None;
    }
    let now = s.thp_defrag.as_ref().map_or(String::new(), |defrag| format!(", now `{defrag}`"));
    advice(format!("set {better}"), format!("page faults compact memory{now}"))
}

/// Faults get small pages where they may not compact, or compact without success.
fn failed_faults(s: &Situation) -> Option<(String, String)> {
    const SUGGESTED: &str = "defer+madvise";
    let action = format!("set {SUGGESTED}");
    let defrag = s.thp_defrag.as_deref().filter(|defrag| *defrag != SUGGESTED)?;
    let [stalls, failures] = ["compact_stall", "compact_fail"].map(|name| s.counter(name));
    if defrag == "always" && stalls >= MIN_FAULTS && failures * 2 > stalls {
        let share = percent(failures as f64 / stalls as f64);
        return advice(action, format!("{share} of compacting faults do not succeed"));
    }
    let [fallen, served] = ["thp_fault_fallback", "thp_fault_alloc"].map(|name| s.counter(name));
    let wanted = fallen + served;
    let share = fallen as f64 / wanted.max(1) as f64;
    if defrag == "always" || wanted < MIN_FAULTS || share < 0.1 {
        return None;
    }
    advice(action, format!("{} of huge-page faults got small pages", percent(share)))
}

fn defrag_mode(s: &Situation) -> Option<(String, String)> {
    const SINCE: KernelVersion = DEFRAG_MODE.since;
    if !s.lacks_blocks() || !s.may_be(SINCE) || s.defrag_mode == Some(1) {
        return None;
    }
    let condition = match s.kernel {
        None => format!(" on Linux {SINCE} and later"),
        Some(_) => String::new(),
    };
    advice(
        format!("set 1{condition}"),
        "large blocks are missing, and this mode avoids mixing page types in a pageblock",
    )
}

/// Large blocks are missing, and kcompactd waits for requests or for more fragmentation.
fn proactive(s: &Situation) -> Option<(String, String)> {
    const SINCE: KernelVersion = PROACTIVE_COMPACTION.since;
    const DEFAULT: u64 = 20;
    const WANTED: u64 = 60;
    let can_help = s.potential_2_mib.is_none_or(|share| share >= verdict::POTENTIAL.poor);
    let fragmented = s.compaction_proactiveness.is_some()
        && s.unusable_free_space_huge.is_some_and(|unusable| {
            can_help && verdict::UNUSABLE.verdict(unusable) != verdict::Verdict::Good
        });
    if !(s.lacks_blocks() || fragmented) || !s.may_be(SINCE) {
        return None;
    }
    match s.compaction_proactiveness {
        None => advice(
            format!("raise to {WANTED}, on Linux {SINCE} and later"),
            "kcompactd then compacts before a request has to",
        ),
        Some(0) => advice(format!("raise 0 to {DEFAULT}"), "kcompactd never compacts ahead"),
        Some(now) if now < WANTED => {
            // It stops at a score of 100 less this value, and a score is F_u in percent.
            let left = 100_u64.saturating_sub(now).max(5);
            let split = format!("{left} % of free memory stays split");
            advice(format!("raise {now} to {WANTED}"), split)
        }
        Some(_) => None,
    }
}

fn min_free(s: &Situation) -> Option<(String, String)> {
    reserve_for_atomic(s).or_else(|| reserve_for_huge_pages(s))
}

/// A request that cannot wait found the reserve empty.
fn reserve_for_atomic(s: &Situation) -> Option<(String, String)> {
    let request = s.request.as_ref()?;
    if request.can_wait || !(s.lacks_memory() || s.lacks_blocks()) {
        return None;
    }
    // 1 % of memory, and no more: the reserve is lost to programs.
    const SHARE: u64 = 100;
    const LARGEST_KIB: u64 = 1 << 20;
    let wanted = s.memory_kib.map(|kib| (kib / SHARE).min(LARGEST_KIB));
    if let (Some(wanted), Some(now)) = (wanted, s.min_free_kib)
        && now >= wanted
    {
        return None;
    }
    let value = wanted.map_or(String::new(), |kib| format!(" to about {kib} (1 % of memory)"));
    advice(
        format!("raise it{value}"),
        "requests that cannot wait live on this reserve, and kswapd starts earlier with it",
    )
}

/// Less is kept free than khugepaged recommends to keep movable and unmovable pages apart.
fn reserve_for_huge_pages(s: &Situation) -> Option<(String, String)> {
    let (now, zones, memory) = (s.min_free_kib?, s.kernel_zones?, s.memory_kib?);
    if s.thp_enabled.as_deref().is_none_or(|enabled| enabled == "never") {
        return None;
    }
    let recommended = recommended_min_free_kib(zones, memory);
    (now < recommended).then(|| {
        let reason = "what khugepaged recommends".to_owned();
        (format!("raise {now} to {recommended}"), reason)
    })
}

/// What khugepaged sets: two pageblocks for each zone, and for each pair of types on the per-CPU
/// lists one more, at most 5 % of memory.
fn recommended_min_free_kib(kernel_zones: u64, memory_kib: u64) -> u64 {
    const PCP_TYPES: u64 = 3;
    let pageblocks = kernel_zones * (2 + PCP_TYPES * PCP_TYPES);
    (pageblocks * (Order::HUGE.bytes() >> 10)).min(memory_kib / 20)
}

fn scale_factor(s: &Situation) -> Option<(String, String)> {
    const DEFAULT: u64 = 10;
    let is_raised = s.watermark_scale_factor.is_some_and(|value| value > DEFAULT);
    let stalls = s.reclaim_stall_share.is_some_and(|share| share > NOTICEABLE);
    let could_not_wait =
        s.request.as_ref().is_some_and(|request| !request.can_wait && s.lacks_memory());
    if is_raised || !(stalls || could_not_wait) {
        return None;
    }
    advice(
        "raise 10 to 100 or more",
        "kswapd then reclaims ahead of bursts instead of leaving it to the tasks",
    )
}

/// Little unmovable memory pollutes many pageblocks.
fn regions(s: &Situation) -> Option<(String, String)> {
    let (polluted, unmovable) = (s.polluted_share?, s.unmovable_share?);
    if polluted <= verdict::POLLUTED.good || unmovable * 2.0 >= polluted {
        return None;
    }
    let (polluted, unmovable) = (percent(polluted), percent(unmovable));
    advice(
        "confine unmovable memory with `prairie regions run` where this host qualifies",
        format!("{unmovable} unmovable memory pollutes {polluted} of pageblocks"),
    )
}

/// Much memory is unmovable, wherever it is.
fn sources(s: &Situation) -> Option<(String, String)> {
    let unmovable = s.unmovable_share.filter(|share| *share > verdict::POLLUTED.good)?;
    advice(
        "find the sources in a recording (`prairie record`)",
        format!("{} is unmovable; a recording shows who allocates", percent(unmovable)),
    )
}

/// A large program on small pages.
fn heap(s: &Situation) -> Option<(String, String)> {
    let found = s.small_pages.as_ref()?;
    if found.bytes < MIN_BYTES
        || verdict::COVERAGE.verdict(found.coverage) == verdict::Verdict::Good
    {
        return None;
    }
    let short: String = found.process.chars().take(15).collect();
    advice(
        "start the program with the hugepage-aware malloc",
        format!("{short}: {} in small pages (if from malloc)", mebibytes(found.bytes)),
    )
}

fn offload(s: &Situation) -> Option<(String, String)> {
    if s.lacks_memory() && s.swap_total_kib.is_some_and(|kib| kib > 0) {
        return advice(
            "move cold memory to swap with `prairie offload run`",
            "memory is short, and there is swap to move cold pages to",
        );
    }
    // A container whose memory lies idle.
    let (path, bytes) = s.inactive.as_ref()?;
    if *bytes < MIN_BYTES.max(s.memory_kib? * 1024 / 100) {
        return None;
    }
    advice(
        "move cold memory out with `prairie offload run`",
        format!("{} lies inactive in {path}", mebibytes(*bytes)),
    )
}

fn swap(s: &Situation) -> Option<(String, String)> {
    if !s.lacks_memory() || s.swap_total_kib != Some(0) {
        return None;
    }
    advice(
        "configure swap, zram or zswap, or add memory",
        "memory is short, and without swap anonymous memory cannot be reclaimed",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recommended_reserve_is_the_kernels() {
        // dmesg of x86-64 machines with three zones: "raising min_free_kbytes ... to 67584".
        assert_eq!(recommended_min_free_kib(3, 24 << 20), 67584);
        // 5 % of 512 MiB.
        assert_eq!(recommended_min_free_kib(3, 512 << 10), 26214);
    }
}
