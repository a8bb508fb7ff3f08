//! The heap: its levels in one value, and what passes between them.
//!
//! ```text
//! caches of the CPUs (or threads)   one stack for each class          no lock
//! transfer caches                   one array for each class          a lock each
//! central free lists                spans with free objects           a lock each
//! page level                        a page heap, span metadata        one lock
//! ```
//! No thread holds two of the locks at once (see [`super::sync`]).
//!
//! On a machine with several NUMA nodes there is a heap for each, with levels of its own and one
//! page map for all. An object belongs to the heap of its address ([`NodeMap`]), whoever allocates
//! or frees it: no level of a heap ever holds an address of another node.
//!
//! [`NodeMap`]: crate::memory::node::NodeMap

use core::marker::PhantomData;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering::*};

use super::cache::Lower;
use super::central::{CentralFreeList, CentralState};
use super::decline::Shrunk;
use super::limit::SoftLimit;
use super::misuse::{double_free, interior, not_an_object};
use super::page_map::{PageMap, Reach};
use super::pages::{LiveSpans, PageLevel};
use super::record::Recorder;
use super::size_class::{CLASSES, MAX_BATCH, SizeClass};
use super::span::{Refused, Span};
use super::sync::{ForkLock, Lock};
use super::transfer::TransferCache;
use super::{emergency, profile};
use crate::memory::node::Node;
use crate::page_heap::PageHeap;
use crate::storage::{Mapped, Storage};
use crate::units::{PageId, PageRange, Pages};

/// Bytes that the transfer caches together may hold in a heap of any size: 4 MiB. With less,
/// objects go back to their spans, others take their place, and the heap grows.
const SMALLEST_TRANSFER: usize = 4 << 20;

const EMPTY_CACHES: u8 = 1;
const GIVE_BACK: u8 = 2;

/// The levels between the caches and the page level, of one size class.
#[derive(Debug)]
pub struct ClassLevels {
    pub(crate) transfer: Lock<TransferCache>,
    pub(crate) central: Lock<CentralFreeList>,
}

impl ClassLevels {
    /// Levels that hold nothing: all zeros.
    pub const fn new() -> ClassLevels {
        ClassLevels {
            transfer: Lock::new(TransferCache::new()),
            central: Lock::new(CentralFreeList::new()),
        }
    }
}

impl Default for ClassLevels {
    fn default() -> Self {
        ClassLevels::new()
    }
}

/// The tables of a heap. They begin as zeros, which no file need carry, and a process has those of
/// their pages resident alone that it uses.
pub struct Tables {
    /// From pages to spans.
    pub page_map: PageMap,
    /// By the number of the class.
    pub classes: ClassTable,
}

/// The levels of each class, by its number.
pub type ClassTable = [ClassLevels; CLASSES + 1];

impl Tables {
    /// Tables of a heap that holds nothing.
    pub const fn new() -> Tables {
        Tables { page_map: PageMap::new(), classes: [const { ClassLevels::new() }; CLASSES + 1] }
    }
}

impl Default for Tables {
    fn default() -> Self {
        Tables::new()
    }
}

/// The receiver of a heap's page-level operations. A type, not a value: the call is inlined.
pub trait Observer<P>: Sized {
    /// Called after an operation of the page level. The caller holds no lock.
    fn page_operation(heap: &Heap<P, Self>);
}

/// No receiver.
#[derive(Clone, Copy, Debug)]
pub struct Unobserved;

impl<P> Observer<P> for Unobserved {
    fn page_operation(_: &Heap<P, Self>) {}
}

