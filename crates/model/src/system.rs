//! The systems of the laboratory, by name.

use std::fmt;
use std::str::FromStr;

/// A named set of policies. Systems differ in nothing but those.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SystemName {
    /// One free list per order (Linux 2.6.16).
    Buddy,
    /// Two lists per order by reclaimability (the 2006 paper, section 5).
    Lists,
    /// The same with three: EasyRclm, KernRclm, KernNoRclm.
    ListsThreeWay,
    /// A zone for easily reclaimed pages (the 2006 paper, section 6).
    Zones,
    /// FreeBSD's physical memory allocator.
    FreeBsd,
    /// Pageblocks by migrate type with fallback and stealing (Linux 6.1).
    Linux,
    /// The same with the type of free memory kept strictly and foreign pageblocks spared as long as
    /// can be (Linux 6.15 with `vm.defrag_mode`).
    LinuxDefrag,
    /// Trees of pageblocks by class, reserved by CPUs (LLFree).
    Classes,
    /// Two regions with a moving border (Contiguitas).
    Contiguitas,
    /// The same with hardware that migrates unmovable pages in use.
    ContiguitasHw,
    /// Gigabytes kept clean of unmovable memory (proposed to Linux in 2026).
    Superpageblocks,
}

impl SystemName {
    /// All systems, baseline first.
    pub const ALL: [SystemName; 11] = [
        SystemName::Buddy,
        SystemName::Lists,
        SystemName::ListsThreeWay,
        SystemName::Zones,
        SystemName::FreeBsd,
        SystemName::Linux,
        SystemName::LinuxDefrag,
        SystemName::Classes,
        SystemName::Contiguitas,
        SystemName::ContiguitasHw,
        SystemName::Superpageblocks,
    ];

    /// The name by which commands and files know the system.
    pub const fn name(self) -> &'static str {
        match self {
            SystemName::Buddy => "buddy",
            SystemName::Lists => "lists",
            SystemName::ListsThreeWay => "lists-three-way",
            SystemName::Zones => "zones",
            SystemName::FreeBsd => "freebsd",
            SystemName::Linux => "linux",
            SystemName::LinuxDefrag => "linux-defrag",
            SystemName::Classes => "classes",
            SystemName::Contiguitas => "contiguitas",
            SystemName::ContiguitasHw => "contiguitas-hw",
            SystemName::Superpageblocks => "superpageblocks",
        }
    }

    /// What of the system this version has, in a sentence.
    pub const fn parts(self) -> &'static str {
        match self {
            SystemName::Buddy => {
                "placement of Linux 2.6.16: one free list per order, a per-CPU list of single frames"
            }
            SystemName::Lists => {
                "buddy with two lists per order and CPU, for easily reclaimed pages and all others, \
                 which steal from each other; without reclaim"
            }
            SystemName::ListsThreeWay => {
                "lists with kernel caches on a third list; without reclaim"
            }
            SystemName::Zones => {
                "buddy with a zone for easily reclaimed pages above kernelcore, empty where that is \
                 not given; fallback one way; without reclaim"
            }
            SystemName::FreeBsd => {
                "FreeBSD's vm_phys: free lists of orders 0 to 12 in two pools, first in, first out, \
                 a cache of single frames per CPU; without reservations (no trace tells of objects), \
                 reclaim and compaction"
            }
            SystemName::Linux => {
                "placement of Linux 6.1: pageblocks by migrate type, fallback and stealing, per-CPU \
                 lists, watermarks, high-atomic reserve; without reclaim and compaction"
            }
            SystemName::LinuxDefrag => {
                "placement of Linux 6.15 with vm.defrag_mode: linux, with free memory strictly on the \
                 lists of its pageblock's type, and foreign pageblocks broken up below the min \
                 watermark only; without reclaim and compaction"
            }
            SystemName::Classes => {
                "trees of 64 MiB kept by class (kernel, movable, huge) and reserved by CPUs, after \
                 LLFree; nothing is ever moved"
            }
            SystemName::Contiguitas => {
                "two regions never mixed, a border that moves by whole pageblocks as free memory \
                 and pressure call for, bias away from the border; pins are in no trace"
            }
            SystemName::ContiguitasHw => {
                "contiguitas with hardware that migrates unmovable pages out of the border's way"
            }
            SystemName::Superpageblocks => {
                "gigabytes clean or tainted, free lists for each, a worker that frees pageblocks in \
                 tainted ones; as proposed to Linux in 2026, without per-CPU lists and reclaim"
            }
        }
    }
}

impl fmt::Display for SystemName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no system has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no system `{0}`; the systems are {systems}", systems = names())]
pub struct UnknownSystem(String);

/// The names of all systems, in a sentence.
fn names() -> String {
    let names = SystemName::ALL.map(SystemName::name);
    let (last, others) = names.split_last().expect("systems");
    format!("{} and {last}", others.join(", "))
}

impl FromStr for SystemName {
    type Err = UnknownSystem;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = SystemName::ALL.into_iter().find(|system| system.name() == name);
        found.ok_or_else(|| UnknownSystem(name.to_owned()))
    }
}
