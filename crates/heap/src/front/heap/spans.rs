//! Spans of the page level: large objects, and what classes are made of.

use core::sync::atomic::Ordering::*;

use super::{EMPTY_CACHES, GIVE_BACK, Heap, Observer};
use crate::front::decline::Shrunk;
use crate::front::pages::PageLevel;
use crate::front::span::Span;
use crate::front::{emergency, profile};
use crate::page_heap::{PageHeap, Tail};
use crate::storage::Mapped;
use crate::units::{HugePages, PageId, PageRange, Pages};

/// A large object as it was allocated.
#[derive(Clone, Copy, Debug)]
pub struct LargeObject {
    /// Its first byte.
    pub start: *mut u8,
    /// Whether all of it reads as zeros.
    pub zeroed: bool,
}

impl<P: PageHeap, O: Observer<P>> Heap<P, O> {
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

    /// Truncates a large object to `size` bytes, whole huge pages. False if it cannot be.
    ///
    /// # Safety
    /// As for [`Heap::extend_large`], and nothing needs what lies behind `size` bytes.
    pub unsafe fn truncate_large(&self, object: *mut u8, size: usize, tail: Tail) -> bool {
        let span = self.page_map().span(PageId::containing(object as u64));
        if span.is_null() {
            return false;
        }
        let Some(mut level) = self.pages.lock() else { return false };
        // SAFETY: the span of a live large object is alive, and the caller's alone.
        if !unsafe { level.truncate(span, Pages::holding(size as u64), size, tail) } {
            return false;
        }
        self.live_pages.store(level.live().pages.0 as usize, Relaxed);
        self.note_backed(&level);
        self.note_decline(&mut level);
        drop(level);
        O::page_operation(self);
        true
    }

    pub(super) fn new_span(
        &self,
        pages: Pages,
        align: Pages,
        describe: impl FnOnce(PageRange) -> Span,
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
    pub(super) unsafe fn delete_spans(&self, spans: &[*mut Span]) {
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
        self.note_decline(&mut level);
        drop(level);
        O::page_operation(self);
    }

    fn note_decline(&self, level: &mut PageLevel<P>) {
        match level.shrunk() {
            Some(Shrunk::EmptyCaches) => self.asked.store(EMPTY_CACHES, Relaxed),
            Some(Shrunk::GiveBack) => self.asked.store(GIVE_BACK, Relaxed),
            None => {}
        }
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

    /// Whole huge pages of address space that nothing uses.
    pub fn idle_space(&self) -> HugePages {
        self.page_state(|heap| heap.idle_space()).map_or(HugePages::ZERO, |(_, space)| space)
    }

    /// Gives that address space back to the system.
    pub fn give_up_space(&self) {
        if let Some(mut level) = self.pages.lock() {
            if let Some(heap) = level.page_heap() {
                heap.give_up_space();
            }
            self.note_backed(&level);
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
}