/// The shared levels of a heap over a page heap `P`.
pub struct Heap<P, O = Unobserved> {
    page_map: &'static PageMap,
    classes: &'static ClassTable,
    /// The node whose memory it hands out.
    node: Node,
    /// The kernel's number of that node, for statistics.
    number: AtomicU32,
    /// The heap of the next node, in a ring; null while there is one node.
    next: AtomicPtr<Heap<P, O>>,
    pub(crate) pages: Lock<PageLevel<P>>,
    /// Pages in spans, as the last change left them: what budgets of caches follow.
    live_pages: AtomicUsize,
    /// Pages with memory behind them, as the last change left them: what the soft limit counts.
    /// 0 without a limit.
    backed_pages: AtomicUsize,
    /// What to do after a decline of the heap: nothing, [`EMPTY_CACHES`] or [`GIVE_BACK`].
    asked: AtomicU8,
    /// Bytes in all transfer caches.
    pub(crate) transferred: AtomicUsize,
    /// The last class whose unneeded objects made room for others.
    hand: AtomicUsize,
    /// How far the page map's window reaches, packed: GiB down, GiB up.
    reach: AtomicUsize,
    /// Arrays for the transfer caches of all classes, one after the other. A class gets its own
    /// with its first object; null if there is no storage.
    transfer_arrays: AtomicPtr<*mut u8>,
    observer: PhantomData<O>,
}

/// A large object as it was allocated.
#[derive(Clone, Copy, Debug)]
pub struct LargeObject {
    /// Its first byte.
    pub start: *mut u8,
    /// Whether all of it reads as zeros.
    pub zeroed: bool,
}

impl<P: PageHeap, O: Observer<P>> Heap<P, O> {
    /// A heap without page heap, which hands out nothing. `tables` are its own.
    pub const fn new(tables: &'static Tables) -> Heap<P, O> {
        Heap::of_node(&tables.page_map, &tables.classes, Node::FIRST)
    }

    /// The heap of a node beside another heap, whose page map it shares. `classes` are its own.
    pub fn beside(other: &Heap<P, O>, classes: &'static ClassTable, node: Node) -> Heap<P, O> {
        Heap::of_node(other.page_map, classes, node)
    }

    const fn of_node(
        page_map: &'static PageMap,
        classes: &'static ClassTable,
        node: Node,
    ) -> Heap<P, O> {
        Heap {
            page_map,
            classes,
            node,
            number: AtomicU32::new(0),
            next: AtomicPtr::new(null_mut()),
            pages: Lock::new(PageLevel::new()),
            live_pages: AtomicUsize::new(0),
            backed_pages: AtomicUsize::new(0),
            asked: AtomicU8::new(0),
            transferred: AtomicUsize::new(0),
            hand: AtomicUsize::new(0),
            reach: AtomicUsize::new(0),
            transfer_arrays: AtomicPtr::new(null_mut()),
            observer: PhantomData,
        }
    }

    /// Sets the page heap, and gives the transfer caches storage; without storage the heap works
    /// without them. Called once, before anything is allocated.
    pub fn set_up(&self, page_heap: P, reach: Reach) {
        self.reach.store((reach.down << 32 | reach.up) as usize, Relaxed);
        if let Some(mut pages) = self.pages.lock() {
            pages.set_page_heap(page_heap);
        }
        let objects: usize = SizeClass::all().map(TransferCache::capacity_of).sum();
        let Ok(layout) = core::alloc::Layout::array::<*mut u8>(objects) else { return };
        let Some(storage) = Mapped::take(layout) else { return };
        self.transfer_arrays.store(storage.as_ptr().cast(), Relaxed);
    }

    /// Opens the page map's window, before the heaps of several nodes can make room in it at once.
    /// False if memory is short.
    #[must_use]
    pub fn open_window(&self) -> bool {
        let Some((span, _)) = self.new_span(Pages::ONE, Pages::ONE, |range| Span::large(range, 0))
        else {
            return false;
        };
        // SAFETY: just made, and known to no other thread.
        unsafe { self.delete_spans(&[span]) };
        true
    }

    /// Puts another node's heap behind this one in the ring of all. Called before the other is used.
    pub fn join(&'static self, other: &'static Heap<P, O>) {
        let next = self.next.load(Relaxed);
        let next = if next.is_null() { (&raw const *self).cast_mut() } else { next };
        other.next.store(next, Relaxed);
        self.next.store((&raw const *other).cast_mut(), Release);
    }

