//! A plain model of memory: which pages are in spans, and which were written to.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use prairie_heap::memory::{Calls, CountingMemory, Memory};
use prairie_heap::page_heap::{Clock, PageHeap, Tail};
use prairie_heap::storage::Allocated;
use prairie_heap::{HugePages, HugeRange, PageRange, Pages};

/// A clock that stands until it is moved.
#[derive(Clone, Default)]
pub struct TestClock(Rc<Cell<u64>>);

impl TestClock {
    pub fn advance(&self, ns: u64) {
        self.0.set(self.0.get() + ns);
    }
}

impl Clock for TestClock {
    fn now_ns(&self) -> u64 {
        self.0.get()
    }
}

/// Memory that knows what is in use and what was written, and refuses wrong releases.
#[derive(Clone, Default)]
pub struct TestMemory(Rc<RefCell<State>>);

#[derive(Default)]
struct State {
    kernel: CountingMemory,
    live: Vec<PageRange>,
    /// Written and not released since, page by page; only kept where `follows_writes`.
    written: BTreeSet<u64>,
    follows_writes: bool,
}

impl TestMemory {
    pub fn limited(limit: HugePages) -> TestMemory {
        let state = State { kernel: CountingMemory::limited(limit), ..State::default() };
        TestMemory(Rc::new(RefCell::new(state)))
    }

    pub fn calls(&self) -> Calls {
        self.0.borrow().kernel.calls()
    }

    pub fn touch(&self, range: PageRange) {
        self.0.borrow_mut().kernel.touch(range);
    }
}

impl Memory for TestMemory {
    type Storage = Allocated;

    fn reserve(&mut self, len: HugePages) -> Option<HugeRange> {
        self.0.borrow_mut().kernel.reserve(len)
    }

    fn back(&mut self, _range: HugeRange) {}

    fn release(&mut self, range: PageRange) -> bool {
        let mut state = self.0.borrow_mut();
        for live in &state.live {
            let apart = live.end() <= range.start || range.end() <= live.start;
            assert!(apart, "{range} were released, though {live} are a span");
        }
        let released = state.kernel.release(range);
        if released && state.follows_writes {
            let gone: Vec<u64> =
                state.written.range(range.start.0..range.end().0).copied().collect();
            gone.iter().for_each(|page| {
                state.written.remove(page);
            });
        }
        released
    }

    fn unreserve(&mut self, range: HugeRange) -> bool {
        let mut state = self.0.borrow_mut();
        let pages = range.pages();
        for live in &state.live {
            let apart = live.end() <= pages.start || pages.end() <= live.start;
            assert!(apart, "{range} were given up, though {live} are a span");
        }
        let written = state.written.range(pages.start.0..pages.end().0).next();
        assert_eq!(written, None, "{range} were given up with memory behind them");
        state.kernel.unreserve(range)
    }
}

/// One call, or something that happens between calls.
#[derive(Clone, Debug)]
pub enum Step {
    New {
        pages: u64,
        align: u64,
    },
    /// Of the span of this number, modulo the number of spans.
    Delete(usize),
    /// Of the span of this number, as above, by a number of pages.
    Extend(usize, u64),
    /// Of the span of this number, as above, to a number of pages.
    Truncate(usize, u64, Tail),
    Release(u64),
    GiveUpSpace,
    Wait(u64),
    RefuseRelease(bool),
}

/// A page heap beside the model.
pub struct Model<H> {
    heap: H,
    memory: TestMemory,
    clock: TestClock,
    live: Pages,
}

impl<H: PageHeap> Model<H> {
    pub fn new(make: impl FnOnce(TestMemory, TestClock) -> H) -> Model<H> {
        let memory = TestMemory::default();
        memory.0.borrow_mut().follows_writes = true;
        let clock = TestClock::default();
        Model { heap: make(memory.clone(), clock.clone()), memory, clock, live: Pages::ZERO }
    }

