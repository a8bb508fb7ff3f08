//! Statistics of the heap, as text and as JSON.

use core::fmt;

use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};

use super::huge_page_mode::HugePageMode;
use crate::front::limit::LimitStatistics;
use crate::front::size_class::SizeClass;
use crate::memory::node::MAX_NODES;
use crate::page_heap::{Backing, PageHeapStats};
use crate::units::Pages;

/// The heap at one moment. Levels are read one after the other, so sums can be off by what other
/// threads do meanwhile.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Statistics {
    /// The kernel's setting of transparent huge pages.
    pub transparent_huge_pages: HugePageMode,
    /// Where small objects' memory is lost, in bytes.
    pub small: SmallObjects,
    /// Large objects.
    pub large: LargeObjects,
    /// Bytes of span metadata.
    #[serde(rename = "span_notes_bytes")]
    pub span_metadata_bytes: usize,
    /// Bytes handed out where a lock barred the way: in signal handlers inside the heap.
    pub emergency_bytes: usize,
    /// The soft limit.
    pub limit: LimitStatistics,
    /// The page heap.
    pub page_heap: PageHeapStats,
    /// The page heap of each NUMA node; empty while there is one page heap.
    #[serde(skip_serializing_if = "Nodes::is_empty")]
    pub nodes: Nodes,
    /// The size classes in use.
    pub classes: Classes,
}

/// Bytes of small objects by where they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[repr(C)]
#[non_exhaustive]
pub struct SmallObjects {
    /// In use by the program, rounded up to their classes.
    pub live_bytes: usize,
    /// In caches of CPUs and threads.
    pub cached_bytes: usize,
    /// In transfer caches.
    pub transfer_bytes: usize,
    /// Free in spans that have live or cached objects: external fragmentation.
    pub free_in_spans_bytes: usize,
    /// Tail waste: bytes of spans that no object fits in.
    #[serde(rename = "span_rest_bytes")]
    pub tail_waste_bytes: usize,
}

/// Large objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[repr(C)]
#[non_exhaustive]
pub struct LargeObjects {
    /// How many there are.
    pub objects: u64,
    /// Bytes of their pages.
    pub bytes: u64,
}

/// The page heap of a NUMA node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[repr(C)]
#[non_exhaustive]
pub struct NodeStatistics {
    /// The kernel's number of the node.
    pub node: u64,
    /// Bytes in spans.
    pub live_bytes: u64,
    /// Bytes with memory behind them in no span.
    pub free_bytes: u64,
    /// Bytes of address space without memory.
    pub unbacked_bytes: u64,
}

/// The page heaps of the NUMA nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Nodes {
    nodes: [NodeStatistics; MAX_NODES],
    in_use: u64,
}

impl Nodes {
    /// Whether there is one page heap, which needs no list.
    pub fn is_empty(&self) -> bool {
        self.in_use == 0
    }

    /// Each page heap.
    pub fn iter(&self) -> impl Iterator<Item = NodeStatistics> {
        let in_use = (self.in_use as usize).min(MAX_NODES);
        self.nodes[..in_use].iter().copied()
    }

    /// Sets what the page heap at an index has, on the node of a number.
    pub(super) fn set(&mut self, (index, number): (usize, u32), backing: &Backing) {
        self.in_use = self.in_use.max(index as u64 + 1);
        self.nodes[index] = NodeStatistics {
            node: number.into(),
            live_bytes: backing.live.bytes(),
            free_bytes: backing.free.bytes(),
            unbacked_bytes: backing.unbacked.bytes(),
        };
    }
}

impl Serialize for Nodes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

/// A size class in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[repr(C)]
#[non_exhaustive]
pub struct ClassStatistics {
    /// Bytes of an object.
    pub size: usize,
    /// Spans of the class.
    pub spans: usize,
    /// Objects in use by the program.
    pub live: usize,
    /// Objects in caches of CPUs and threads.
    pub cached: usize,
    /// Objects that those caches have room for.
    pub room: usize,
    /// Objects in the transfer cache.
    pub transfer: usize,
    /// Objects free in spans.
    pub free: usize,
}

impl ClassStatistics {
    /// Bytes of a span of the class that no object fits in.
    fn tail_waste(&self) -> usize {
        SizeClass::of_size(self.size).map_or(0, |class| {
            let info = class.info();
            Pages(info.pages.into()).bytes() as usize - usize::from(info.objects) * class.size()
        })
    }
}

