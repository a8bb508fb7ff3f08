//! The page map: from a page to its span and its size class, read without a lock.
//!
//! A root has an entry for each GiB of the address space, and a leaf an entry for each of its
//! pages. The classes are kept apart from the spans, a byte a page. Those of the *window*, the
//! address space around the first pages that were ever mapped, lie in one array, so that a free
//! finds its class with one load and a comparison; Linux maps from the top downward, so the window
//! reaches further down than up. Behind the classes of the window lie the marks of its free
//! objects.

use core::alloc::Layout;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU8, Ordering::*};

use super::code;
use super::protocol::place::Place;
use super::protocol::window::{MARK_BYTES, Window};
use super::size_class::SizeClass;
use super::span::Span;
use crate::storage::Storage;
use crate::units::{PageId, PageRange, Pages};

/// Bits of an address that programs can have.
#[cfg(target_arch = "x86_64")]
const ADDRESS_BITS: u32 = 47;
/// Bits of an address that programs can have.
#[cfg(not(target_arch = "x86_64"))]
const ADDRESS_BITS: u32 = 48;
/// A leaf covers 1 GiB.
const LEAF_BITS: u32 = 30;
const LEAF_PAGES: usize = 1 << (LEAF_BITS - Pages::SHIFT);
const ROOT_ENTRIES: usize = 1 << (ADDRESS_BITS - LEAF_BITS);
/// Marks of a page.
const MARKS: u64 = Pages::SIZE / MARK_BYTES as u64;

/// Classes of a leaf outside the window.
const CLASSES_OF_LEAF: Layout = Layout::new::<[AtomicU8; LEAF_PAGES]>();

#[repr(C)]
struct Leaf {
    /// The [code] of the class of each page, 0 if it is in no span of small objects. Null where the
    /// window has them, so that such a leaf is not touched until its pages are used.
    classes: AtomicPtr<AtomicU8>,
    spans: [AtomicPtr<Span>; LEAF_PAGES],
}

/// The page map.
pub struct PageMap {
    root: [Place<Leaf>; ROOT_ENTRIES],
    window: Window,
}

/// How far the window reaches beyond the GiB of the first page, in GiB.
#[derive(Clone, Copy, Debug)]
pub struct Reach {
    /// Towards lower addresses.
    pub down: u64,
    /// Towards higher addresses.
    pub up: u64,
}

impl Reach {
    /// For a process that may map `limit` bytes of address space: 256 GiB if there is no limit,
    /// else as much as can ever be mapped.
    pub const fn for_limit(limit: Option<u64>) -> Reach {
        match limit {
            Some(bytes) if bytes >> LEAF_BITS < 128 => {
                Reach { down: (bytes >> LEAF_BITS) + 1, up: 1 }
            }
            _ => Reach { down: 240, up: 15 },
        }
    }
}

impl PageMap {
    /// A map without pages, which has taken no storage.
    pub const fn new() -> PageMap {
        PageMap { root: [const { Place::new() }; ROOT_ENTRIES], window: Window::zeroed() }
    }

    /// The window, for the code that frees.
    pub const fn window(&self) -> &Window {
        &self.window
    }

    /// Makes room for the pages of a range. False if there is no storage; nothing that can be seen
    /// has changed then. The first call opens the window and is over before others begin; the heaps
    /// of several nodes may make room at once afterwards.
    #[must_use]
    pub fn make_room<S: Storage>(&self, range: PageRange, reach: Reach) -> bool {
        let first = leaf_of(range.start);
        let last = leaf_of(PageId(range.end().0 - 1));
        last < ROOT_ENTRIES
            && (first..=last)
                .all(|leaf| !self.root[leaf].get().is_null() || self.add_leaf::<S>(leaf, reach))
    }

