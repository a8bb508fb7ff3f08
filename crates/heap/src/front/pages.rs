//! The page level: a page heap, span metadata, and counts of what is live.

use core::alloc::Layout;
use core::ptr::{NonNull, null_mut};

use super::choice::SystemClock;
use super::decline::{Decline, Shrunk};
use super::limit::{LimitStatistics, SoftLimit};
use super::record::Recorder;
use super::span::Span;
use crate::page_heap::{Clock, NewSpan, PageHeap, Tail};
use crate::storage::Storage;
use crate::units::{HugePages, PageRange, Pages};

/// Span metadata lies in pieces of a huge page each. It is over a hundredth of a heap of small
/// objects, so once the first piece holds this many bytes of it, it moves to a huge page; a small
/// heap does without.
const MANY: usize = 512 << 10;
/// Size of a piece where address space is too short for that.
const SMALL_PIECE: usize = 64 << 10;

/// Places for span metadata, which never move and are reused.
#[derive(Debug)]
pub struct SpanMetadata {
    /// Places that were used before, linked by `next`.
    spare: *mut Span,
    /// The rest of the last piece.
    fresh: *mut Span,
    fresh_left: usize,
    /// Bytes that places were made of.
    bytes: usize,
    /// The first piece, until it is put on a huge page.
    unsettled: Option<NonNull<u8>>,
}

// SAFETY: it owns the metadata that it keeps.
unsafe impl Send for SpanMetadata {}

impl SpanMetadata {
    /// No places, and no storage taken.
    pub const fn new() -> SpanMetadata {
        SpanMetadata {
            spare: null_mut(),
            fresh: null_mut(),
            fresh_left: 0,
            bytes: 0,
            unsettled: None,
        }
    }

    /// A place for a span, uninitialized or used before. `None` if there is no storage.
    fn place<S: Storage>(&mut self) -> Option<*mut Span> {
        // SAFETY: spare places are unused metadata.
        if let Some(spare) = unsafe { self.spare.as_mut() } {
            self.spare = spare.next;
            return Some(spare);
        }
        if self.fresh_left == 0 {
            self.add_piece::<S>()?;
        }
        let place = self.fresh;
        // SAFETY: the piece has room for as many spans as are left, and one behind the last.
        self.fresh = unsafe { place.add(1) };
        self.fresh_left -= 1;
        self.bytes += size_of::<Span>();
        if self.bytes >= MANY
            && let Some(piece) = self.unsettled.take()
        {
            // SAFETY: kept where it was taken.
            unsafe { S::settle(piece) };
        }
        Some(place)
    }

    #[cold]
    fn add_piece<S: Storage>(&mut self) -> Option<()> {
        let (piece, bytes) = match S::take_huge_page() {
            Some(piece) if self.bytes >= MANY => {
                // SAFETY: just taken.
                unsafe { S::settle(piece) };
                (piece, HugePages::SIZE as usize)
            }
            Some(piece) => {
                self.unsettled = Some(piece);
                (piece, HugePages::SIZE as usize)
            }
            None => {
                let layout = Layout::from_size_align(SMALL_PIECE, align_of::<Span>()).ok()?;
                (S::take(layout)?, SMALL_PIECE)
            }
        };
        self.fresh = piece.as_ptr().cast();
        self.fresh_left = bytes / size_of::<Span>();
        Some(())
    }

    fn give_back(&mut self, place: *mut Span) {
        // SAFETY: the span is gone; its place is ours.
        unsafe { (*place).next = self.spare };
        self.spare = place;
    }
}

impl Default for SpanMetadata {
    fn default() -> Self {
        SpanMetadata::new()
    }
}

/// The page level of a heap.
#[derive(Debug)]
pub struct PageLevel<P> {
    heap: Option<P>,
    metadata: SpanMetadata,
    /// Pages of all spans.
    live: Pages,
    /// Spans of one large object each.
    large_spans: u64,
    /// Pages of those.
    large: Pages,
    decline: Decline,
    limit: SoftLimit,
    recorder: Option<Recorder>,
}