/// The size classes in use.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Classes {
    /// Those of this process, collected as they are written out: a list would have to be allocated.
    Live(fn(SizeClass) -> ClassStatistics),
    /// Those of another process.
    Read(Vec<ClassStatistics>),
}

impl Classes {
    /// Each class that has spans.
    pub fn iter(&self) -> impl Iterator<Item = ClassStatistics> {
        let (read, live) = match self {
            Classes::Read(classes) => (&classes[..], None),
            Classes::Live(collect) => (&[][..], Some(SizeClass::all().map(collect))),
        };
        let live = live.into_iter().flatten().filter(|class| class.spans > 0);
        read.iter().copied().chain(live)
    }
}

impl Serialize for Classes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for class in self.iter() {
            list.serialize_element(&class)?;
        }
        list.end()
    }
}

impl SmallObjects {
    /// Free objects in the caches of CPUs and threads, and in transfer caches.
    pub fn in_caches_bytes(&self) -> usize {
        self.cached_bytes + self.transfer_bytes
    }

    /// Bytes of spans that hold no live or cached object.
    pub fn in_spans_bytes(&self) -> usize {
        self.free_in_spans_bytes + self.tail_waste_bytes
    }

    /// The sums of all classes in use.
    pub fn of(classes: impl Iterator<Item = ClassStatistics>) -> SmallObjects {
        classes.fold(SmallObjects::default(), |sum, class| SmallObjects {
            live_bytes: sum.live_bytes + class.live * class.size,
            cached_bytes: sum.cached_bytes + class.cached * class.size,
            transfer_bytes: sum.transfer_bytes + class.transfer * class.size,
            free_in_spans_bytes: sum.free_in_spans_bytes + class.free * class.size,
            tail_waste_bytes: sum.tail_waste_bytes + class.spans * class.tail_waste(),
        })
    }
}

impl Statistics {
    /// Bytes in use by the program.
    pub fn live_bytes(&self) -> usize {
        self.small.live_bytes + self.large.bytes as usize
    }
}

struct Mib(usize);

impl fmt::Display for Mib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} MiB", self.0 as f64 / f64::from(1 << 20))
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.transparent_huge_pages == HugePageMode::Never {
            writeln!(f, "transparent huge pages are off (never): no huge page is available")?;
        }
        let small = &self.small;
        writeln!(
            f,
            "live {}: small objects {}, {} large {}",
            Mib(self.live_bytes()),
            Mib(small.live_bytes),
            self.large.objects,
            Mib(self.large.bytes as usize)
        )?;
        writeln!(
            f,
            "free small objects: in caches {}, transfer caches {}, spans {}; tail waste {}",
            Mib(small.cached_bytes),
            Mib(small.transfer_bytes),
            Mib(small.free_in_spans_bytes),
            Mib(small.tail_waste_bytes)
        )?;
        writeln!(
            f,
            "span metadata {}, emergency allocations {}",
            Mib(self.span_metadata_bytes),
            Mib(self.emergency_bytes)
        )?;
        if self.limit.bytes > 0 {
            let LimitStatistics { bytes, released_bytes, exceeded } = self.limit;
            writeln!(
                f,
                "soft limit {}: {} given back for it, exceeded {exceeded} times",
                Mib(bytes as usize),
                Mib(released_bytes as usize)
            )?;
        }
        write!(f, "{}", self.page_heap)?;
        for NodeStatistics { node, live_bytes, free_bytes, unbacked_bytes } in self.nodes.iter() {
            writeln!(
                f,
                "  node {node}: in spans {}, free and backed {}, unbacked {}",
                Mib(live_bytes as usize),
                Mib(free_bytes as usize),
                Mib(unbacked_bytes as usize)
            )?;
        }
        writeln!(
            f,
            "{:>8} {:>8} {:>10} {:>8} {:>8} {:>8} {:>8}",
            "size", "spans", "live", "cached", "room", "transfer", "free"
        )?;
        for class in self.classes.iter() {
            let ClassStatistics { size, spans, live, cached, room, transfer, free } = class;
            writeln!(
                f,
                "{size:>8} {spans:>8} {live:>10} {cached:>8} {room:>8} {transfer:>8} {free:>8}"
            )?;
        }
        Ok(())
    }
}
