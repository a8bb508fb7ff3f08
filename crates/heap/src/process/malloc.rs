//! The functions of malloc's family, without their C names: slow paths, and fast paths for Rust.
//!
//! The fast paths for C (`entry.rs`) serve small objects from the cache of the CPU. All else comes
//! here: large objects, misses, threads without per-CPU caches, and the first call.

use core::ptr::null_mut;
use core::sync::atomic::Ordering::*;

use super::nodes;
use super::setup;
use super::shared::{HEAP, ProcessHeap};
use crate::front::cache::{Cache, Lower, Stacks};
use crate::front::control::CONTROL;
use crate::front::cpu::CpuCaches;
use crate::front::decline::Shrunk;
use crate::front::inside::inside;
use crate::front::misuse::{double_free, interior, not_an_object};
use crate::front::size_class::{GRANULE, MAX_DIRECT, MAX_SMALL, SizeClass};
use crate::front::thread::ThreadStacks;
use crate::front::{code, emergency, guard, mark, profile};
use crate::storage::Mapped;
use crate::units::{HugePages, PageId, Pages};

/// Smallest and largest budget of a cache, in bytes; between them it is an eighth of the heap.
const SMALLEST_BUDGET: usize = 2 << 20;
const LARGEST_BUDGET: usize = 4 << 20;

/// Publishes the page map's window to the fast path, once it is open.
pub(super) fn publish_window() {
    let known = CONTROL.window.is_open();
    if known || CONTROL.rseq_offset.load(Relaxed) == 0 || setup::checks_all_frees() {
        return;
    }
    CONTROL.window.open_as(HEAP.page_map().window());
    if !nodes::are_several() {
        CONTROL.free_pages.store(CONTROL.window.pages.load(Relaxed), Release);
    }
}

fn budget(heap: &ProcessHeap) -> usize {
    (heap.live_pages().bytes() as usize / 8).clamp(SMALLEST_BUDGET, LARGEST_BUDGET)
}

/// The caches of the CPUs, if the thread can use them.
#[inline]
fn cpu_caches() -> Option<CpuCaches> {
    if CONTROL.rseq_offset.load(Relaxed) == 0 {
        return None;
    }
    // SAFETY: an offset is noted only where an area is registered, after the caches were set up.
    let caches = unsafe { CpuCaches::at(&CONTROL.rseq_offset) };
    caches.make_slab::<Mapped>().then_some(caches)
}

fn cache_of<S: Stacks>(stacks: S) -> Cache<'static, S, ProcessHeap> {
    Cache { stacks, lower: &HEAP, budget: budget(&HEAP) }
}

fn drain_thread(stacks: &ThreadStacks) {
    cache_of(stacks).drain();
}

/// An object of a class, or null when memory is short.
fn allocate_class(class: SizeClass) -> *mut u8 {
    take_back_deferred();
    let object = if nodes::are_several() {
        allocate_class_here(class)
    } else if let Some(caches) = cpu_caches() {
        cache_of(caches).allocate(class)
    } else if let Some(stacks) = ThreadStacks::of_thread::<Mapped>(drain_thread) {
        cache_of(&stacks).allocate(class)
    } else {
        take_one(&HEAP, class)
    };
    if object.is_null() {
        return null_mut();
    }
    publish_window();
    // SAFETY: the object is the caller's.
    unsafe { mark::clear(HEAP.page_map().window(), object, class) };
    object
}

/// An object of a class of the node that the thread runs on, where there are several nodes; of
/// another node if that one has no address space.
#[cold]
#[inline(never)]
fn allocate_class_here(class: SizeClass) -> *mut u8 {
    let mut objects = nodes::heap_here().all().map(|heap| match nodes::caches(heap.node()) {
        Some(stacks) => Cache { stacks, lower: heap, budget: budget(heap) }.allocate(class),
        None => take_one(heap, class),
    });
    objects.find(|object| !object.is_null()).unwrap_or(null_mut())
}

/// An object of a class past all caches, or null.
#[inline]
fn take_one(heap: &ProcessHeap, class: SizeClass) -> *mut u8 {
    let mut object = [null_mut()];
    heap.take(class, &mut object);
    object[0]
}

