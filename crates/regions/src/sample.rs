//! What the zones report at one moment: the input of the policy, computed from `/proc/zoneinfo`,
//! `/proc/vmstat`, `/proc/meminfo`, and `/proc/pressure/memory`.

use std::collections::BTreeMap;
use std::time::Duration;

use prairie_frames::ZoneKind;
use prairie_host::texts::zoneinfo::ZoneInfo;
use serde::Serialize;

/// One moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// When, by a clock that never jumps.
    pub at: Duration,
    /// The nodes, by number.
    pub nodes: Vec<NodeSample>,
    /// Direct reclaims by kernel requests since boot (`allocstall_dma`, `_dma32`, `_normal`).
    pub kernel_stalls: u64,
    /// Direct reclaims by requests for movable memory since boot (`allocstall_movable`).
    pub user_stalls: u64,
    /// Microseconds in which some task was stalled for lack of memory, since boot.
    pub psi_us: u64,
    /// Processes killed for lack of memory since boot.
    pub oom_kills: u64,
    /// Frames that the host's own reclaim has scanned, and its direct compactions, since boot: those for
    /// the limit of a cgroup do not count. Nothing where the kernel does not count them.
    pub scanned: Option<u64>,
    /// Free swap, in frames.
    pub swap_free: u64,
    /// Frames in hugetlb pages of all sizes, used or not.
    pub hugetlb: u64,
    /// Requests for hugetlb pages since boot (`htlb_buddy_alloc_success`). Since Linux 6.7 the pages of
    /// a request count as pages of the pool only once the whole request is over.
    pub pool_requests: u64,
}

/// A node. All sizes are in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeSample {
    /// The kernel's number for it.
    pub node: u32,
    /// Its kernel region: all zones below the movable one.
    pub kernel: KernelSample,
    /// Its movable zone.
    pub movable: MovableSample,
}

/// The kernel region of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KernelSample {
    /// Frames that the page allocator was given.
    pub managed: u64,
    /// Free for ordinary kernel requests: without what lower zones keep from them.
    pub available: u64,
    /// Sum of the high watermarks.
    pub high: u64,
    /// Sum of the min watermarks.
    pub min: u64,
    /// What the kernel itself uses: neither free nor on an LRU list.
    pub own: u64,
    /// User memory that found room here.
    pub user: u64,
    /// Of that, clean page cache: kernel requests reclaim it.
    pub cache: u64,
    /// Free for user requests beyond the reserves and the high watermarks.
    pub borrowable: u64,
    /// Free for kernel requests when user memory has taken all that the reserves leave it.
    pub kept: u64,
    /// Frames of the uppermost populated kernel zone.
    pub upper: u64,
    /// Frames of the kernel zones below that one, without ZONE_DMA.
    pub lower: u64,
    /// Frames of ZONE_NORMAL.
    pub normal: u64,
    /// Free frames on per-CPU lists.
    pub per_cpu: u64,
}

/// The movable zone of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MovableSample {
    /// Frames that the page allocator was given.
    pub managed: u64,
    /// Free frames.
    pub free: u64,
    /// The high watermark.
    pub high: u64,
    /// Clean page cache: it can be dropped.
    pub cache: u64,
}

impl KernelSample {
    /// What kernel requests can have: free frames, and what reclaim frees for them in time.
    pub const fn usable(&self) -> u64 {
        self.available + droppable(self.cache)
    }
}

impl MovableSample {
    /// What user requests can have without borrowing.
    pub const fn usable(&self) -> u64 {
        self.free + droppable(self.cache)
    }
}

/// Bytes of a frame of this host.
pub fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// How much of clean page cache counts as free (*chosen*): some of it is mapped, in use, or written
/// to meanwhile.
pub const fn droppable(cache: u64) -> u64 {
    cache / 4 * 3
}

impl NodeSample {
    /// All frames of the node that the page allocator was given.
    pub const fn managed(&self) -> u64 {
        self.kernel.managed + self.movable.managed
    }
}

/// The texts that a sample is computed from, parsed.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// `/proc/zoneinfo`.
    pub zones: &'a [ZoneInfo],
    /// `/proc/vmstat`.
    pub vmstat: &'a BTreeMap<String, u64>,
    /// Microseconds of `some` in `/proc/pressure/memory`; 0 without PSI.
    pub psi_us: u64,
    /// `SwapFree` of `/proc/meminfo`, in bytes.
    pub swap_free_bytes: u64,
    /// `Hugetlb` of `/proc/meminfo`: bytes in hugetlb pages of all sizes.
    pub hugetlb_bytes: u64,
}