    /// The heaps of all nodes, this one first.
    pub fn all(&self) -> impl Iterator<Item = &Heap<P, O>> {
        let mut next = Some(self);
        core::iter::from_fn(move || {
            let heap = next?;
            // SAFETY: heaps in the ring live as long as the process.
            let behind = unsafe { heap.next.load(Acquire).as_ref() };
            next = behind.filter(|&behind| !core::ptr::eq(behind, self));
            Some(heap)
        })
    }

    /// The node whose memory it hands out.
    #[inline]
    pub fn node(&self) -> Node {
        self.node
    }

    /// The kernel's number of that node.
    pub fn node_number(&self) -> u32 {
        self.number.load(Relaxed)
    }

    /// Sets the kernel's number of the node.
    pub fn set_node_number(&self, number: u32) {
        self.number.store(number, Relaxed);
    }

    /// From pages to spans.
    #[inline]
    pub fn page_map(&self) -> &'static PageMap {
        self.page_map
    }

    /// The levels of a class between the caches and the page level.
    #[inline]
    pub(crate) fn levels(&self, class: SizeClass) -> &'static ClassLevels {
        &self.classes[class.number()]
    }

    /// Gives the transfer cache of a class its array.
    #[cold]
    fn equip(&self, class: SizeClass, cache: &mut TransferCache) {
        let arrays = self.transfer_arrays.load(Relaxed);
        if arrays.is_null() {
            return;
        }
        let before = SizeClass::all().take_while(|&smaller| smaller < class);
        let before: usize = before.map(TransferCache::capacity_of).sum();
        // SAFETY: the storage is ours forever, and has room for the arrays of all classes, one
        // after another.
        unsafe { cache.set_storage(arrays.add(before), TransferCache::capacity_of(class)) };
    }

    /// Sets the soft limit on backed memory.
    pub fn set_limit(&self, most: Pages) {
        if let Some(mut pages) = self.pages.lock() {
            pages.set_limit(SoftLimit::of(most));
        }
    }

    /// Records the calls of the page heap from now on; `None` ends a recording.
    pub fn record(&self, recorder: Option<Recorder>) {
        if let Some(mut pages) = self.pages.lock() {
            pages.record(recorder);
        }
    }

    fn reach(&self) -> Reach {
        let packed = self.reach.load(Relaxed) as u64;
        Reach { down: packed >> 32, up: packed & u64::from(u32::MAX) }
    }

    /// Pages in spans at this moment.
    pub fn live_pages(&self) -> Pages {
        Pages(self.live_pages.load(Relaxed) as u64)
    }

    /// A large object of `size` bytes whose address is a multiple of `align`, a power of two; a
    /// smaller one if it is a `sample` of the profile. `None` when memory is short.
    pub fn allocate_large(
        &self,
        size: usize,
        align: usize,
        sample: Option<u32>,
    ) -> Option<LargeObject> {
        // Address spaces end far below: sums of sizes cannot overflow afterwards.
        if size > isize::MAX as usize / 2 || align > isize::MAX as usize / 2 {
            return None;
        }
        let pages = Pages::holding(size.max(1) as u64);
        let align = Pages((align as u64 / Pages::SIZE).max(1));
        let (span, zeroed) = self.new_span(pages, align, |range| {
            let mut span = Span::large(range, size);
            span.sample = sample.unwrap_or(0);
            span
        })?;
        // SAFETY: the span is alive until its object is freed.
        let start = unsafe { (*span).start() }.address() as *mut u8;
        Some(LargeObject { start, zeroed })
    }

    /// Makes a large object hold `size` bytes in its place. False if what lies behind it is in use;
    /// nothing has changed then.
    ///
    /// # Safety
    /// `object` is a live large object of this heap that no other thread uses meanwhile.
    pub unsafe fn extend_large(&self, object: *mut u8, size: usize) -> bool {
        let span = self.page_map().span(PageId::containing(object as u64));
        let len = Pages::holding(size as u64);
        if span.is_null() {
            // Of the emergency region.
            return false;
        }
        let Some(mut level) = self.pages.lock() else { return false };
        // SAFETY: the span of a live large object is alive, and the caller's alone.
        let pages = unsafe { (*span).pages() };
        let room = self.page_map().make_room::<Mapped>(PageRange { len, ..pages }, self.reach());
        // SAFETY: as above.
        if !room || !unsafe { level.extend(span, len, size) } {
            return false;
        }
        self.live_pages.store(level.live().pages.0 as usize, Relaxed);
        self.keep_within_limit(&mut level);
        drop(level);
        O::page_operation(self);
        true
    }

    fn new_span(
        &self,
        pages: Pages,
        align: Pages,
        describe: impl FnOnce(crate::PageRange) -> Span,
    ) -> Option<(*mut Span, bool)> {
        let mut level = self.pages.lock()?;
        let (span, new) = level.new_span::<Mapped>(pages, align, |new| describe(new.pages))?;
        if !self.page_map().make_room::<Mapped>(new.pages, self.reach()) {
            // SAFETY: just made, and known to no other thread.
            unsafe { level.delete(span) };
            return None;
        }
        self.live_pages.store(level.live().pages.0 as usize, Relaxed);
        self.keep_within_limit(&mut level);
        drop(level);
        O::page_operation(self);
        // SAFETY: the span is forgotten before it is deleted.
        unsafe { self.page_map().note(span) };
        Some((span, new.zeroed))
    }

    /// Enforces the soft limit on the memory of all nodes, from the free memory of this one.
    fn keep_within_limit(&self, level: &mut PageLevel<P>) {
        let others = self.all().skip(1).map(|heap| heap.backed_pages.load(Relaxed) as u64);
        if level.keep_within_limit(Pages(others.sum())) {
            self.asked.fetch_max(EMPTY_CACHES, Relaxed);
        }
        self.note_backed(level);
    }

    fn note_backed(&self, level: &PageLevel<P>) {
        self.backed_pages.store(level.limited().0 as usize, Relaxed);
    }

    /// Returns unused spans.
    ///
    /// # Safety
    /// They came from this heap, and no object of them is live or in a cache.
    unsafe fn delete_spans(&self, spans: &[*mut Span]) {
        for &span in spans {
            // SAFETY: alive until it is deleted below.
            self.page_map().forget(unsafe { &*span });
        }
        let Some(mut level) = self.pages.lock() else {
            for &span in spans {
                // SAFETY: as above.
                unsafe { self.keep_for_later(span) };
            }
            return;
        };
        for &span in spans {
            // SAFETY: forgotten, and unused by the caller's promise.
            unsafe { level.delete(span) };
        }
        self.live_pages.store(level.live().pages.0 as usize, Relaxed);
        match level.shrunk() {
            Some(Shrunk::EmptyCaches) => self.asked.store(EMPTY_CACHES, Relaxed),
            Some(Shrunk::GiveBack) => self.asked.store(GIVE_BACK, Relaxed),
            None => {}
        }
        drop(level);
        O::page_operation(self);
    }

    /// What to do after a decline of the heap, reported once: empty the caches, and perhaps give
    /// memory back. The caller holds no lock.
    #[inline]
    pub fn asked(&self) -> Option<Shrunk> {
        if self.asked.load(Relaxed) == 0 {
            return None;
        }
        match self.asked.swap(0, Relaxed) {
            EMPTY_CACHES => Some(Shrunk::EmptyCaches),
            GIVE_BACK => Some(Shrunk::GiveBack),
            _ => None,
        }
    }

    /// Gives back free memory beyond half of the live memory.
    pub fn release_excess(&self) {
        if let Some(mut level) = self.pages.lock() {
            level.release_excess();
            self.note_backed(&level);
        }
    }

    /// Keeps a span whose pages cannot be freed now: a signal handler frees while its own thread
    /// holds the page level. Small objects are handed out again, a large one is freed later.
    ///
    /// # Safety
    /// As for [`Heap::delete_spans`], and the page map has forgotten the span.
    #[cold]
    unsafe fn keep_for_later(&self, span: *mut Span) {
        // SAFETY: the span is alive, and stays so.
        let (class, start) = unsafe {
            self.page_map().note(span);
            ((*span).class(), (*span).start().address())
        };
        let Some(class) = class else {
            // SAFETY: the object is not in use.
            return unsafe { emergency::defer(start as *mut u8) };
        };
        if let Some(mut central) = self.levels(class).central.lock() {
            // SAFETY: the span is in no list, and alive until it is empty again.
            unsafe { central.add(span) };
        }
    }

    /// Frees a large object.
    ///
    /// # Safety
    /// `span` is that object's, and the object is no longer used.
    pub unsafe fn free_large(&self, span: *mut Span) {
        // SAFETY: the span is alive until it is deleted.
        let sample = unsafe { (*span).sample };
        if sample != 0 {
            profile::freed(sample);
        }
        // SAFETY: the caller's promise.
        unsafe { self.delete_spans(&[span]) };
    }

    /// Takes objects from the central free list, from fresh spans if it has not enough.
    fn take_central(&self, class: SizeClass, objects: &mut [*mut u8]) -> usize {
        let mut taken = 0;
        while taken < objects.len() {
            let Some(mut central) = self.levels(class).central.lock() else { break };
            taken += central.take(&mut objects[taken..]);
            drop(central);
            // One fresh span at most: what it has is enough for now.
            if taken > 0 || !self.add_span(class) {
                break;
            }
        }
        taken
    }

    fn add_span(&self, class: SizeClass) -> bool {
        let pages = Pages(class.info().pages.into());
        let Some((span, _)) = self.new_span(pages, Pages::ONE, |range| Span::small(range, class))
        else {
            return false;
        };
        match self.levels(class).central.lock() {
            Some(mut central) => {
                // SAFETY: the span lives until `give` says that it is empty.
                unsafe { central.add(span) };
                true
            }
            None => {
                // SAFETY: no object of the span was handed out.
                unsafe { self.delete_spans(&[span]) };
                false
            }
        }
    }

    /// Gives objects to their spans, and spans that become empty to the page heap.
    pub fn give_central(&self, class: SizeClass, objects: &[*mut u8]) {
        for batch in objects.chunks(MAX_BATCH) {
            let mut empty = [null_mut(); MAX_BATCH];
            let mut count = 0;
            let Some(mut central) = self.levels(class).central.lock() else {
                for &object in batch {
                    // SAFETY: the object is free, and this level's from now on.
                    unsafe { emergency::defer(object) };
                }
                continue;
            };
            for &object in batch {
                let span = self.page_map().span(PageId::containing(object as u64));
                if span.is_null() {
                    not_an_object(object);
                }
                // SAFETY: a span with an object that is not free has been added and is not empty.
                match unsafe { central.give(span, object as usize) } {
                    Ok(false) => {}
                    Ok(true) => {
                        empty[count] = span;
                        count += 1;
                    }
                    Err(Refused::Free) => double_free(object, class.size()),
                    Err(Refused::Interior) => interior(object, class.size()),
                }
            }
            drop(central);
            if count > 0 {
                // SAFETY: all objects of the spans are free and in no cache.
                unsafe { self.delete_spans(&empty[..count]) };
            }
        }
    }

    /// Gives memory of at least `pages` back to the system, if the page heap can spare so much.
    pub fn release(&self, pages: Pages) -> Pages {
        self.pages.lock().map_or(Pages::ZERO, |mut level| {
            let released = level.release(pages);
            self.note_backed(&level);
            released
        })
    }

    /// Gives objects of all transfer caches to the central free lists, as many as `count` says.
    pub fn empty_transfers(&self, count: impl Fn(&mut TransferCache) -> usize) {
        SizeClass::all().for_each(|class| self.empty_transfer(class, &count));
    }

    fn empty_transfer(&self, class: SizeClass, count: impl Fn(&mut TransferCache) -> usize) {
        let mut left = None;
        loop {
            let mut objects = [null_mut(); MAX_BATCH];
            let Some(mut cache) = self.levels(class).transfer.lock() else { return };
            let remaining = left.unwrap_or_else(|| count(&mut cache));
            let taken = cache.take(&mut objects[..remaining.min(MAX_BATCH)]);
            drop(cache);
            self.transferred.fetch_sub(taken * class.size(), Relaxed);
            if taken == 0 {
                return;
            }
            left = Some(remaining - taken);
            self.give_central(class, &objects[..taken]);
        }
    }

    /// Bytes that transfer caches may still take. If none are left, the next class gives up what it
    /// has not needed lately (a hundred classes can fill them and then be idle).
    fn room_for_transfer(&self, class: SizeClass) -> usize {
        let limit = (self.live_pages().bytes() as usize / 8).max(SMALLEST_TRANSFER);
        let room = || limit.saturating_sub(self.transferred.load(Relaxed));
        if room() < usize::from(class.info().batch) * class.size() {
            let hand = self.hand.load(Relaxed) % CLASSES + 1;
            self.hand.store(hand, Relaxed);
            if let Some(idle) = SizeClass::new(hand as u8) {
                self.empty_transfer(idle, |cache| cache.idle());
            }
        }
        room()
    }

    /// The state of a class's central free list, and the objects in its transfer cache.
    pub fn class_state(&self, class: SizeClass) -> (CentralState, usize) {
        let central = self.levels(class).central.lock().map(|list| list.state());
        let transfer = self.levels(class).transfer.lock().map(|cache| cache.len());
        (central.unwrap_or_default(), transfer.unwrap_or_default())
    }

    /// What the page level has handed out, and the result of `look` for its page heap.
    pub fn page_state<R>(&self, look: impl FnOnce(&mut P) -> R) -> Option<(LiveSpans, R)> {
        let mut level = self.pages.lock()?;
        let live = level.live();
        level.page_heap().map(|heap| (live, look(heap)))
    }

    /// Whether a level is unavailable to this thread because it holds the level's lock itself (a
    /// signal handler runs inside the heap), or because a fork does.
    #[cold]
    pub fn is_barred(&self) -> bool {
        self.locks().any(|lock| lock.bars())
    }

    /// All locks of this heap, for fork.
    pub fn locks(&self) -> impl Iterator<Item = &dyn ForkLock> {
        let of_class = |levels: &'static ClassLevels| {
            [&levels.transfer as &dyn ForkLock, &levels.central as &dyn ForkLock]
        };
        let of_classes = self.classes.iter().flat_map(of_class);
        of_classes.chain(core::iter::once(&self.pages as &dyn ForkLock))
    }
}

impl<P: PageHeap, O: Observer<P>> Lower for Heap<P, O> {
    fn take(&self, class: SizeClass, objects: &mut [*mut u8]) -> usize {
        let from_transfer =
            self.levels(class).transfer.lock().map_or(0, |mut cache| cache.take(objects));
        if from_transfer == 0 {
            return self.take_central(class, objects);
        }
        self.transferred.fetch_sub(from_transfer * class.size(), Relaxed);
        from_transfer
    }

    fn give(&self, class: SizeClass, objects: &[*mut u8]) {
        let most = (self.room_for_transfer(class) / class.size()).min(objects.len());
        // Counted first, so that the sum never falls below 0.
        self.transferred.fetch_add(most * class.size(), Relaxed);
        let kept = self.levels(class).transfer.lock().map_or(0, |mut cache| {
            if !cache.is_equipped() {
                self.equip(class, &mut cache);
            }
            cache.give(&objects[..most])
        });
        self.transferred.fetch_sub((most - kept) * class.size(), Relaxed);
        if kept < objects.len() {
            self.give_central(class, &objects[kept..]);
        }
    }
}
