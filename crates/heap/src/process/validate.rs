//! Consistency check of all levels of the heap: for tests, in debug builds.
//!
//! ```text
//! page map ─ every page of a span leads to it, with its class
//! central free lists ─ have just the spans with free objects, and count them
//! transfer caches, caches ─ hold objects of live spans, each of them once, that no span calls free
//! page level ─ counts the pages of just those spans; the page heap agrees, and with itself
//! ```
//! Where there are several NUMA nodes, that is checked for each: its levels hold what lies on it.

use core::alloc::Layout;
use core::sync::atomic::Ordering::Relaxed;

use super::shared::HEAP;
use super::{malloc, nodes, setup};
use crate::front::cpu::CpuCaches;
use crate::front::heap::{Heap, Observer};
use crate::front::size_class::{CLASSES, SizeClass};
use crate::front::slab::{Slab, begin};
use crate::front::thread::ThreadStacks;
use crate::memory::node::Node;
use crate::page_heap::PageHeap;
use crate::storage::{Mapped, Storage};
use crate::units::{PageId, Pages};

/// Sums over the spans in the page map.
struct Spans {
    of_class: [OfClass; CLASSES + 1],
    large: u64,
    large_pages: Pages,
    pages: Pages,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct OfClass {
    spans: usize,
    free_objects: usize,
    spans_with_free: usize,
}

/// Checks the heaps of the process. No other thread may be inside a heap meanwhile.
///
/// # Errors
/// A message that names the inconsistency.
pub fn process() -> Result<(), String> {
    setup::ensure_ready();
    malloc::take_back_deferred();
    HEAP.all().try_for_each(|of_node| {
        let of_cpus = || CpuCaches::slabs(of_node.node()).map(|(_, slab)| slab);
        let of_threads = || (!nodes::are_several()).then(ThreadStacks::slabs).into_iter().flatten();
        let checked = heap(of_node, nodes::of, || of_cpus().chain(of_threads()));
        checked.map_err(|error| format!("node {}: {error}", of_node.node().index()))
    })
}

/// Checks the heap of a node and the caches in front of it. `node_of` gives the node of an address.
/// No other thread may be inside meanwhile.
///
/// # Errors
/// As for [`process`].
pub fn heap<'a, P: PageHeap, O: Observer<P>, I>(
    heap: &Heap<P, O>,
    node_of: impl Fn(*mut u8) -> Node,
    slabs: impl Fn() -> I,
) -> Result<(), String>
where
    I: Iterator<Item = &'a Slab>,
{
    let is_here = |address: u64| node_of(address as *mut u8) == heap.node();
    let spans = spans(heap, is_here)?;
    central_lists(heap, &spans, is_here)?;
    slabs().try_for_each(slab)?;
    cached_objects(heap, is_here, &slabs)?;
    page_level(heap, &spans)
}

/// Walks the spans of the page map that begin on the node.
fn spans<P: PageHeap, O: Observer<P>>(
    heap: &Heap<P, O>,
    is_here: impl Fn(u64) -> bool,
) -> Result<Spans, String> {
    let mut sums = Spans {
        of_class: [OfClass::default(); CLASSES + 1],
        large: 0,
        large_pages: Pages::ZERO,
        pages: Pages::ZERO,
    };
    let mut known_pages = 0;
    heap.page_map().try_each(|page, class, span| {
        // SAFETY: the page map knows live spans only, and no thread changes them now.
        let Some(span) = (unsafe { span.as_ref() }) else {
            return Err(format!("{page:?} has a class and no span"));
        };
        let pages = span.pages();
        if page < pages.start || page >= pages.end() || class != span.class() {
            return Err(format!("{page:?} of {class:?} leads to {span:?}"));
        }
        if is_here(page.address()) != is_here(pages.start.address()) {
            return Err(format!("{span:?} lies on two nodes"));
        }
        if !is_here(page.address()) {
            return Ok(());
        }
        known_pages += 1;
        if page != pages.start {
            return Ok(());
        }
        if !span.is_consistent() {
            return Err(format!("{span:?} miscounts its free objects"));
        }
        sums.pages += pages.len;
        match class {
            Some(class) => {
                let sums = &mut sums.of_class[class.number()];
                sums.spans += 1;
                sums.free_objects += span.free();
                sums.spans_with_free += usize::from(span.free() > 0);
            }
            None => {
                sums.large += 1;
                sums.large_pages += pages.len;
            }
        }
        Ok(())
    })?;
    let expected = (sums.pages - sums.large_pages).0 + sums.large;
    if known_pages != expected {
        return Err(format!("the page map knows {known_pages} pages of {expected}"));
    }
    Ok(sums)
}

