//! Statistics for other processes, which read them from this one's memory.
//!
//! A process writes them at most four times a second while it runs, so a reader needs neither a
//! signal nor a thread in the inspected process, and can inspect a process that hangs. The reader
//! formats them: code that formats here would be resident in every process, 300 KB of code and
//! buffers.

use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use super::collect;
use super::huge_page_mode::HugePageMode;
use super::statistics::{ClassStatistics, Classes, LargeObjects, Nodes, SmallObjects, Statistics};
use crate::front::choice::SystemClock;
use crate::front::heap::{Heap, Observer};
use crate::front::limit::LimitStatistics;
use crate::front::profile::TABLE;
use crate::front::protocol::flag::Flag;
use crate::front::protocol::sequence::Sequence;
use crate::front::size_class::CLASSES;
use crate::page_heap::{
    Backing, Clock, Components, LegacyStats, PageHeap, PageHeapStats, TemeraireStats,
};
use crate::units::Pages;

/// Magic number that a reader searches at the start of each page of a process's data. Its seventh
/// byte is the version of [`Record`] and of the profile's table.
pub const MAGIC: [u8; 8] = *b"PrHeap\x05\x7f";
/// Least time between two records.
const EVERY_NS: u64 = 250_000_000;

/// The published data, as it lies in memory.
#[repr(C, align(4096))]
pub struct Published {
    /// [`MAGIC`] once something is published.
    pub magic: AtomicU64,
    /// Odd while the record is written.
    pub sequence: Sequence,
    /// Operations of the page level since the record was written.
    pub operations_since: AtomicU32,
    /// When it was written, by the kernel's monotonic clock.
    pub written_ns: AtomicU64,
    /// Address of the profile's [`TABLE`](crate::front::profile::TABLE).
    pub profile: AtomicU64,
    record: UnsafeCell<Record>,
}

impl Published {
    /// Offset of the record.
    pub const RECORD_OFFSET: usize = offset_of!(Published, record);
}

/// Statistics as plain numbers: any bytes are a valid record.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Record {
    transparent_huge_pages: u8,
    /// 1 for the legacy page heap.
    legacy: u8,
    /// Entries of `classes` in use.
    classes_in_use: u32,
    small: SmallObjects,
    large: LargeObjects,
    span_metadata_bytes: usize,
    emergency_bytes: usize,
    limit: LimitStatistics,
    backing: Backing,
    spans_created: u64,
    spans_deleted: u64,
    released_pages: Pages,
    of_temeraire: TemeraireStats,
    of_legacy: LegacyStats,
    nodes: Nodes,
    /// The classes in use come first, so that a program that uses few touches few pages of them.
    classes: [ClassStatistics; CLASSES],
}

/// The published data of this process.
#[unsafe(no_mangle)]
pub static PRAIRIE_HEAP_PUBLISHED: Published = Published {
    magic: AtomicU64::new(0),
    sequence: Sequence::new(),
    operations_since: AtomicU32::new(0),
    written_ns: AtomicU64::new(0),
    profile: AtomicU64::new(0),
    // SAFETY: a record is made of numbers, for which zero is valid.
    record: UnsafeCell::new(unsafe { core::mem::zeroed() }),
};

// SAFETY: the record is written by the thread that has set `WRITING` alone, and is read by other
// processes only.
unsafe impl Sync for Published {}

static WRITING: Flag = Flag::new();

/// Counts operations of the page level and publishes statistics from time to time.
#[derive(Clone, Copy, Debug)]
pub struct Publisher;

impl<P: PageHeap> Observer<P> for Publisher {
    #[inline]
    fn page_operation(heap: &Heap<P, Publisher>) {
        tick(heap);
    }
}

#[inline]
fn tick<P: PageHeap>(heap: &Heap<P, Publisher>) {
    let published = &PRAIRIE_HEAP_PUBLISHED;
    // The clock is read at every eighth operation: the first one publishes nothing.
    if published.operations_since.fetch_add(1, Relaxed) % 8 == 7 {
        let now = SystemClock.now_ns();
        if now - published.written_ns.load(Relaxed).min(now) >= EVERY_NS {
            write(heap, now);
        }
    }
}

/// Publishes the statistics as they are now.
#[cold]
fn write<P: PageHeap>(heap: &Heap<P, Publisher>, now: u64) {
    let published = &PRAIRIE_HEAP_PUBLISHED;
    if !WRITING.raise() {
        return;
    }
    published.written_ns.store(now, Relaxed);
    if let Some(statistics) = collect::statistics(heap, Classes::Read(Vec::new())) {
        published.sequence.begin();
        // SAFETY: `WRITING` was ours to set, so no other thread of this process uses the record.
        unsafe { &mut *published.record.get() }.fill(&statistics, collect::classes(heap));
        published.operations_since.store(0, Relaxed);
        published.profile.store(&raw const TABLE as u64, Relaxed);
        published.magic.store(u64::from_le_bytes(MAGIC), Relaxed);
        published.sequence.end();
    }
    WRITING.lower();
}

