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

mod objects;
mod ring;
mod spans;
mod tables;

use core::marker::PhantomData;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering::*};

use super::central::CentralState;
use super::limit::SoftLimit;
use super::page_map::{PageMap, Reach};
use super::pages::{LiveSpans, PageLevel};
use super::record::Recorder;
use super::size_class::SizeClass;
use super::sync::{ForkLock, Lock};
use super::transfer::TransferCache;
use crate::memory::node::Node;
use crate::page_heap::PageHeap;
use crate::storage::{Mapped, Storage};
use crate::units::Pages;

pub use tables::{ClassLevels, ClassTable, Tables};

const EMPTY_CACHES: u8 = 1;
const GIVE_BACK: u8 = 2;

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
