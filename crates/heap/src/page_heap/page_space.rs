//! Page table of the legacy page heap: where free ranges begin and end, and, for the statistics
//! alone, what its releases do to huge pages.

use super::huge_page_map::HugePageMap;
use crate::storage::{Key, Slab, Storage};
use crate::units::{HugePages, PageId, PageRange, Pages};

const PAGES: usize = HugePages::PAGES.0 as usize;

/// One huge page of the space.
#[derive(Clone, Copy, Debug)]
struct Leaf {
    /// Key plus one of the free range that begins or ends at a page; 0 elsewhere.
    boundaries: [u32; PAGES],
    /// Pages with memory behind them.
    backed: u16,
    /// Whether a part of it was released while another was backed.
    broken: bool,
}

/// Pages, by the huge pages that they lie in. All operations on a page take O(1).
#[derive(Debug)]
pub struct PageSpace<T: Copy, S: Storage> {
    leaves: Slab<Leaf, S>,
    by_huge_page: HugePageMap<Leaf, S>,
    on_huge_pages: Pages,
    ranges: core::marker::PhantomData<fn() -> T>,
}

impl<T: Copy, S: Storage> PageSpace<T, S> {
    /// No pages. `None` if there is no storage for the table.
    pub fn new() -> Option<Self> {
        Some(PageSpace {
            leaves: Slab::new(),
            by_huge_page: HugePageMap::new()?,
            on_huge_pages: Pages::ZERO,
            ranges: core::marker::PhantomData,
        })
    }

    /// Makes room to note what these pages are. Whether there was storage.
    #[must_use]
    pub fn cover(&mut self, range: PageRange) -> bool {
        let huge_pages = range.touched_huge_pages();
        (0..huge_pages.len.0).all(|i| {
            let huge_page = huge_pages.start + HugePages(i);
            if self.by_huge_page.get(huge_page).is_some() {
                return true;
            }
            let leaf = Leaf { boundaries: [0; PAGES], backed: 0, broken: false };
            let Some(key) = self.leaves.insert(leaf) else { return false };
            if !self.by_huge_page.set(huge_page, key) {
                self.leaves.remove(key);
                return false;
            }
            true
        })
    }

    /// The free range that begins or ends at this page.
    pub fn boundary(&self, page: PageId) -> Option<Key<T>> {
        let leaf = self.leaves.get(self.by_huge_page.get(page.huge_page())?);
        leaf.boundaries[page.index_in_huge_page()].checked_sub(1).map(Key::of)
    }

    /// Notes a free range at its first and last page, or that it is none any more.
    pub fn set_boundaries(&mut self, range: PageRange, key: Option<Key<T>>) {
        for page in [range.start, PageId(range.end().0 - 1)] {
            let entry = key.map_or(0, |key| key.get() + 1);
            self.leaf(page).boundaries[page.index_in_huge_page()] = entry;
        }
    }

    /// Memory comes behind the pages, which had none.
    pub fn back(&mut self, range: PageRange) {
        for (page, len) in parts(range) {
            let leaf = self.leaf(page);
            leaf.backed += len.0 as u16;
            if !leaf.broken {
                self.on_huge_pages += len;
            }
        }
    }

    /// The memory behind the pages is gone.
    pub fn unback(&mut self, range: PageRange) {
        for (page, len) in parts(range) {
            let leaf = self.leaf(page);
            let (was_whole, backed) = (!leaf.broken, Pages(u64::from(leaf.backed)));
            leaf.backed -= len.0 as u16;
            leaf.broken = leaf.backed > 0;
            if was_whole {
                self.on_huge_pages -= backed;
            }
        }
    }

    /// Backed pages on huge pages without a released part.
    pub const fn on_huge_pages(&self) -> Pages {
        self.on_huge_pages
    }

    /// Checks the counts against how much is said to be backed.
    ///
    /// # Errors
    /// A message that names the inconsistency.
    pub fn validate(&self, backed: Pages) -> Result<(), String> {
        let (mut total, mut whole) = (Pages::ZERO, Pages::ZERO);
        for (_, leaf) in self.leaves.iter() {
            total += Pages(u64::from(leaf.backed));
            if !leaf.broken {
                whole += Pages(u64::from(leaf.backed));
            }
        }
        if (total, whole) != (backed, self.on_huge_pages) {
            return Err(format!(
                "legacy: {backed:?} backed, but {total:?} counted, {whole:?} whole"
            ));
        }
        Ok(())
    }

    fn leaf(&mut self, page: PageId) -> &mut Leaf {
        let key = self.by_huge_page.get(page.huge_page()).expect("the heap covers its pages");
        self.leaves.get_mut(key)
    }
}

/// The parts of a range on each huge page: first page and length.
fn parts(range: PageRange) -> impl Iterator<Item = (PageId, Pages)> {
    let mut at = range.start;
    core::iter::from_fn(move || {
        let len = Pages((PAGES - at.index_in_huge_page()) as u64).min(range.end() - at);
        let part = (!len.is_zero()).then_some((at, len));
        at = at + len;
        part
    })
}