/// Whether a span is a large object that may change its size in place. A sample stands for the size
/// that it was taken with.
fn is_plain(span: &Span) -> bool {
    span.class().is_none() && span.sample == 0
}

/// What the page level has handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveSpans {
    /// Pages of all spans.
    pub pages: Pages,
    /// Spans of one large object each.
    pub large_spans: u64,
    /// Pages of those.
    pub large: Pages,
    /// Bytes of span metadata.
    pub metadata_bytes: usize,
    /// The soft limit.
    pub limit: LimitStatistics,
}

impl<P: PageHeap> PageLevel<P> {
    /// A level without page heap, which hands out nothing.
    pub const fn new() -> PageLevel<P> {
        PageLevel {
            heap: None,
            metadata: SpanMetadata::new(),
            live: Pages::ZERO,
            large_spans: 0,
            large: Pages::ZERO,
            decline: Decline::new(),
            limit: SoftLimit::none(),
            recorder: None,
        }
    }

    /// Records calls from now on; `None` ends a recording.
    pub fn record(&mut self, recorder: Option<Recorder>) {
        self.recorder = recorder;
    }

    fn note(&mut self, note: impl FnOnce(&mut Recorder, u64) -> bool) {
        if let Some(recorder) = self.recorder.as_mut()
            && !note(recorder, SystemClock.now_ns())
        {
            self.recorder = None;
        }
    }

    /// Gives the level its page heap.
    pub fn set_page_heap(&mut self, heap: P) {
        self.heap = Some(heap);
    }

    /// The page heap, once it is set.
    pub fn page_heap(&mut self) -> Option<&mut P> {
        self.heap.as_mut()
    }

    /// Sets the soft limit.
    pub fn set_limit(&mut self, limit: SoftLimit) {
        self.limit = limit;
    }

    /// A span of pages and its metadata, made by `describe`. `None` when memory is short; nothing
    /// has changed then.
    pub fn new_span<S: Storage>(
        &mut self,
        pages: Pages,
        align: Pages,
        describe: impl FnOnce(NewSpan) -> Span,
    ) -> Option<(*mut Span, NewSpan)> {
        let place = self.metadata.place::<S>()?;
        let Some(new) = self.heap.as_mut().and_then(|heap| heap.new_span(pages, align)) else {
            self.metadata.give_back(place);
            return None;
        };
        self.note(|recorder, now| recorder.new_span(now, new.pages.start, pages, align));
        let span = describe(new);
        self.live += pages;
        self.decline.grown(self.live);
        if span.class().is_none() {
            self.large_spans += 1;
            self.large += pages;
        }
        // SAFETY: an unused place for a span.
        unsafe { place.write(span) };
        Some((place, new))
    }

    /// Makes the span of a large object `len` pages long in its place, if the page heap can. A
    /// recording has it as a Delete and a New.
    ///
    /// # Safety
    /// The span came from [`PageLevel::new_span`], and no other thread uses it meanwhile.
    pub unsafe fn extend(&mut self, span: *mut Span, len: Pages, requested: usize) -> bool {
        // SAFETY: alive, and ours meanwhile, by the caller's promise.
        let span = unsafe { &mut *span };
        let pages = span.pages();
        if !is_plain(span) || !self.heap.as_mut().is_some_and(|heap| heap.extend(pages, len)) {
            return false;
        }
        self.resize(span, len, requested);
        self.note_resized(PageRange { len, ..pages });
        self.decline.grown(self.live);
        true
    }

