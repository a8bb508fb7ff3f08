//! A scenario in TOML: a machine, and what runs on it.
//!
//! `docs/src/guide/lab.md` documents every key. Everything is checked before anything runs: an error names
//! the key and the range that it must lie in.

mod check;
mod parse;

use serde::{Deserialize, Serialize};

pub use check::{Invalid, check_allocator};
pub(crate) use parse::from_toml;
pub use parse::{ScenarioError, parse};

use super::costs::Costs;
use prairie_model::random::{Size, Spread, Time};
use prairie_model::zones::Architecture;

/// A machine and its workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The name in reports.
    #[serde(default)]
    pub name: String,
    /// The random seed.
    #[serde(default = "one")]
    pub seed: u64,
    /// The hardware.
    pub machine: Hardware,
    /// Where files and swap are.
    #[serde(default)]
    pub disk: DiskConfig,
    /// Settings of `/proc/sys/vm` and `/sys/kernel/mm`.
    #[serde(default)]
    pub vm: Vm,
    /// What work costs.
    #[serde(default)]
    pub costs: Costs,
    /// Files that processes read.
    #[serde(default)]
    pub files: Vec<FileSet>,
    /// Kinds of processes.
    #[serde(default, rename = "process")]
    pub processes: Vec<ProcessKind>,
    /// Kernel memory that comes and goes by itself.
    #[serde(default, rename = "kernel")]
    pub kernel: Vec<KernelKind>,
    /// What happens, one phase after another.
    #[serde(default, rename = "phase")]
    pub phases: Vec<Phase>,
}

const fn one() -> u64 {
    1
}

/// The hardware of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hardware {
    /// The architecture of the zones.
    #[serde(default)]
    pub architecture: Architecture,
    /// Memory of all nodes.
    pub memory: Bytes,
    /// Memory below 4 GiB, where the rest lies above; all of it is in a row without this.
    #[serde(default)]
    pub low: Option<Bytes>,
    /// CPUs of all nodes.
    #[serde(default = "four")]
    pub cpus: u16,
    /// NUMA nodes.
    #[serde(default = "one_node")]
    pub nodes: u16,
    /// The size of the kernel image and its static data.
    #[serde(default = "kernel_image")]
    pub kernel: Bytes,
    /// Swap space.
    #[serde(default)]
    pub swap: Bytes,
    /// Memory that stays outside the movable zone (`kernelcore=`); only `zones` uses it.
    #[serde(default)]
    pub kernelcore: Option<Bytes>,
    /// The order of a persistent huge page.
    #[serde(default = "order_9")]
    pub huge_order: u8,
}

const fn four() -> u16 {
    4
}

const fn one_node() -> u16 {
    1
}

const fn order_9() -> u8 {
    9
}

const fn kernel_image() -> Bytes {
    Bytes(24 << 20)
}

/// A disk.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DiskConfig {
    /// Time before a request's first byte.
    pub seek: Nanoseconds,
    /// Bytes a second after that.
    pub bandwidth: Bytes,
}

impl Default for DiskConfig {
    /// A server's solid-state disk.
    fn default() -> DiskConfig {
        DiskConfig { seek: Nanoseconds(80_000), bandwidth: Bytes(500 << 20) }
    }
}

/// When page faults get huge pages (`/sys/kernel/mm/transparent_hugepage/enabled`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HugePages {
    /// Always where they fit.
    #[default]
    Always,
    /// Where a process asked for them.
    Madvise,
    /// Never.
    Never,
}

/// How hard a page fault tries for a huge page (`transparent_hugepage/defrag`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Defrag {
    /// Reclaims and compacts.
    Always,
    /// Wakes the daemons, does nothing itself.
    Defer,
    /// Does it itself where a process asked for huge pages, else wakes the daemons.
    DeferMadvise,
    /// Does it itself where a process asked for huge pages, else takes what there is.
    #[default]
    Madvise,
    /// Takes what there is.
    Never,
}

/// Settings of memory management.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Vm {
    /// `vm.swappiness`, 0 to 200.
    pub swappiness: u64,
    /// `vm.watermark_scale_factor`, 1 to 3000.
    pub watermark_scale_factor: u64,
    /// `vm.watermark_boost_factor`.
    pub watermark_boost_factor: u64,
    /// `vm.min_free_kbytes`, computed by the kernel's rule where it is not set.
    pub min_free: Option<Bytes>,
    /// `vm.extfrag_threshold`, 0 to 1000.
    pub extfrag_threshold: i64,
    /// `vm.compaction_proactiveness`, 0 to 100.
    pub compaction_proactiveness: u64,
    /// Transparent huge pages at page faults.
    pub thp: HugePages,
    /// How hard page faults try for them.
    pub thp_defrag: Defrag,
    /// Whether khugepaged runs; it does where `thp` is not `never`.
    pub khugepaged: bool,
    /// Dirty page cache in percent of memory above which writeback begins.
    pub dirty_background_ratio: u64,
    /// Dirty page cache in percent of memory above which writers wait.
    pub dirty_ratio: u64,
}

