//! A report of the kernel as a value.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Gfp;
use crate::ZoneId;

/// What a report is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
#[non_exhaustive]
pub enum IncidentKind {
    /// `page allocation failure`: a request got nothing.
    AllocationFailure,
    /// `page allocation stalls for …` (4.10 to 4.14): a request still waits.
    AllocationStall {
        /// Milliseconds that it has waited.
        waited_ms: u64,
    },
    /// `vmalloc: allocation failure`: single pages for a mapping ran out.
    VmallocFailure {
        /// The size of the mapping in bytes, where it is printed.
        bytes: Option<u64>,
    },
    /// `invoked oom-killer`.
    OutOfMemory,
}

/// One report.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Incident {
    /// The line where it begins, from 1.
    pub line: u64,
    /// When, as the log has it.
    pub time: Option<String>,
    /// What it is about.
    #[serde(flatten)]
    pub kind: IncidentKind,
    /// The name of the task that made the request.
    pub process: String,
    /// Its process number, where it is printed.
    pub pid: Option<u32>,
    /// `uname -r`, where it is printed.
    pub kernel_release: Option<String>,
    /// The request.
    pub request: Request,
    /// Functions on the way to the request, the innermost first.
    pub call_trace: Vec<String>,
    /// The slab cache that asked for pages, if one did.
    pub slab_cache: Option<SlabCache>,
    /// The state of memory.
    pub memory: MemoryState,
    /// The limit that was hit, where it is that of a cgroup.
    pub cgroup: Option<CgroupLimit>,
    /// Who was killed.
    pub victim: Option<Victim>,
    /// `CONSTRAINT_MEMCG` and the like, where it is printed (since 4.19).
    pub constraint: Option<String>,
    /// Tasks that could be killed, by decreasing memory; the first twenty.
    pub tasks: Vec<Task>,
}

/// The request of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Request {
    /// 2^order pages, contiguous.
    pub order: u32,
    /// The flags.
    pub gfp: Gfp,
    /// Nodes that it was limited to, where it was.
    pub nodemask: Option<String>,
    /// The cpuset, where it is printed.
    pub cpuset: Option<String>,
    /// Nodes that the cpuset allows, where they are printed.
    pub mems_allowed: Option<String>,
}

/// The slab cache behind a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SlabCache {
    /// Its name.
    pub name: String,
    /// The order that it asks for.
    pub default_order: Option<u32>,
    /// The order that it makes do with.
    pub min_order: Option<u32>,
}

/// The state of memory when the report was printed, a little after the failure.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct MemoryState {
    /// The zones, in the order of the report.
    pub zones: Vec<ZoneState>,
    /// Pages of the whole machine by the kernel's names (`active_anon`, `slab_unreclaimable`).
    pub pages: BTreeMap<String, u64>,
    /// Pages of RAM.
    pub ram_pages: Option<u64>,
    /// Pages that the page allocator was never given.
    pub reserved_pages: Option<u64>,
    /// Free swap in KiB.
    pub swap_free_kib: Option<u64>,
    /// All swap in KiB.
    pub swap_total_kib: Option<u64>,
}

/// One zone. Sizes are in KiB, as printed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ZoneState {
    /// The zone.
    #[serde(flatten)]
    pub id: ZoneId,
    /// Sizes by the kernel's names: `free`, `min`, `low`, `high`, `managed`, `free_cma` and more.
    pub sizes_kib: BTreeMap<String, u64>,
    /// `lowmem_reserve[]` in pages, by the number of the zone that a request could use instead.
    pub lowmem_reserve_pages: Vec<u64>,
    /// Free blocks by order.
    pub free_blocks: Vec<FreeBlocksOfOrder>,
    /// The size of a page, by the free blocks of order 0.
    pub page_kib: u64,
}

/// The free blocks of one order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FreeBlocksOfOrder {
    /// How many.
    pub blocks: u64,
    /// The letters of the migrate types that have any: U unmovable, M movable, E reclaimable, H
    /// reserved for atomic requests, R reserve (to 4.3), C CMA, I isolated.
    pub types: String,
}

impl ZoneState {
    /// An empty zone.
    pub fn new(id: ZoneId) -> ZoneState {
        ZoneState {
            id,
            sizes_kib: BTreeMap::new(),
            lowmem_reserve_pages: Vec::new(),
            free_blocks: Vec::new(),
            page_kib: 4,
        }
    }

    /// A size by its name; 0 where it is not printed.
    pub fn kib(&self, name: &str) -> u64 {
        self.sizes_kib.get(name).copied().unwrap_or(0)
    }

    /// The numbers of free blocks by order.
    pub fn blocks(&self) -> Vec<u64> {
        self.free_blocks.iter().map(|free| free.blocks).collect()
    }
}

/// A cgroup at its limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CgroupLimit {
    /// The cgroup whose limit it is.
    pub path: Option<String>,
    /// Memory charged in KiB.
    pub usage_kib: Option<u64>,
    /// The limit in KiB.
    pub limit_kib: Option<u64>,
    /// Swap or memory with swap: usage and limit in KiB.
    pub swap_kib: Option<(u64, u64)>,
}

/// The process that the OOM killer chose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Victim {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Its anonymous memory in KiB.
    pub anon_rss_kib: Option<u64>,
}

/// A task of an OOM report's table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Task {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Resident memory in pages.
    pub rss_pages: u64,
    /// Swapped-out pages.
    pub swap_pages: u64,
    /// `oom_score_adj`: -1000 is never killed.
    pub oom_score_adj: i64,
}