/// Frees an object of a class, where there are several nodes: into the CPU's cache for objects of
/// its node.
#[cold]
#[inline(never)]
fn free_class_to_node(class: SizeClass, object: *mut u8) {
    let node = nodes::of(object);
    let heap = nodes::heap(node);
    match nodes::caches(node) {
        Some(stacks) => Cache { stacks, lower: heap, budget: budget(heap) }.free(class, object),
        None => heap.give(class, &[object]),
    }
}

/// Memory of `size` bytes, aligned to 16 bytes, or null when there is none.
#[cold]
#[inline(never)]
pub fn allocate(size: usize) -> *mut u8 {
    if !setup::ready() {
        return emergency::allocate::<Mapped>(size, GRANULE);
    }
    let guarded = guard::allocate(size);
    if !guarded.is_null() {
        return guarded;
    }
    let attempt = || allocate_in(SizeClass::of_size(size), size, GRANULE);
    let object = attempt();
    if object.is_null() { last_resort(size, GRANULE, attempt) } else { object }
}

/// Memory of `size` bytes, aligned to `align`, a power of two, or null when there is none.
pub fn allocate_aligned(size: usize, align: usize) -> *mut u8 {
    if !setup::ready() {
        return emergency::allocate::<Mapped>(size, align);
    }
    let class = match align as u64 <= Pages::SIZE {
        true => SizeClass::of_layout(size, align.max(GRANULE)),
        false => None,
    };
    let attempt = || allocate_in(class, size, align);
    let object = attempt();
    if object.is_null() { last_resort(size, align, attempt) } else { object }
}

/// Memory of `size` bytes that reads as zeros, or null when there is none.
pub fn allocate_zeroed(size: usize) -> *mut u8 {
    if size <= MAX_SMALL || !setup::ready() {
        let object = allocate(size);
        if !object.is_null() {
            // SAFETY: the object is ours and holds `size` bytes.
            unsafe { object.write_bytes(0, size) };
        }
        return object;
    }
    let attempt = || {
        let (object, zeroed) = allocate_large(size, GRANULE);
        if !object.is_null() && !zeroed {
            // SAFETY: as above.
            unsafe { object.write_bytes(0, size) };
        }
        object
    };
    let object = attempt();
    // Memory from the emergency region was never written to.
    if object.is_null() { last_resort(size, GRANULE, attempt) } else { object }
}

/// An object of a class; one of its own span if it has none, or is a sample. Null when memory is
/// short.
fn allocate_in(class: Option<SizeClass>, size: usize, align: usize) -> *mut u8 {
    let sample = profile::count(size);
    match class {
        Some(class) if sample.is_none() => allocate_class(class),
        _ => allocate_spanned(size, align, sample).0,
    }
}

/// A large object and whether it reads as zeros, or null.
fn allocate_large(size: usize, align: usize) -> (*mut u8, bool) {
    allocate_spanned(size, align, profile::count(size))
}

fn allocate_spanned(size: usize, align: usize, sample: Option<u32>) -> (*mut u8, bool) {
    take_back_deferred();
    // The other nodes serve what this one has no address space for.
    let mut heaps = nodes::heap_here().all();
    let object = heaps.find_map(|heap| heap.allocate_large(size, align, sample));
    if let (None, Some(sample)) = (object, sample) {
        profile::forget(sample);
    }
    publish_window();
    object.map_or((null_mut(), false), |object| (object.start, object.zeroed))
}

/// When memory is short: another attempt after all caches have given up what they hold, which may
/// free whole huge pages, and after all nodes have given up their idle address space; or, where this
/// thread itself or a fork holds a needed lock, the emergency region.
#[cold]
fn last_resort(size: usize, align: usize, attempt: impl Fn() -> *mut u8) -> *mut u8 {
    if HEAP.all().any(ProcessHeap::is_barred) {
        return emergency::allocate::<Mapped>(size, align);
    }
    // More than the address space is not available afterwards, either.
    if size >> 47 != 0 || align >> 47 != 0 {
        return null_mut();
    }
    empty_caches();
    let object = attempt();
    if object.is_null() && give_up_space(size) { attempt() } else { object }
}