    fn add_leaf<S: Storage>(&self, number: usize, reach: Reach) -> bool {
        if !self.window.is_open() && !self.open_window::<S>(number, reach) {
            return false;
        }
        let Some(place) = S::take(Layout::new::<Leaf>()) else { return false };
        let leaf = place.as_ptr().cast::<Leaf>();
        let mut own_classes = None;
        if self.window.find((number * LEAF_PAGES) as u64).is_null() {
            own_classes = S::take(CLASSES_OF_LEAF);
            let Some(classes) = own_classes else {
                // SAFETY: just taken, and known to no other thread.
                unsafe { S::give_back(place, Layout::new::<Leaf>()) };
                return false;
            };
            // SAFETY: fresh storage for a leaf, zeroed, which is a value of all its fields.
            unsafe { (*leaf).classes.store(classes.as_ptr().cast(), Relaxed) };
        }
        if self.root[number].fill(leaf).is_err() {
            // Another node's heap was faster.
            // SAFETY: as above.
            unsafe {
                S::give_back(place, Layout::new::<Leaf>());
                own_classes.inspect(|&classes| S::give_back(classes, CLASSES_OF_LEAF));
            }
        }
        true
    }

    fn open_window<S: Storage>(&self, number: usize, reach: Reach) -> bool {
        let first = (number as u64).saturating_sub(reach.down);
        let end = (number as u64 + 1 + reach.up).min(ROOT_ENTRIES as u64);
        let pages = (end - first) * LEAF_PAGES as u64;
        let bytes = (pages * (1 + MARKS)) as usize;
        let Ok(layout) = Layout::from_size_align(bytes, 4096) else { return false };
        let Some(classes) = S::take(layout) else { return false };
        self.window.open(first * LEAF_PAGES as u64, pages, classes.as_ptr().cast());
        true
    }

    /// Stores the span of its pages: of all of them and with the class for small objects, of the
    /// first one alone for a large object. There is room for them.
    ///
    /// # Safety
    /// The span lives until [`PageMap::forget`].
    pub unsafe fn note(&self, span: *mut Span) {
        // SAFETY: alive, by the caller's promise.
        let (pages, class) = unsafe { ((*span).pages(), (*span).class()) };
        self.set(pages, class, span);
    }

    /// Forgets a span that was noted.
    pub fn forget(&self, span: &Span) {
        self.clear(span.pages(), span.class());
    }

    fn set(&self, pages: PageRange, class: Option<SizeClass>, span: *mut Span) {
        self.each(pages, class, |leaf, page| {
            leaf.spans[index_in_leaf(page)].store(span, Relaxed);
            if let Some(class) = class {
                self.class_place(leaf, page).store(code::of(class), Release);
            }
        });
    }

    fn clear(&self, pages: PageRange, class: Option<SizeClass>) {
        self.each(pages, class, |leaf, page| {
            if class.is_some() {
                self.class_place(leaf, page).store(0, Release);
            }
            leaf.spans[index_in_leaf(page)].store(null_mut(), Relaxed);
        });
    }

    fn each(&self, pages: PageRange, class: Option<SizeClass>, act: impl Fn(&Leaf, PageId)) {
        let len = if class.is_some() { pages.len.0 } else { 1 };
        for page in pages.start.0..pages.start.0 + len {
            let leaf = self.leaf(PageId(page)).expect("room was made for the span");
            act(leaf, PageId(page));
        }
    }

    /// Where the class of a page lies, whose leaf it is.
    #[inline]
    fn class_place(&self, leaf: &Leaf, page: PageId) -> &AtomicU8 {
        let classes = leaf.classes.load(Relaxed);
        let place = match classes.is_null() {
            true => self.window.find(page.0),
            false => classes.wrapping_add(index_in_leaf(page)),
        };
        // SAFETY: a leaf without classes of its own lies in the window as a whole; an array has an
        // entry for each page of a leaf. Neither is ever given back.
        unsafe { &*place }
    }

    fn leaf(&self, page: PageId) -> Option<&Leaf> {
        let leaf = self.root.get(leaf_of(page))?.get();
        // SAFETY: leaves are never given back.
        unsafe { leaf.as_ref() }
    }