/// Resets, in a forked child, what another thread was about to publish.
pub fn after_fork() {
    let published = &PRAIRIE_HEAP_PUBLISHED;
    if WRITING.lower() && published.sequence.is_odd() {
        published.magic.store(0, Relaxed);
        published.sequence.end();
    }
}

impl Record {
    /// Writes statistics in place: a record would take pages of the stack.
    fn fill(&mut self, statistics: &Statistics, classes: impl Iterator<Item = ClassStatistics>) {
        let Statistics { transparent_huge_pages, small, large, page_heap, .. } = statistics;
        self.transparent_huge_pages = *transparent_huge_pages as u8;
        (self.small, self.large) = (*small, *large);
        self.span_metadata_bytes = statistics.span_metadata_bytes;
        self.emergency_bytes = statistics.emergency_bytes;
        self.limit = statistics.limit;
        self.backing = page_heap.backing;
        self.spans_created = page_heap.spans_created;
        self.spans_deleted = page_heap.spans_deleted;
        self.released_pages = page_heap.released_pages;
        match &page_heap.components {
            Components::Temeraire(stats) => (self.legacy, self.of_temeraire) = (0, *stats),
            Components::Legacy(stats) => (self.legacy, self.of_legacy) = (1, *stats),
        }
        self.nodes = statistics.nodes;
        self.classes_in_use = 0;
        for (place, class) in self.classes.iter_mut().zip(classes) {
            *place = class;
            self.classes_in_use += 1;
        }
    }

    /// The statistics that were written.
    pub fn statistics(&self) -> Statistics {
        let in_use = (self.classes_in_use as usize).min(CLASSES);
        let (page_heap, components) = match self.legacy {
            0 => ("temeraire", Components::Temeraire(self.of_temeraire)),
            _ => ("legacy", Components::Legacy(self.of_legacy)),
        };
        Statistics {
            transparent_huge_pages: HugePageMode::of_number(self.transparent_huge_pages),
            small: self.small,
            large: self.large,
            span_metadata_bytes: self.span_metadata_bytes,
            emergency_bytes: self.emergency_bytes,
            limit: self.limit,
            page_heap: PageHeapStats {
                page_heap,
                backing: self.backing,
                spans_created: self.spans_created,
                spans_deleted: self.spans_deleted,
                released_pages: self.released_pages,
                components,
            },
            nodes: self.nodes,
            classes: Classes::Read(self.classes[..in_use].to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::limit::SoftLimit;
    use crate::page_heap::huge_filler::HugeFillerStats;

    fn statistics(components: Components, page_heap: &'static str) -> Statistics {
        let mut nodes = Nodes::default();
        nodes.set((1, 8), &Backing { live: Pages(15), ..Default::default() });
        let class = |size| ClassStatistics { size, spans: 3, live: 5, ..Default::default() };
        Statistics {
            transparent_huge_pages: HugePageMode::Madvise,
            small: SmallObjects { live_bytes: 1, cached_bytes: 2, ..Default::default() },
            large: LargeObjects { objects: 3, bytes: 4 },
            span_metadata_bytes: 5,
            emergency_bytes: 6,
            limit: SoftLimit::of(Pages(14)).statistics(),
            page_heap: PageHeapStats {
                page_heap,
                backing: Backing { live: Pages(7), free: Pages(8), ..Default::default() },
                spans_created: 9,
                spans_deleted: 10,
                released_pages: Pages(11),
                components,
            },
            nodes,
            classes: Classes::Read(vec![class(16), class(4096)]),
        }
    }

    #[test]
    fn what_is_read_is_what_was_written() {
        let huge_filler = HugeFillerStats { used_pages: Pages(12), ..Default::default() };
        let temeraire = TemeraireStats { huge_filler, ..Default::default() };
        let legacy = LegacyStats { releases: 13, ..Default::default() };
        // SAFETY: a record is made of numbers, for which zero is valid.
        let mut record: Record = unsafe { core::mem::zeroed() };
        for written in [
            statistics(Components::Temeraire(temeraire), "temeraire"),
            statistics(Components::Legacy(legacy), "legacy"),
        ] {
            record.fill(&written, written.classes.iter());
            let read = record.statistics();
            assert_eq!(format!("{read:?}"), format!("{written:?}"));
            assert_eq!(
                serde_json::to_value(&read).unwrap(),
                serde_json::to_value(&written).unwrap()
            );
        }
    }

    #[test]
    fn absurd_numbers_are_a_record_all_the_same() {
        // SAFETY: as above; all ones are numbers too.
        let mut record: Record = unsafe { core::mem::zeroed() };
        (record.classes_in_use, record.legacy, record.transparent_huge_pages) = (u32::MAX, 9, 200);
        let read = record.statistics();
        assert_eq!(read.classes.iter().count(), CLASSES);
        assert_eq!(read.transparent_huge_pages, HugePageMode::Unknown);
    }
}