/// Unmaps the idle address space of all nodes if it adds up to `size` bytes. Reservations of the nodes
/// are interleaved, so the idle space is in pieces, and no node can use another's.
fn give_up_space(size: usize) -> bool {
    let idle = HEAP.all().fold(HugePages::ZERO, |sum, heap| sum + heap.idle_space());
    let is_enough = size as u64 <= idle.bytes();
    if is_enough {
        HEAP.all().for_each(ProcessHeap::give_up_space);
    }
    is_enough
}

/// Gives what the caches of the CPUs and the transfer caches hold to its spans, and spans that
/// become empty to the page heap.
fn empty_caches() {
    CpuCaches::drain_all(nodes::count(), |node, class, objects| {
        nodes::heap(node).give_central(class, objects);
    });
    HEAP.all().for_each(|heap| heap.empty_transfers(|cache| cache.len()));
}

/// Reacts to a decline of the heap.
#[inline]
pub(super) fn after_decline() {
    for heap in HEAP.all() {
        if let Some(shrunk) = heap.asked() {
            empty_caches();
            if shrunk == Shrunk::GiveBack {
                heap.release_excess();
            }
        }
    }
}

/// Frees objects that signal handlers could not free.
pub(super) fn take_back_deferred() {
    // SAFETY: the objects were freed by their owners.
    emergency::take_deferred(|object| unsafe { free_unmarked(object) });
}

/// Frees what any function of the family has allocated; null is nothing.
///
/// # Safety
/// `object` came from this heap, and is no longer used. Most violations are detected.
#[cold]
#[inline(never)]
pub unsafe fn free(object: *mut u8) {
    if object.is_null() {
        return;
    }
    if setup::is_done() {
        take_back_deferred();
    }
    if let Some(class) = HEAP.page_map().class(PageId::containing(object as u64)) {
        check_small(object, class);
        // SAFETY: an object of the class begins there, and no other thread uses it.
        if !unsafe { mark::set(HEAP.page_map().window(), object, class) } {
            double_free(object, class.size());
        }
    }
    // SAFETY: the caller's promise.
    unsafe { free_unmarked(object) };
}

fn check_small(object: *mut u8, class: SizeClass) {
    let span = HEAP.page_map().span(PageId::containing(object as u64));
    // SAFETY: the span of a page that has a class is alive while an object of it is.
    let begins =
        unsafe { span.as_ref() }.is_some_and(|span| span.index_of(object as usize).is_ok());
    if !begins {
        interior(object, class.size());
    }
}

/// Frees an object that carries the mark of a free one already, or is too large to carry one.
///
/// # Safety
/// As for [`free`].
unsafe fn free_unmarked(object: *mut u8) {
    let page = PageId::containing(object as u64);
    if let Some(class) = HEAP.page_map().class(page) {
        if nodes::are_several() {
            free_class_to_node(class, object);
        } else if let Some(caches) = cpu_caches() {
            cache_of(caches).free(class, object);
        } else if let Some(stacks) = ThreadStacks::of_thread::<Mapped>(drain_thread) {
            cache_of(&stacks).free(class, object);
        } else {
            HEAP.give(class, &[object]);
        }
        return after_decline();
    }
    let span = HEAP.page_map().span(page);
    // SAFETY: the span of a live large object is alive.
    match unsafe { span.as_ref() } {
        Some(known) if known.start().address() == object as u64 => {
            // SAFETY: the object is the caller's to free.
            unsafe { nodes::heap_of(object).free_large(span) };
            after_decline();
        }
        Some(known) => interior(object, known.pages().len.bytes() as usize),
        None if guard::owns(object as usize) => guard::free(object),
        None if emergency::owns(object as usize) => {}
        None => not_an_object(object),
    }
}

/// Frees an object for which the fast path found that its cache is full. It is marked already.
///
/// # Safety
/// As for [`free`].
#[cold]
#[inline(never)]
pub unsafe fn free_marked(object: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { free_unmarked(object) };
}