    /// The class of the objects of a page. `None` if it is in no span of small objects.
    #[inline]
    pub fn class(&self, page: PageId) -> Option<SizeClass> {
        let leaf = self.leaf(page)?;
        code::class(self.class_place(leaf, page).load(Acquire))
    }

    /// The span that a page is in, or null. Of a span of one large object only the first page is
    /// known.
    #[inline]
    pub fn span(&self, page: PageId) -> *mut Span {
        self.leaf(page).map_or(null_mut(), |leaf| leaf.spans[index_in_leaf(page)].load(Acquire))
    }

    /// Calls `act` for each page that is known: with its class, and its span if that is known.
    ///
    /// # Errors
    /// The first of `act`.
    #[cfg(debug_assertions)]
    pub fn try_each<E>(
        &self,
        mut act: impl FnMut(PageId, Option<SizeClass>, *mut Span) -> Result<(), E>,
    ) -> Result<(), E> {
        for number in 0..ROOT_ENTRIES {
            if self.root[number].get().is_null() {
                continue;
            }
            let first = (number * LEAF_PAGES) as u64;
            for page in (first..first + LEAF_PAGES as u64).map(PageId) {
                let (class, span) = (self.class(page), self.span(page));
                if class.is_some() || !span.is_null() {
                    act(page, class, span)?;
                }
            }
        }
        Ok(())
    }
}

impl Default for PageMap {
    fn default() -> Self {
        PageMap::new()
    }
}

const fn leaf_of(page: PageId) -> usize {
    (page.0 / LEAF_PAGES as u64) as usize
}

const fn index_in_leaf(page: PageId) -> usize {
    (page.0 % LEAF_PAGES as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Mapped;

    fn map() -> &'static PageMap {
        // SAFETY: a map is made of atomic integers and pointers, for which zero is valid.
        Box::leak(unsafe { Box::<PageMap>::new_zeroed().assume_init() })
    }

    fn range(start: u64, len: u64) -> PageRange {
        PageRange { start: PageId(start), len: Pages(len) }
    }

    #[test]
    fn small_spans_are_found_by_any_page_large_ones_by_their_first() {
        let map = map();
        let class = SizeClass::of_size(9000).unwrap();
        let pages = u64::from(class.info().pages);
        // One in the window, one across the border of two GiB, one far outside.
        let starts = [300 << 17, (301 << 17) - 1, 100_000 << 17];
        for start in starts {
            assert!(map.make_room::<Mapped>(range(start, pages), Reach::for_limit(None)));
            let mut span = Span::small(range(start, pages), class);
            // SAFETY: the span is forgotten before it dies.
            unsafe { map.note(&mut span) };
            for page in start..start + pages {
                assert_eq!(map.class(PageId(page)), Some(class));
                assert_eq!(map.span(PageId(page)), &raw mut span);
            }
            assert_eq!(map.class(PageId(start + pages)), None);
            assert!(map.span(PageId(start - 1)).is_null());
            map.forget(&span);
            assert_eq!(map.class(PageId(start)), None);
        }
        let mut large = Span::large(range(5, 100), 0);
        assert!(map.make_room::<Mapped>(range(5, 100), Reach::for_limit(None)));
        // SAFETY: the map is not asked again after the span dies.
        unsafe { map.note(&mut large) };
        assert_eq!(map.span(PageId(5)), &raw mut large);
        assert_eq!((map.class(PageId(5)), map.span(PageId(6))), (None, null_mut()));
    }

    #[test]
    fn absurd_pages_are_unknown_and_get_no_room() {
        let map = map();
        for page in [0, 1, u64::MAX >> 13, u64::MAX] {
            assert_eq!((map.class(PageId(page)), map.span(PageId(page))), (None, null_mut()));
        }
        assert!(!map.make_room::<Mapped>(range(1 << 40, 1), Reach::for_limit(None)));
    }

    #[test]
    fn a_limit_keeps_the_window_small() {
        let reach = Reach::for_limit(Some(500 << 20));
        assert_eq!((reach.down, reach.up), (1, 1));
        assert_eq!(Reach::for_limit(Some(u64::MAX)).down, 240);
    }
}