impl Sample {
    /// Computes a sample.
    pub fn of(at: Duration, sources: Sources<'_>) -> Sample {
        let count = |name: &str| sources.vmstat.get(name).copied().unwrap_or(0);
        let mut numbers: Vec<u32> = sources.zones.iter().map(|zone| zone.id.node).collect();
        numbers.sort_unstable();
        numbers.dedup();
        Sample {
            at,
            nodes: numbers.into_iter().map(|node| of_node(node, sources.zones)).collect(),
            kernel_stalls: count("allocstall_dma")
                + count("allocstall_dma32")
                + count("allocstall_normal"),
            user_stalls: count("allocstall_movable"),
            psi_us: sources.psi_us,
            oom_kills: count("oom_kill"),
            scanned: SCANS
                .iter()
                .filter_map(|name| sources.vmstat.get(*name))
                .copied()
                .reduce(|a, b| a + b),
            swap_free: sources.swap_free_bytes / page_bytes(),
            hugetlb: sources.hugetlb_bytes / page_bytes(),
            pool_requests: count(POOL_REQUESTS),
        }
    }
}

/// The kernel's counters of a zone's LRU lists.
const LRU: [&str; 5] = [
    "nr_zone_inactive_anon",
    "nr_zone_active_anon",
    "nr_zone_inactive_file",
    "nr_zone_active_file",
    "nr_zone_unevictable",
];

/// Page cache that is not clean.
const UNWRITTEN: &str = "nr_zone_write_pending";

/// Pages that pools of huge pages got from the page allocator.
const POOL_REQUESTS: &str = "htlb_buddy_alloc_success";

/// The host's reclaim and compaction at work.
const SCANS: [&str; 3] = ["pgscan_kswapd", "pgscan_direct", "compact_stall"];

/// Whether a sample needs that counter of a zone.
pub fn is_zone_counter(name: &str) -> bool {
    LRU.contains(&name) || name == UNWRITTEN
}

/// Whether a sample needs that line of `/proc/vmstat`.
pub fn is_event(name: &str) -> bool {
    let is_other = [POOL_REQUESTS, "oom_kill"].contains(&name) || SCANS.contains(&name);
    is_other || name.starts_with("allocstall_")
}

fn of_node(node: u32, zones: &[ZoneInfo]) -> NodeSample {
    // Reserves are listed in the order of the node's zones, those without memory included.
    let own: Vec<&ZoneInfo> = zones.iter().filter(|zone| zone.id.node == node).collect();
    let place = |kind| own.iter().position(|zone| zone.id.kind == kind);
    let kernel = |zone: &&&ZoneInfo| {
        matches!(zone.id.kind, ZoneKind::Dma32 | ZoneKind::Normal) && zone.managed_frames > 0
    };
    let mut sample = NodeSample { node, ..NodeSample::default() };
    let kernel_zones: Vec<&ZoneInfo> = own.iter().filter(kernel).copied().collect();
    for (at, zone) in kernel_zones.iter().enumerate() {
        let counter = |name: &str| zone.counters.get(name).copied().unwrap_or(0);
        let reserve = |kind| {
            let listed = place(kind).and_then(|at| zone.lowmem_reserve_frames.get(at));
            listed.copied().unwrap_or(0)
        };
        let lru: u64 = LRU.iter().map(|name| counter(name)).sum();
        let file = counter("nr_zone_inactive_file") + counter("nr_zone_active_file");
        let free = zone.free_frames + zone.per_cpu_frames();
        let total = &mut sample.kernel;
        total.managed += zone.managed_frames;
        total.available += free.saturating_sub(reserve(ZoneKind::Normal));
        total.high += zone.watermarks.high;
        total.min += zone.watermarks.min;
        total.per_cpu += zone.per_cpu_frames();
        total.user += lru;
        total.cache += file.saturating_sub(counter(UNWRITTEN));
        total.own += zone.managed_frames.saturating_sub(free).saturating_sub(lru);
        let kept = reserve(ZoneKind::Movable) + zone.watermarks.high;
        total.borrowable += free.saturating_sub(kept);
        total.kept += kept.min(zone.managed_frames).saturating_sub(reserve(ZoneKind::Normal));
        if zone.id.kind == ZoneKind::Normal {
            total.normal = zone.managed_frames;
        }
        match at + 1 == kernel_zones.len() {
            true => total.upper = zone.managed_frames,
            false => total.lower += zone.managed_frames,
        }
    }
    if let Some(zone) = own.iter().find(|zone| zone.id.kind == ZoneKind::Movable) {
        let counter = |name: &str| zone.counters.get(name).copied().unwrap_or(0);
        let file = counter("nr_zone_inactive_file") + counter("nr_zone_active_file");
        sample.movable = MovableSample {
            managed: zone.managed_frames,
            free: zone.free_frames + zone.per_cpu_frames(),
            high: zone.watermarks.high,
            cache: file.saturating_sub(counter(UNWRITTEN)),
        };
    }
    sample
}