fn central_lists<P: PageHeap, O: Observer<P>>(
    heap: &Heap<P, O>,
    spans: &Spans,
    is_here: impl Fn(u64) -> bool,
) -> Result<(), String> {
    SizeClass::all().try_for_each(|class| {
        let Some(list) = heap.levels(class).central.lock() else {
            return Err(format!("the central free list of {class:?} is locked"));
        };
        let listed = list.validate(&is_here).map_err(|error| format!("{class:?}: {error}"))?;
        let state = list.state();
        let of_list = OfClass {
            spans: state.spans,
            free_objects: state.free_objects,
            spans_with_free: listed,
        };
        let of_map = spans.of_class[class.number()];
        if of_list == of_map {
            return Ok(());
        }
        Err(format!("{class:?}: the central free list has {of_list:?}, the page map {of_map:?}"))
    })
}

/// That the stacks of a cache lie where they may, and that their room is accounted for.
fn slab(slab: &Slab) -> Result<(), String> {
    let mut room_bytes = 0;
    for class in SizeClass::all() {
        let (header, first) = (slab.header(class), begin(class));
        let last = first + u32::from(class.info().max_cached);
        let untouched = header.top == 0 && header.end == 0;
        let sound = first <= header.top && header.top <= header.end && header.end <= last;
        if !untouched && !sound {
            return Err(format!("the stack of {class:?} is {header:?} of {first} to {last}"));
        }
        room_bytes += slab.room(class) * class.size();
    }
    let noted = slab.learned.room_bytes.load(Relaxed);
    if noted != room_bytes {
        return Err(format!("a cache has room for {room_bytes} bytes and notes {noted}"));
    }
    Ok(())
}

/// That each object of a cache is one of a live span of the node, which does not call it free, and
/// is in one place only.
fn cached_objects<'a, P: PageHeap, O: Observer<P>, I>(
    heap: &Heap<P, O>,
    is_here: impl Fn(u64) -> bool,
    slabs: &impl Fn() -> I,
) -> Result<(), String>
where
    I: Iterator<Item = &'a Slab>,
{
    // Twice the same way: counted, then gathered where nothing is allocated for it.
    let mut count = 0;
    each_cached(heap, slabs, |_, _| {
        count += 1;
        Ok(())
    })?;
    let Ok(layout) = Layout::array::<usize>(count) else { return Ok(()) };
    if count == 0 {
        return Ok(());
    }
    let Some(place) = Mapped::take(layout) else { return Err("no storage to validate".into()) };
    // SAFETY: zeroed storage for as many words, this function's own.
    let gathered = unsafe { core::slice::from_raw_parts_mut(place.as_ptr().cast(), count) };
    let mut next = 0;
    let checked = each_cached(heap, slabs, |class, object| {
        let span = heap.page_map().span(PageId::containing(object as u64));
        // SAFETY: as in `spans`.
        let of_span = unsafe { span.as_ref() }.is_some_and(|span| {
            let begins = span.class() == Some(class) && span.index_of(object).is_ok();
            begins && !span.is_free(object)
        });
        if !is_here(object as u64) {
            return Err(format!("{object:#x} is cached for another node than its own"));
        }
        if !of_span || next == count {
            return Err(format!("{object:#x} is cached and no object of {class:?} in use"));
        }
        gathered[next] = object;
        next += 1;
        Ok(())
    });
    gathered.sort_unstable();
    let twice = gathered.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
    // SAFETY: taken above, and not used any more.
    unsafe { Mapped::give_back(place, layout) };
    match (checked, twice) {
        (Ok(()), Some(object)) => Err(format!("{object:#x} is cached twice")),
        (checked, _) => checked,
    }
}

/// Each object in caches and transfer caches, with the class of its place.
fn each_cached<'a, P: PageHeap, O: Observer<P>, I>(
    heap: &Heap<P, O>,
    slabs: &impl Fn() -> I,
    mut act: impl FnMut(SizeClass, usize) -> Result<(), String>,
) -> Result<(), String>
where
    I: Iterator<Item = &'a Slab>,
{
    let mut transferred = 0;
    for class in SizeClass::all() {
        for slab in slabs() {
            let top = slab.header(class).top;
            for number in begin(class) + 1..=top {
                act(class, slab.slot(number).load(Relaxed) as usize)?;
            }
        }
        let Some(cache) = heap.levels(class).transfer.lock() else {
            return Err(format!("the transfer cache of {class:?} is locked"));
        };
        transferred += cache.len() * class.size();
        cache.objects().iter().try_for_each(|&object| act(class, object as usize))?;
    }
    let noted = heap.transferred.load(Relaxed);
    if noted != transferred {
        return Err(format!("transfer caches hold {transferred} bytes and note {noted}"));
    }
    Ok(())
}