impl Default for Vm {
    fn default() -> Vm {
        Vm {
            swappiness: 60,
            watermark_scale_factor: 10,
            watermark_boost_factor: 15_000,
            min_free: None,
            extfrag_threshold: 500,
            compaction_proactiveness: 20,
            thp: HugePages::Always,
            thp_defrag: Defrag::Madvise,
            khugepaged: true,
            dirty_background_ratio: 10,
            dirty_ratio: 20,
        }
    }
}

/// A set of files on the disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSet {
    /// What processes call it.
    pub name: String,
    /// Number of files of one copy.
    pub count: u32,
    /// Size of each.
    pub size: Spread<Size>,
    /// Copies of the set, assigned to process instances in round-robin order.
    #[serde(default = "one_copy")]
    pub copies: u32,
    /// Whether processes map and execute them, as programs and libraries.
    #[serde(default)]
    pub mapped: bool,
}

const fn one_copy() -> u32 {
    1
}

/// A kind of process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessKind {
    /// What phases call it.
    pub name: String,
    /// CPU time that each uses from its start to its end.
    pub cpu: Spread<Time>,
    /// Anonymous memory that each has touched by its end.
    #[serde(default)]
    pub anonymous: Spread<Size>,
    /// Share of its life in which it touches all of that.
    #[serde(default = "whole")]
    pub growth: f64,
    /// Share of its memory that it keeps using.
    #[serde(default = "quarter")]
    pub hot: f64,
    /// The set of files that it reads.
    #[serde(default)]
    pub files: Option<String>,
    /// Bytes of files that each reads in its life.
    #[serde(default)]
    pub read: Spread<Size>,
    /// How unevenly it chooses files: 1 for evenly, more for a preference of the first.
    #[serde(default = "even")]
    pub skew: f64,
    /// Looks at the metadata of files instead of reading them: files a second of CPU time.
    #[serde(default)]
    pub stat_rate: f64,
    /// Bytes of new files that each writes in its life.
    #[serde(default)]
    pub write: Spread<Size>,
    /// Size of each file that it writes.
    #[serde(default = "file_of_32_kib")]
    pub written_file: Spread<Size>,
    /// Whether the files that it wrote are deleted when it ends.
    #[serde(default)]
    pub temporary: bool,
    /// Time asleep after each slice of work.
    #[serde(default)]
    pub pause: Spread<Time>,
    /// Length of a slice of work.
    #[serde(default = "two_ms")]
    pub slice: Nanoseconds,
    /// Whether it asks for huge pages (`madvise`).
    #[serde(default)]
    pub madvise: bool,
}

const fn whole() -> f64 {
    1.0
}

const fn quarter() -> f64 {
    0.25
}

const fn even() -> f64 {
    1.0
}

const fn file_of_32_kib() -> Spread<Size> {
    Spread::fixed(32768.0)
}

const fn two_ms() -> Nanoseconds {
    Nanoseconds(2_000_000)
}

/// What kernel memory can be got rid of how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelUse {
    /// Stays where it is until it is freed.
    #[default]
    Unmovable,
    /// The same, on user pages that a device has pinned.
    Pinned,
}

/// Kernel memory that comes and goes by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelKind {
    /// The name in reports.
    pub name: String,
    /// Order of each block.
    #[serde(default)]
    pub order: u8,
    /// Blocks a second.
    pub rate: f64,
    /// How long each is kept.
    pub lifetime: Spread<Time>,
    /// Whether it is kernel memory or pinned user memory.
    #[serde(default, rename = "use")]
    pub used_as: KernelUse,
    /// Whether requests cannot wait (`GFP_ATOMIC`).
    #[serde(default)]
    pub atomic: bool,
    /// Whether blocks are never freed; the lifetime does not count then.
    #[serde(default)]
    pub permanent: bool,
}

/// A stretch of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// The name in reports.
    pub name: String,
    /// How long it lasts.
    pub duration: Nanoseconds,
    /// Processes of each kind that run; one that ends is followed by another. Kinds that are not
    /// named end at once.
    #[serde(default)]
    pub run: std::collections::BTreeMap<String, u32>,
    /// Kinds of kernel memory that come in this phase; all if it is not given.
    #[serde(default)]
    pub kernel: Option<Vec<String>>,
    /// Sets of files that are deleted when it begins, with everything that was written.
    #[serde(default)]
    pub delete: Vec<String>,
    /// Size of the pool of persistent huge pages (`machine.huge_order`) from its beginning on.
    #[serde(default)]
    pub hugetlb: Option<u64>,
    /// Size of the pool of 1 GiB pages.
    #[serde(default)]
    pub gigantic: Option<u64>,
}

/// A size in bytes, written as `64G`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Bytes(pub u64);

impl Bytes {
    /// Whole frames of 4 KiB in it.
    pub const fn frames(self) -> u64 {
        self.0 / 4096
    }
}

/// A time in nanoseconds, written as `250ms`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Nanoseconds(pub u64);
