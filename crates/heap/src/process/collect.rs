//! Statistics of a heap, collected level by level.

use super::huge_page_mode;
use super::statistics::{ClassStatistics, Classes, LargeObjects, SmallObjects, Statistics};
use crate::front::cpu::CpuCaches;
use crate::front::emergency;
use crate::front::heap::{Heap, Observer};
use crate::front::size_class::SizeClass;
use crate::front::slab::Slab;
use crate::front::thread::ThreadStacks;
use crate::page_heap::PageHeap;

/// The statistics of a heap, which the caller completes with its `classes`. `None` while the page
/// level cannot be locked: before setup, and in a signal handler that interrupted the heap.
///
/// Levels are read one after the other, so sums can be off by what other threads do meanwhile.
pub fn statistics<P: PageHeap, O: Observer<P>>(
    heap: &Heap<P, O>,
    classes: Classes,
) -> Option<Statistics> {
    let (live, page_heap) = heap.page_state(|page_heap| page_heap.stats())?;
    Some(Statistics {
        transparent_huge_pages: huge_page_mode::of_system(),
        small: SmallObjects::of(self::classes(heap)),
        large: LargeObjects { objects: live.large_spans, bytes: live.large.bytes() },
        span_metadata_bytes: live.metadata_bytes,
        emergency_bytes: emergency::used(),
        limit: live.limit,
        page_heap,
        classes,
    })
}

/// Statistics of each size class that has spans, collected as they are requested.
pub fn classes<P: PageHeap, O: Observer<P>>(
    heap: &Heap<P, O>,
) -> impl Iterator<Item = ClassStatistics> {
    SizeClass::all().map(|size| class(heap, size)).filter(|class| class.spans > 0)
}

/// Statistics of a size class.
pub fn class<P: PageHeap, O: Observer<P>>(heap: &Heap<P, O>, class: SizeClass) -> ClassStatistics {
    let (central, transfer) = heap.class_state(class);
    let sum = |of_slab: fn(&Slab, SizeClass) -> usize| {
        let cpus = CpuCaches::slabs().map(|(_, slab)| slab);
        cpus.chain(ThreadStacks::slabs()).map(|slab| of_slab(slab, class)).sum::<usize>()
    };
    let (cached, room) = (sum(Slab::len), sum(Slab::room));
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
