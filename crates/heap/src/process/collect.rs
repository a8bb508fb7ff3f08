//! Statistics of a heap and those of other nodes, collected level by level.

use super::huge_page_mode;
use super::statistics::{ClassStatistics, Classes, LargeObjects, Nodes, SmallObjects, Statistics};
use crate::front::central::CentralState;
use crate::front::cpu::CpuCaches;
use crate::front::emergency;
use crate::front::heap::{Heap, Observer};
use crate::front::size_class::SizeClass;
use crate::front::thread::ThreadStacks;
use crate::page_heap::PageHeap;

/// The statistics of the heaps of all nodes, which the caller completes with their `classes`. `None`
/// while a page level cannot be locked: before setup, and in a signal handler that interrupted the
/// heap.
///
/// Levels are read one after the other, so sums can be off by what other threads do meanwhile.
pub fn statistics<P: PageHeap, O: Observer<P>>(
    heap: &Heap<P, O>,
    classes: Classes,
) -> Option<Statistics> {
    let (live, page_heap) = heap.page_state(|page_heap| page_heap.stats())?;
    let mut statistics = Statistics {
        transparent_huge_pages: huge_page_mode::of_system(),
        small: SmallObjects::of(self::classes(heap)),
        large: LargeObjects { objects: live.large_spans, bytes: live.large.bytes() },
        span_metadata_bytes: live.metadata_bytes,
        emergency_bytes: emergency::used(),
        limit: live.limit,
        page_heap,
        nodes: Nodes::default(),
        classes,
    };
    for other in heap.all().skip(1) {
        add_node(&mut statistics, heap, other)?;
    }
    Some(statistics)
}

/// Adds the page level of another node to the statistics that begin with that of `heap`.
fn add_node<P: PageHeap, O: Observer<P>>(
    statistics: &mut Statistics,
    heap: &Heap<P, O>,
    other: &Heap<P, O>,
) -> Option<()> {
    let place = |heap: &Heap<P, O>| (heap.node().index(), heap.node_number());
    if statistics.nodes.is_empty() {
        statistics.nodes.set(place(heap), &statistics.page_heap.backing);
    }
    let (live, page_heap) = other.page_state(|page_heap| page_heap.stats())?;
    statistics.nodes.set(place(other), &page_heap.backing);
    statistics.page_heap.add(&page_heap);
    statistics.large.objects += live.large_spans;
    statistics.large.bytes += live.large.bytes();
    statistics.span_metadata_bytes += live.metadata_bytes;
    statistics.limit.released_bytes += live.limit.released_bytes;
    statistics.limit.exceeded += live.limit.exceeded;
    Some(())
}

/// Statistics of each size class that has spans, collected as they are requested.
pub fn classes<P: PageHeap, O: Observer<P>>(
    heap: &Heap<P, O>,
) -> impl Iterator<Item = ClassStatistics> {
    SizeClass::all().map(|size| class(heap, size)).filter(|class| class.spans > 0)
}

/// Statistics of a size class on all nodes.
pub fn class<P: PageHeap, O: Observer<P>>(heap: &Heap<P, O>, class: SizeClass) -> ClassStatistics {
    let (mut central, mut transfer, mut cached, mut room) = (CentralState::default(), 0, 0, 0);
    for heap in heap.all() {
        let (of_central, of_transfer) = heap.class_state(class);
        central.spans += of_central.spans;
        central.free_objects += of_central.free_objects;
        transfer += of_transfer;
        for (_, slab) in CpuCaches::slabs(heap.node()) {
            (cached, room) = (cached + slab.len(class), room + slab.room(class));
        }
    }
    for slab in ThreadStacks::slabs() {
        (cached, room) = (cached + slab.len(class), room + slab.room(class));
    }
    let objects = central.spans * usize::from(class.info().objects);
    let elsewhere = cached + transfer + central.free_objects;
    ClassStatistics {
        size: class.size(),
        spans: central.spans,
        live: objects.saturating_sub(elsewhere),
        cached,
        room,
        transfer,
        free: central.free_objects,
    }
}