fn page_level<P: PageHeap, O: Observer<P>>(heap: &Heap<P, O>, spans: &Spans) -> Result<(), String> {
    let Some(mut level) = heap.pages.lock() else { return Err("the page level is locked".into()) };
    let live = level.live();
    if (live.pages, live.large_spans, live.large) != (spans.pages, spans.large, spans.large_pages) {
        return Err(format!(
            "the page level has {live:?}, the page map {:?}, of them {} large spans of {:?}",
            spans.pages, spans.large, spans.large_pages
        ));
    }
    let Some(page_heap) = level.page_heap() else { return Ok(()) };
    let in_page_heap = page_heap.stats().backing.live;
    if in_page_heap != live.pages {
        return Err(format!("the page heap has {in_page_heap:?} live, the page level {live:?}"));
    }
    page_heap.validate()
}

#[cfg(test)]
mod two_nodes;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::front::cache::Lower;
    use crate::front::choice::SystemClock;
    use crate::front::heap::Tables;
    use crate::front::page_map::Reach;
    use crate::memory::SystemMemory;
    use crate::page_heap::{Tail, Temeraire};

    type TestHeap = Heap<Temeraire<SystemMemory, SystemClock>>;

    fn fresh() -> &'static TestHeap {
        // SAFETY: tables are made of integers, pointers and options, for which zero is valid.
        let tables: Box<Tables> = unsafe { Box::new_zeroed().assume_init() };
        let heap: &'static TestHeap = Box::leak(Box::new(Heap::new(Box::leak(tables))));
        let page_heap = Temeraire::new(SystemMemory::new(), SystemClock).unwrap();
        heap.set_up(page_heap, Reach { down: 1, up: 1 });
        heap
    }

    fn validated(heap: &TestHeap) -> Result<(), String> {
        super::heap(heap, |_| Node::FIRST, core::iter::empty::<&Slab>)
    }

    fn take(heap: &TestHeap, size: usize, count: usize) -> (SizeClass, Vec<*mut u8>) {
        let class = SizeClass::of_size(size).unwrap();
        let mut objects = vec![core::ptr::null_mut(); count];
        let taken = heap.take(class, &mut objects);
        objects.truncate(taken);
        (class, objects)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        /// Whatever is taken and given, large and small, the levels agree at each step.
        #[test]
        fn the_levels_agree(steps in prop::collection::vec((0..4u8, 1..100_000usize, 1..32usize), 1..40)) {
            let heap = fresh();
            let mut held = Vec::new();
            for (step, size, count) in steps {
                match step {
                    0 => held.push(take(heap, size, count)),
                    1 if !held.is_empty() => {
                        let (class, objects) = held.swap_remove(count % held.len());
                        heap.give(class, &objects);
                    }
                    2 if !held.is_empty() => {
                        let (class, objects) = held.swap_remove(count % held.len());
                        heap.give_central(class, &objects);
                    }
                    _ => {
                        let large = heap.allocate_large(size * count, 16, None).unwrap();
                        let tail = if size % 2 == 0 { Tail::Kept } else { Tail::Released };
                        // SAFETY: just allocated, and known to no other thread.
                        unsafe { heap.truncate_large(large.start, 2 << 20, tail) };
                        prop_assert_eq!(validated(heap), Ok(()));
                        if count % 2 == 0 {
                            let span = heap.page_map().span(PageId::containing(large.start as u64));
                            // SAFETY: just allocated, and known to no other thread.
                            unsafe { heap.free_large(span) };
                        }
                    }
                }
                prop_assert_eq!(validated(heap), Ok(()));
            }
        }
    }

    #[test]
    fn what_does_not_agree_is_found() {
        let heap = fresh();
        let (class, objects) = take(heap, 100, 20);
        heap.give(class, &objects[..10]);
        assert_eq!(validated(heap), Ok(()));

        // An object that is handed out a second time by its cache.
        let mut cache = heap.levels(class).transfer.lock().unwrap();
        cache.give(&objects[..1]);
        drop(cache);
        heap.transferred.fetch_add(class.size(), Relaxed);
        assert!(validated(heap).unwrap_err().contains("twice"));
        heap.levels(class).transfer.lock().unwrap().take(&mut [core::ptr::null_mut()]);
        assert!(validated(heap).unwrap_err().contains("transfer caches hold"));
        heap.transferred.fetch_sub(class.size(), Relaxed);
        assert_eq!(validated(heap), Ok(()));

        // An object that is in a cache and free in its span.
        let span = heap.page_map().span(PageId::containing(objects[0] as u64));
        // SAFETY: the span has live objects, and this thread alone knows of it.
        unsafe { heap.levels(class).central.lock().unwrap().give(span, objects[0] as usize) }
            .unwrap();
        assert!(validated(heap).unwrap_err().contains("is cached and no object"));
    }
}