#[cfg(test)]
mod tests {
    use super::*;
    use prairie_host::texts::zoneinfo;

    /// Numbers as Linux 6.1 writes them for 4 GiB with 256 MiB low, zones that matter.
    const ZONES: &str = "\
Node 0, zone      DMA
  pages free     3840
        high     90
        managed  3840
        protection: (0, 230, 980, 3900, 3900)
Node 0, zone    DMA32
  pages free     50000
        min      300
        high     900
        managed  58000
        protection: (0, 0, 6000, 58000, 58000)
      nr_zone_inactive_file 2000
Node 0, zone   Normal
  pages free     40000
        min      1000
        high     3000
        managed  190000
        protection: (0, 0, 0, 60000, 60000)
      nr_zone_inactive_anon 10000
      nr_zone_active_file 20000
  pagesets
    cpu: 0
              count: 500
              high:  5810
              batch: 63
  start_pfn:           1048576
Node 0, zone  Movable
  pages free     30000
        high     8000
        managed  720000
        protection: (0, 0, 0, 0, 0)
      nr_zone_inactive_file 300000
      nr_zone_active_file 100000
      nr_zone_write_pending 1000
";

    #[test]
    fn kernel_zones_are_summed_without_what_is_kept_from_them() {
        let zones = zoneinfo::parse(ZONES).unwrap();
        let vmstat = [
            ("allocstall_normal", 3),
            ("allocstall_dma32", 4),
            ("oom_kill", 1),
            ("pgscan_kswapd", 5),
            ("compact_stall", 6),
        ];
        let vmstat = vmstat.into_iter().map(|(name, n)| (name.to_owned(), n)).collect();
        let sources = Sources {
            zones: &zones,
            vmstat: &vmstat,
            psi_us: 9,
            swap_free_bytes: 8192,
            hugetlb_bytes: 0,
        };
        let sample = Sample::of(Duration::from_secs(1), sources);
        assert_eq!((sample.kernel_stalls, sample.user_stalls, sample.oom_kills), (7, 0, 1));
        assert_eq!((sample.psi_us, sample.swap_free, sample.hugetlb), (9, 2, 0));
        assert_eq!(sample.scanned, Some(11));
        let [node] = sample.nodes[..] else { panic!("one node") };
        let kernel = node.kernel;
        assert_eq!(kernel.managed, 248_000);
        assert_eq!(kernel.available, 50_000 - 6000 + 40_500);
        assert_eq!((kernel.high, kernel.min, kernel.per_cpu), (3900, 1300, 500));
        assert_eq!(kernel.own, 58_000 - 50_000 - 2000 + 190_000 - 40_500 - 30_000);
        assert_eq!((kernel.user, kernel.cache), (32_000, 22_000));
        assert_eq!(kernel.usable(), kernel.available + 16_500);
        assert_eq!(kernel.kept, 58_000 - 6000 + 63_000, "all of DMA32");
        assert_eq!(kernel.borrowable, 0, "both zones are below what users leave alone");
        assert_eq!((kernel.upper, kernel.lower, kernel.normal), (190_000, 58_000, 190_000));
        let movable = node.movable;
        assert_eq!((movable.managed, movable.free, movable.high), (720_000, 30_000, 8000));
        assert_eq!(movable.cache, 399_000);
        assert_eq!(node.managed(), 968_000);
    }

    #[test]
    fn nothing_is_a_sample_too() {
        let sources = Sources {
            zones: &[],
            vmstat: &BTreeMap::new(),
            psi_us: 0,
            swap_free_bytes: 0,
            hugetlb_bytes: 4096,
        };
        let sample = Sample::of(Duration::ZERO, sources);
        assert_eq!(sample, Sample { hugetlb: 1, ..Sample::default() });
    }
}