    /// Takes the steps; after each the page heap must agree with itself and with the model.
    pub fn run(mut self, steps: &[Step]) {
        for step in steps {
            self.take(step);
            self.check();
        }
        let spans = std::mem::take(&mut self.memory.0.borrow_mut().live);
        spans.into_iter().for_each(|span| self.delete(span));
        self.memory.0.borrow_mut().kernel.refuse_release(false);
        self.heap.release(Pages(u64::MAX >> 14));
        self.check();
        let backing = self.heap.stats().backing;
        assert_eq!((backing.backed(), backing.on_huge_pages), (Pages(0), Pages(0)));
        // What the legacy page heap does not know of, it cannot release: that the kernel backed a
        // whole huge page when one page of it was touched.
        if self.heap.stats().page_heap == "temeraire" {
            assert_eq!(self.memory.0.borrow().kernel.resident().pages, Pages(0));
        }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::New { pages, align } => self.create(Pages(pages), Pages(align)),
            Step::Delete(number) => {
                let span = {
                    let live = &mut self.memory.0.borrow_mut().live;
                    if live.is_empty() {
                        return;
                    }
                    let number = number % live.len();
                    live.swap_remove(number)
                };
                self.delete(span);
            }
            Step::Extend(number, by) => self.extend(number, Pages(by)),
            Step::Truncate(number, len, tail) => self.truncate(number, Pages(len), tail),
            Step::Release(pages) => self.release(Pages(pages)),
            Step::GiveUpSpace => {
                self.heap.give_up_space();
                let refuses = self.memory.0.borrow().kernel.refuses_release();
                assert!(refuses || self.heap.idle_space() == HugePages::ZERO);
            }
            Step::Wait(ns) => self.clock.advance(ns),
            Step::RefuseRelease(refuse) => {
                self.memory.0.borrow_mut().kernel.refuse_release(refuse);
            }
        }
    }

    fn create(&mut self, pages: Pages, align: Pages) {
        let span = self.heap.new_span(pages, align).expect("address space is plentiful");
        let state = &mut *self.memory.0.borrow_mut();
        let range = span.pages;
        assert_eq!((range.len, range.start.0 % align.0), (pages, 0));
        for live in &state.live {
            let apart = live.end() <= range.start || range.end() <= live.start;
            assert!(apart, "{range} were handed out, though {live} are a span");
        }
        let written = state.written.range(range.start.0..range.end().0).next();
        assert!(!span.zeroed || written.is_none(), "{range} do not read as zeros");
        state.kernel.touch(range);
        // Of very large spans only the ends, so that the model stays quick.
        let ends = [range.start.0, range.end().0 - 1];
        let all = if range.len.0 < 1_000 { ends[0]..ends[1] } else { 0..0 };
        state.written.extend(ends.into_iter().chain(all));
        state.live.push(range);
        self.live += pages;
    }

    /// A live span by its number, modulo the number of spans.
    fn span(&self, number: usize) -> Option<(usize, PageRange)> {
        let live = &self.memory.0.borrow().live;
        let number = number.checked_rem(live.len())?;
        Some((number, live[number]))
    }

    fn truncate(&mut self, number: usize, len: Pages, tail: Tail) {
        let Some((number, span)) = self.span(number).filter(|(_, span)| len < span.len) else {
            return;
        };
        // Only what the span loses may be released.
        self.memory.0.borrow_mut().live[number].len = len;
        let before = self.heap.stats();
        if !self.heap.truncate(span, len, tail) {
            self.memory.0.borrow_mut().live[number].len = span.len;
            assert_eq!(self.heap.stats(), before);
            return;
        }
        let after = self.heap.stats();
        let released = after.released_pages - before.released_pages;
        // A broken huge page that the system refuses to take counts as backed, whole.
        if !self.memory.0.borrow().kernel.refuses_release() {
            assert_eq!(after.backing.backed() + released, before.backing.backed());
        }
        self.live -= span.len - len;
        if tail == Tail::Released {
            let whole = Pages(span.len.0 / HugePages::PAGES.0 * HugePages::PAGES.0);
            let gone = PageRange { start: span.start + len, len: whole - len };
            assert!(released >= gone.len);
            let written = &self.memory.0.borrow().written;
            let kept = written.range(gone.start.0..gone.end().0).next();
            assert_eq!(kept, None, "{gone} keep memory");
        }
    }

    fn extend(&mut self, number: usize, by: Pages) {
        let Some((number, span)) = self.span(number) else { return };
        let len = span.len + by;
        if !self.heap.extend(span, len) {
            return;
        }
        let state = &mut *self.memory.0.borrow_mut();
        let added = PageRange { start: span.end(), len: by };
        for live in &state.live {
            let apart = live.end() <= added.start || added.end() <= live.start;
            assert!(apart, "{added} were added to {span}, though {live} are a span");
        }
        state.kernel.touch(added);
        state.written.extend([added.start.0, added.end().0 - 1]);
        state.live[number] = PageRange { len, ..span };
        self.live += by;
    }

    fn delete(&mut self, span: PageRange) {
        self.heap.delete(span);
        self.live -= span.len;
    }

    fn release(&mut self, pages: Pages) {
        let before = self.heap.stats();
        let released = self.heap.release(pages);
        let after = self.heap.stats();
        assert_eq!(after.released_pages, before.released_pages + released);
        assert_eq!(after.backing.backed() + released, before.backing.backed());
        if !self.memory.0.borrow().kernel.refuses_release() {
            assert!(
                released >= pages.min(before.backing.free - self.unreleasable(&before.backing))
            );
        }
    }

    /// Backed pages that are in no span and can yet not be released: what spans of 1 GiB and more
    /// lack to whole huge pages, and shared huge pages of regions.
    fn unreleasable(&self, backing: &prairie_heap::page_heap::Backing) -> Pages {
        let live = &self.memory.0.borrow().live;
        let rounded: Pages = live
            .iter()
            .filter(|span| span.len > Pages(128))
            .map(|span| span.touched_huge_pages().len.pages() - span.len)
            .sum();
        rounded.min(backing.free)
    }

    fn check(&self) {
        assert_eq!(self.heap.validate(), Ok(()));
        let stats = self.heap.stats();
        assert_eq!(stats.backing.live, self.live);
        // What has memory behind it is what the page heap believes, or less: it counts pages as
        // backed that nobody has touched yet.
        let resident = self.memory.0.borrow().kernel.resident();
        if stats.page_heap == "temeraire" {
            assert!(resident.pages <= stats.backing.backed());
            assert!(resident.on_huge_pages <= stats.backing.on_huge_pages);
        }
    }
}
