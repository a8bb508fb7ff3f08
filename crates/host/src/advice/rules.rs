//! The rules, a function each: silent where the facts that they need are not known.

use super::{Advice, Remedy, Situation};
use crate::kernel_log::{KernelVersion, Verdict};

/// A rule: advice, if the facts that it needs are known and ask for it.
pub type Rule = fn(&Situation) -> Option<Advice>;

/// The rules, the most effective first.
pub const RULES: [Rule; 13] = [
    cgroup_limit,
    tolerate,
    smaller_request,
    lower_zone,
    thp_defrag,
    defrag_mode,
    proactive,
    regions,
    min_free,
    scale_factor,
    offload,
    swap,
    heap,
];

impl Situation {
    /// Whether large blocks are what is missing.
    fn lacks_blocks(&self) -> bool {
        const MOSTLY: f64 = 0.5;
        const NOTICEABLE: f64 = 0.01;
        let by_verdict = self.request.as_ref().is_some_and(|request| {
            request.order > 0
                && matches!(
                    request.verdict,
                    Verdict::Fragmentation | Verdict::LowAndFragmented | Verdict::Reserved
                )
        });
        let by_stalls = self.compaction_stall_share.is_some_and(|share| share > NOTICEABLE);
        let by_lists = self.request.is_none()
            && self.unusable_free_space_huge.is_some_and(|index| index > MOSTLY)
            && self.free_share.is_some_and(|share| share > 0.05);
        by_verdict || by_stalls || by_lists
    }