    /// Truncates the span of a large object that now has `requested` bytes to `len` pages, if the page
    /// heap can.
    ///
    /// With [`Tail::Released`], what is left is about to be deleted, and a recording has the Delete
    /// of the whole span then. Otherwise it has a Delete and a New.
    ///
    /// # Safety
    /// As for [`PageLevel::extend`], and nothing needs what lies behind.
    pub unsafe fn truncate(
        &mut self,
        span: *mut Span,
        len: Pages,
        requested: usize,
        tail: Tail,
    ) -> bool {
        // SAFETY: alive, and ours meanwhile, by the caller's promise.
        let span = unsafe { &mut *span };
        let pages = span.pages();
        let may = span.class().is_none() && (tail == Tail::Released || is_plain(span));
        if !may || !self.heap.as_mut().is_some_and(|heap| heap.truncate(pages, len, tail)) {
            return false;
        }
        self.resize(span, len, requested);
        if tail == Tail::Kept {
            self.note_resized(PageRange { len, ..pages });
        }
        true
    }

    fn resize(&mut self, span: &mut Span, len: Pages, requested: usize) {
        let before = span.pages().len;
        span.resize(len, requested);
        self.live = self.live + len - before;
        self.large = self.large + len - before;
    }

    fn note_resized(&mut self, pages: PageRange) {
        self.note(|recorder, now| {
            recorder.delete(now, pages.start)
                && recorder.new_span(now, pages.start, pages.len, Pages::ONE)
        });
    }

    /// Takes a span back.
    ///
    /// # Safety
    /// It came from [`PageLevel::new_span`], and no reference to it is left.
    pub unsafe fn delete(&mut self, span: *mut Span) {
        // SAFETY: alive, by the caller's promise.
        let (pages, class) = unsafe { ((*span).pages(), (*span).class()) };
        self.live -= pages.len;
        if class.is_none() {
            self.large_spans -= 1;
            self.large -= pages.len;
        }
        self.metadata.give_back(span);
        self.note(|recorder, now| recorder.delete(now, pages.start));
        if let Some(heap) = self.heap.as_mut() {
            heap.delete(pages);
        }
    }

    /// What to do if the heap has shrunk by much.
    pub fn shrunk(&mut self) -> Option<Shrunk> {
        self.decline.shrunk(self.live, || SystemClock.now_ns())
    }

    /// Gives back free memory beyond half of the live memory.
    pub fn release_excess(&mut self) {
        let Some(heap) = self.heap.as_mut() else { return };
        let free = heap.stats().backing.free;
        let excess = free.saturating_sub(Pages(self.live.0 / 2));
        if !excess.is_zero() {
            self.release(excess);
        }
    }

    /// Pages that the soft limit counts: with memory behind them, and metadata. 0 without a limit.
    pub fn limited(&self) -> Pages {
        let Some(heap) = self.heap.as_ref().filter(|_| self.limit.is_set()) else {
            return Pages::ZERO;
        };
        heap.stats().backing.backed() + Pages::holding(self.metadata.bytes as u64)
    }

    /// Gives free memory back as far as the heap, with `others` of other nodes, exceeds the soft
    /// limit, just after it has grown: new memory takes up room only when it is written to. Whether
    /// the caches should give up what they hold.
    pub fn keep_within_limit(&mut self, others: Pages) -> bool {
        let excess = self.limit.excess(self.limited() + others);
        let Some(heap) = self.heap.as_ref().filter(|_| !excess.is_zero()) else { return false };
        let free = heap.stats().backing.free;
        let released = if free.is_zero() { Pages::ZERO } else { self.release(excess.min(free)) };
        self.limit.shrunk(excess, released, || SystemClock.now_ns())
    }

    /// Gives memory of at least `pages` back to the system, if the page heap can spare so much.
    pub fn release(&mut self, pages: Pages) -> Pages {
        self.note(|recorder, now| recorder.release(now, pages));
        self.heap.as_mut().map_or(Pages::ZERO, |heap| heap.release(pages))
    }

    /// What is handed out.
    pub fn live(&self) -> LiveSpans {
        LiveSpans {
            pages: self.live,
            large_spans: self.large_spans,
            large: self.large,
            metadata_bytes: self.metadata.bytes,
            limit: self.limit.statistics(),
        }
    }
}

impl<P: PageHeap> Default for PageLevel<P> {
    fn default() -> Self {
        PageLevel::new()
    }
}