/// Bytes that an object holds; 0 for null.
///
/// # Safety
/// `object` came from this heap and was not freed.
pub unsafe fn usable_size(object: *mut u8) -> usize {
    let page = PageId::containing(object as u64);
    if let Some(class) = HEAP.page_map().class(page) {
        return class.size();
    }
    // SAFETY: the span of a live large object is alive.
    match unsafe { HEAP.page_map().span(page).as_ref() } {
        Some(span) => span.pages().len.bytes() as usize,
        None if object.is_null() => 0,
        None if guard::owns(object as usize) => guard::usable_size(object),
        // SAFETY: the region's own.
        None if emergency::owns(object as usize) => unsafe { emergency::usable_size(object) },
        None => not_an_object(object),
    }
}

/// Gives at least `pages` back to the system, if they can be spared; all caches give up what they
/// hold first. Returns the number of pages.
pub fn release(pages: Pages) -> Pages {
    if !setup::ready() {
        return Pages::ZERO;
    }
    take_back_deferred();
    empty_caches();
    release_from_all(pages)
}

fn release_from_all(pages: Pages) -> Pages {
    HEAP.all().fold(Pages::ZERO, |released, heap| {
        let left = pages.saturating_sub(released);
        if left.is_zero() { released } else { released + heap.release(left) }
    })
}

/// One second's work of the background thread: gives up what the transfer caches have not needed
/// since, and up to `pages` of the page heap.
pub fn release_steadily(pages: Pages) {
    take_back_deferred();
    HEAP.all().for_each(|heap| heap.empty_transfers(|cache| cache.idle()));
    release_from_all(pages);
}

/// [`allocate`], from the CPU's cache if it can be: the fast path for Rust.
#[inline]
pub fn allocate_quickly(size: usize) -> *mut u8 {
    if size.wrapping_sub(1) < CONTROL.table_limit.load(Acquire) {
        // SAFETY: the limit is not 0, so the heap is set up and an area is registered.
        let caches = unsafe { CpuCaches::at(&CONTROL.rseq_offset) };
        // Marks that lie apart are found by the window alone.
        let findable = size <= MAX_DIRECT || CONTROL.window.is_open();
        if findable && let Some(class) = SizeClass::of_size(size) {
            let object = caches.pop(class);
            if !object.is_null() {
                // SAFETY: the object is ours.
                unsafe { mark::clear(&CONTROL.window, object, class) };
                return object;
            }
        }
    }
    allocate(size)
}

/// [`free`], into the CPU's cache if it can be: the fast path for Rust.
///
/// # Safety
/// As for [`free`].
#[inline]
pub unsafe fn free_quickly(object: *mut u8) {
    let place = CONTROL.class_for_free(PageId::containing(object as u64).0);
    // SAFETY: the window has a code for each of its pages.
    let class = unsafe { place.as_ref() }.and_then(|place| code::class(place.load(Relaxed)));
    if let Some(class) = class {
        // SAFETY: the caller's promise: an object of the class begins there. An area is
        // registered, as the window is open.
        unsafe {
            if !mark::set(&CONTROL.window, object, class) {
                double_free(object, class.size());
            }
            if CpuCaches::at(&CONTROL.rseq_offset).push(class, object) {
                return;
            }
            return free_marked(object);
        }
    }
    // SAFETY: the caller's promise.
    unsafe {
        if !free_to_its_node(object) {
            free(object);
        }
    }
}

/// Frees a small object into the CPU's cache for objects of its node: the fast path where there are
/// several nodes. Whether it did; if not, nothing has changed.
///
/// # Safety
/// As for [`free`].
#[inline]
pub unsafe fn free_to_its_node(object: *mut u8) -> bool {
    if !nodes::are_several() {
        return false;
    }
    let place = CONTROL.window.find(PageId::containing(object as u64).0);
    // SAFETY: the window has a code for each of its pages.
    let class = unsafe { place.as_ref() }.and_then(|place| code::class(place.load(Relaxed)));
    let Some(class) = class else { return false };
    // SAFETY: the caller's promise: an object of the class begins there.
    if !unsafe { mark::set(&CONTROL.window, object, class) } {
        double_free(object, class.size());
    }
    // SAFETY: several nodes are set up only where an area is registered, with their tables.
    let caches = unsafe { CpuCaches::of_node(&CONTROL.rseq_offset, nodes::of(object)) };
    if caches.push(class, object) {
        return true;
    }
    // SAFETY: the caller's promise.
    inside(|| unsafe { free_marked(object) });
    true
}