    /// Whether memory itself is what is missing.
    fn lacks_memory(&self) -> bool {
        const NOTICEABLE: f64 = 0.01;
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
}

fn advice(remedy: Remedy, action: impl Into<String>, reason: impl Into<String>) -> Option<Advice> {
    Some(Advice { remedy, action: action.into(), reason: reason.into() })
}

fn cgroup_limit(s: &Situation) -> Option<Advice> {
    if !s.cgroup_at_limit {
        return None;
    }
    advice(
        Remedy::CgroupLimit,
        "Raise the cgroup's memory.max, set memory.high below it, or make the workload smaller",
        "the cgroup reached its own limit: free memory of the machine could not be used",
    )
}

fn tolerate(s: &Situation) -> Option<Advice> {
    let request = s.request.as_ref()?;
    let is_optional = request.huge_page && request.verdict != Verdict::CgroupLimit;
    let was_short = request.verdict == Verdict::ServedMeanwhile && !request.can_wait;
    if is_optional {
        return advice(
            Remedy::Tolerate,
            "Do nothing if the program works: it got small pages instead",
            "huge pages of programs are optional",
        );
    }
    if was_short {
        return advice(
            Remedy::Tolerate,
            "Do nothing if it stays rare: the caller tries again or drops a packet",
            "the request could not wait, and memory was free again when the report was printed",
        );
    }
    None
}

fn smaller_request(s: &Situation) -> Option<Advice> {
    let request = s.request.as_ref().filter(|request| !request.huge_page)?;
    if request.verdict == Verdict::TooLarge {
        return advice(
            Remedy::SmallerRequest,
            "Make the caller use vmalloc or kvmalloc, or reserve the memory at boot (CMA)",
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
        Remedy::SmallerRequest,
        format!(
            "Make the caller ask for less than {kib} KiB in one piece: smaller rings, frames or \
             batches of the driver or file system in the call trace, or an update that uses kvmalloc"
        ),
        format!("order {}: {why}", request.order),
    )
}

fn lower_zone(s: &Situation) -> Option<Advice> {
    s.request.as_ref().filter(|request| request.low_zone)?;
    advice(
        Remedy::LowerZone,
        "Let the device use all of memory: a 64-bit DMA mask in the driver, or an IOMMU",
        "the request accepts only the lowest zones, however much is free above",
    )
}

fn thp_defrag(s: &Situation) -> Option<Advice> {
    let waits_for_huge_pages = s.compaction_stall_share.is_some_and(|share| share > 0.01)
        || s.request.as_ref().is_some_and(|request| request.huge_page && request.can_wait);
    let defrag = s.thp_defrag.as_deref();
    let may_wait =
        defrag.is_none_or(|defrag| matches!(defrag, "always" | "madvise" | "defer+madvise"));
    if !waits_for_huge_pages || !may_wait {
        return None;
    }
    let now = defrag.map_or(String::new(), |defrag| format!(", now `{defrag}`"));
    advice(
        Remedy::ThpDefrag,
        "Set /sys/kernel/mm/transparent_hugepage/defrag to `defer`: faults take small pages at once \
         and kcompactd and khugepaged make huge ones later",
        format!("page faults compact memory for huge pages themselves{now}"),
    )
}

fn defrag_mode(s: &Situation) -> Option<Advice> {
    const SINCE: KernelVersion = KernelVersion(6, 15);
    if !s.lacks_blocks() || !s.may_be(SINCE) || s.defrag_mode == Some(1) {
        return None;
    }
    let condition = if s.kernel.is_none() { " on Linux 6.15 and later" } else { "" };
    advice(
        Remedy::DefragMode,
        format!("Set vm.defrag_mode=1{condition}: the kernel keeps whole pageblocks free"),
        "large blocks are missing, and this mode avoids mixing page types in a pageblock",
    )
}

fn proactive(s: &Situation) -> Option<Advice> {
    const DEFAULT: u32 = 20;
    const SINCE: KernelVersion = KernelVersion(5, 9);
    let is_eager = s.compaction_proactiveness.is_some_and(|value| value > DEFAULT);
    // Proactive compaction works for huge pages; it cannot help a request below their order, as
    // long as some larger block is left.
    if !s.lacks_blocks() || !s.may_be(SINCE) || is_eager {
        return None;
    }
    let now = s.compaction_proactiveness.map_or(String::new(), |value| format!(", now {value}"));
    advice(
        Remedy::Proactive,
        "Raise vm.compaction_proactiveness from 20 to 40 or more, on Linux 5.9 and later",
        format!("kcompactd then compacts before a request has to{now}"),
    )
}

fn regions(s: &Situation) -> Option<Advice> {
    const MANY: f64 = 0.3;
    let polluted = s.polluted_share?;
    if polluted < MANY {
        return None;
    }
    advice(
        Remedy::Regions,
        "Confine unmovable memory with `prairie regions run` (`prairie regions check` says whether \
         this host qualifies)",
        format!(
            "{:.0} % of pageblocks hold unmovable frames, and compaction cannot free those",
            polluted * 100.0
        ),
    )
}

fn min_free(s: &Situation) -> Option<Advice> {
    let request = s.request.as_ref()?;
    if request.can_wait || !(s.lacks_memory() || s.lacks_blocks()) {
        return None;
    }
    // 1 % of memory, and no more: it is memory that nobody may use.
    const SHARE: u64 = 100;
    const LARGEST_KIB: u64 = 1 << 20;
    let wanted = s.memory_kib.map(|kib| (kib / SHARE).min(LARGEST_KIB));
    if let (Some(wanted), Some(now)) = (wanted, s.min_free_kib)
        && now >= wanted
    {
        return None;
    }
    let value = wanted.map_or(String::new(), |kib| format!(", to about {kib} (1 % of memory)"));
    advice(
        Remedy::MinFree,
        format!("Raise vm.min_free_kbytes{value}"),
        "requests that cannot wait live on this reserve, and kswapd starts earlier with it",
    )
}

fn scale_factor(s: &Situation) -> Option<Advice> {
    const DEFAULT: u32 = 10;
    let is_raised = s.watermark_scale_factor.is_some_and(|value| value > DEFAULT);
    let stalls = s.reclaim_stall_share.is_some_and(|share| share > 0.01);
    let could_not_wait =
        s.request.as_ref().is_some_and(|request| !request.can_wait && s.lacks_memory());
    if is_raised || !(stalls || could_not_wait) {
        return None;
    }
    advice(
        Remedy::ScaleFactor,
        "Raise vm.watermark_scale_factor from 10 to 100 or more",
        "kswapd then reclaims ahead of bursts instead of leaving it to the tasks",
    )
}

fn offload(s: &Situation) -> Option<Advice> {
    let has_swap = s.swap_total_kib.is_some_and(|kib| kib > 0);
    if !s.lacks_memory() || !has_swap {
        return None;
    }
    advice(
        Remedy::Offload,
        "Move cold memory to swap in time with `prairie offload run` (`prairie offload profile` \
         shows how much is cold)",
        "memory is short, and there is swap to move cold pages to",
    )
}

fn swap(s: &Situation) -> Option<Advice> {
    if !s.lacks_memory() || s.swap_total_kib != Some(0) {
        return None;
    }
    advice(
        Remedy::Swap,
        "Configure swap, zram or zswap, or add memory",
        "memory is short, and without swap anonymous memory cannot be reclaimed",
    )
}

fn heap(s: &Situation) -> Option<Advice> {
    const FEW: f64 = 0.5;
    let coverage = s.huge_page_coverage?;
    let is_off = s.thp_enabled.as_deref() == Some("never");
    if coverage >= FEW || is_off || s.lacks_blocks() {
        return None;
    }
    advice(
        Remedy::Heap,
        "Start large programs under `prairie heap run`",
        format!(
            "only {:.0} % of anonymous memory is on huge pages, though blocks are free",
            coverage * 100.0
        ),
    )
}
