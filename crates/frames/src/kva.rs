//! Kernel address space, and how it becomes pages of the kernel's object (FreeBSD's `vmem` arenas of
//! `sys/vm/vm_kern.c`).
//!
//! A NUMA domain has an arena that imports address space in ranges of whole superpages
//! (`KVA_QUANTUM`), allocates pages of them, and returns a range once it is completely unused. The
//! page that backs an address has the address's number in the kernel's object ([`ObjectPage`]), so
//! that one reservation backs one superpage of addresses: kernel allocations fill superpages one
//! after the other, and do not scatter over free pages.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::Order;
use crate::placement::ObjectPage;

/// Pages that are imported at once, or a multiple: a superpage's.
pub(crate) const QUANTUM: u64 = Order::HUGE.frames();

/// The kernel's object among the objects of a machine.
pub(crate) const KERNEL_OBJECT: u64 = u64::MAX;

/// The page of the kernel's object behind a page of kernel address space. The object has the size of
/// the address space, so that no stretch of it is a tail.
pub const fn kernel_page(page: u64) -> ObjectPage {
    ObjectPage { object: KERNEL_OBJECT, index: page, pages: u64::MAX }
}

/// An arena of kernel address space, in pages.
#[derive(Clone, Debug, Default)]
pub struct Arena {
    /// Free ranges by their start, with their length; those of different imports never merge.
    free: BTreeMap<u64, u64>,
    /// The same by length: the best fit is the first that suffices.
    by_length: BTreeSet<(u64, u64)>,
    /// Imported stretches by their start, with their length.
    imports: BTreeMap<u64, u64>,
    /// Address space that was returned, by start, with its length.
    returned: BTreeMap<u64, u64>,
    /// Where address space begins that was never imported.
    end: u64,
}

impl Arena {
    /// Hands out `pages` pages of address space in a row, and returns the first: the best fit of what
    /// is imported (`M_BESTFIT`), of equals the lowest, else of a new import. Logarithmic in the number
    /// of free ranges.
    ///
    /// # Panics
    /// If no pages are asked for.
    pub fn take(&mut self, pages: u64) -> u64 {
        assert!(pages > 0, "no pages");
        if self.by_length.range((pages, 0)..).next().is_none() {
            self.import(pages.next_multiple_of(QUANTUM));
        }
        let &(length, start) = self.by_length.range((pages, 0)..).next().expect("just imported");
        self.remove(start, length);
        if length > pages {
            self.insert(start + pages, length - pages);
        }
        start
    }

    /// Frees `pages` pages that were allocated together from `start` on. Returns a range once it is
    /// completely unused.
    ///
    /// # Panics
    /// If they leave their import or overlap a free range.
    pub fn give(&mut self, start: u64, pages: u64) {
        let (&import, &size) = self.imports.range(..=start).next_back().expect("no such import");
        assert!(start + pages <= import + size, "{pages} from {start} leave their import");
        let (mut from, mut length) = (start, pages);
        if let Some((&before, &len)) = self.free.range(import..start).next_back() {
            assert!(before + len <= start, "{start} is free already");
            if before + len == start {
                self.remove(before, len);
                (from, length) = (before, length + len);
            }
        }
        if let Some((&after, &len)) = self.free.range(start..import + size).next() {
            assert!(start + pages <= after, "{start} is free already");
            if start + pages == after {
                self.remove(after, len);
                length += len;
            }
        }
        if length == size {
            self.imports.remove(&import);
            self.returned.insert(import, size);
        } else {
            self.insert(from, length);
        }
    }

    /// Pages of address space that are imported.
    pub(crate) fn imported(&self) -> u64 {
        self.imports.values().sum()
    }

    /// Pages of it that are allocated.
    pub fn in_use(&self) -> u64 {
        self.imported() - self.free.values().sum::<u64>()
    }

    /// A new stretch: the lowest that was returned and is large enough, or one beyond all others.
    fn import(&mut self, pages: u64) {
        let found = self.returned.iter().find(|&(_, &len)| len >= pages);
        let start = match found.map(|(&start, &len)| (start, len)) {
            Some((start, len)) => {
                self.returned.remove(&start);
                if len > pages {
                    self.returned.insert(start + pages, len - pages);
                }
                start
            }
            None => {
                self.end += pages;
                self.end - pages
            }
        };
        self.imports.insert(start, pages);
        self.insert(start, pages);
    }

    fn insert(&mut self, start: u64, length: u64) {
        self.free.insert(start, length);
        self.by_length.insert((length, start));
    }

    fn remove(&mut self, start: u64, length: u64) {
        self.free.remove(&start);
        self.by_length.remove(&(length, start));
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn address_space_is_imported_by_superpages_and_returned_whole() {
        let mut arena = Arena::default();
        assert_eq!((arena.take(3), arena.take(3)), (0, 3));
        assert_eq!((arena.imported(), arena.in_use()), (512, 6));
        assert_eq!(arena.take(510), 512, "too long for what is left of the first");
        assert_eq!(arena.take(2), 1022, "the best fit, not the first");
        arena.give(512, 510);
        arena.give(1022, 2);
        assert_eq!((arena.imported(), arena.in_use()), (512, 6), "the second is returned");
        assert_eq!(arena.take(1000), 1024, "what was returned is too small");
        assert_eq!(arena.take(512), 512, "and is found again");
        arena.give(0, 3);
        assert_eq!(arena.take(3), 0);
    }

    proptest! {
        /// Ranges never overlap, and when all are returned nothing stays imported.
        #[test]
        fn ranges_are_handed_out_once(
            steps in prop::collection::vec((1..1200u64, any::<prop::sample::Index>(), 0..3u8), 1..80)
        ) {
            let mut arena = Arena::default();
            let mut live: Vec<(u64, u64)> = Vec::new();
            for (pages, which, act) in steps {
                if act == 0 && !live.is_empty() {
                    let (start, pages) = live.swap_remove(which.index(live.len()));
                    arena.give(start, pages);
                } else {
                    let start = arena.take(pages);
                    for &(other, len) in &live {
                        prop_assert!(start + pages <= other || other + len <= start);
                    }
                    live.push((start, pages));
                }
                prop_assert_eq!(arena.in_use(), live.iter().map(|&(_, len)| len).sum::<u64>());
                prop_assert_eq!(arena.imported() % QUANTUM, 0);
            }
            for (start, pages) in live {
                arena.give(start, pages);
            }
            prop_assert_eq!((arena.imported(), arena.in_use()), (0, 0));
        }
    }
}
