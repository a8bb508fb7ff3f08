//! Spans: runs of pages that hold one large object, or small objects of one class.

use core::ptr::null_mut;

use super::size_class::{MAX_OBJECTS, SizeClass};
use crate::units::{PageId, PageRange, Pages};

const WORDS: usize = MAX_OBJECTS / 64;

/// Metadata of a span. It lies apart from the objects, so a program that writes past an object
/// cannot corrupt it.
///
/// `class` and the start of `pages` do not change while the span lives, and are read by any thread
/// that frees an object of it. The length of `pages` changes only when realloc extends or shortens
/// the one large object, which no other thread may use meanwhile. All other fields belong to the
/// holder of the lock of the class's central free list.
#[derive(Debug)]
#[repr(C)]
pub struct Span {
    pages: PageRange,
    class: Option<SizeClass>,
    /// Objects that no cache and no program has.
    free: u16,
    /// Number of the sample that its one object is, or 0.
    pub(super) sample: u32,
    /// Neighbors in a list of spans.
    pub(super) next: *mut Span,
    pub(super) previous: *mut Span,
    /// Requested bytes, of a large object.
    pub(super) requested: usize,
    /// A bit for each object that is free.
    bits: [u64; WORDS],
}

/// Why an object cannot be one of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The pointer points into an object or behind the last one.
    Interior,
    /// The object is free already.
    Free,
}

impl Span {
    /// A span of one large object.
    pub const fn large(pages: PageRange, requested: usize) -> Span {
        let (next, previous) = (null_mut(), null_mut());
        Span { pages, class: None, free: 0, sample: 0, next, previous, requested, bits: [0; WORDS] }
    }

    /// A span of small objects, all of them free.
    pub fn small(pages: PageRange, class: SizeClass) -> Span {
        let objects = class.info().objects;
        debug_assert_eq!(pages.len, Pages(class.info().pages.into()));
        let mut span = Span { class: Some(class), free: objects, ..Span::large(pages, 0) };
        for object in 0..objects as usize {
            span.bits[object / 64] |= 1 << (object % 64);
        }
        span
    }

    /// Its pages.
    #[inline]
    pub const fn pages(&self) -> PageRange {
        self.pages
    }

    /// Gives the span of one large object another length and requested size.
    pub fn resize(&mut self, len: Pages, requested: usize) {
        debug_assert!(self.class.is_none());
        self.pages.len = len;
        self.requested = requested;
    }

    /// The first page.
    pub const fn start(&self) -> PageId {
        self.pages.start
    }

    /// The class of its objects, or `None` if it is one large object.
    #[inline]
    pub const fn class(&self) -> Option<SizeClass> {
        self.class
    }

    /// Objects that no cache and no program has.
    pub const fn free(&self) -> usize {
        self.free as usize
    }

    /// Whether all of its objects are free.
    pub fn is_empty(&self) -> bool {
        self.class.is_some_and(|class| self.free == class.info().objects)
    }

    /// Takes free objects in the order of their addresses, as many as there are and `objects`
    /// holds. Returns how many.
    pub fn take(&mut self, objects: &mut [*mut u8]) -> usize {
        let (start, size) =
            (self.start().address() as usize, self.class.map_or(0, SizeClass::size));
        let mut taken = 0;
        for (word, bits) in self.bits.iter_mut().enumerate() {
            while *bits != 0 && taken < objects.len() {
                let index = word * 64 + bits.trailing_zeros() as usize;
                *bits &= *bits - 1;
                objects[taken] = (start + index * size) as *mut u8;
                taken += 1;
            }
        }
        self.free -= taken as u16;
        taken
    }

    /// Which object begins at `address`, a place in the span.
    ///
    /// # Errors
    /// If none does.
    pub fn index_of(&self, address: usize) -> Result<usize, Refused> {
        let offset = address - self.start().address() as usize;
        let Some(class) = self.class else {
            return if offset == 0 { Ok(0) } else { Err(Refused::Interior) };
        };
        let index = class.info().index_of(offset);
        let begins = index * class.size() == offset && index < class.info().objects as usize;
        if begins { Ok(index) } else { Err(Refused::Interior) }
    }

    /// Takes an object back.
    ///
    /// # Errors
    /// If no object begins at `address`, or if it is free already. Nothing has changed then.
    pub fn give(&mut self, address: usize) -> Result<(), Refused> {
        let index = self.index_of(address)?;
        let (word, bit) = (&mut self.bits[index / 64], 1 << (index % 64));
        if *word & bit != 0 {
            return Err(Refused::Free);
        }
        *word |= bit;
        self.free += 1;
        Ok(())
    }

    /// Whether the object that begins at `address` is free.
    #[cfg(debug_assertions)]
    pub fn is_free(&self, address: usize) -> bool {
        self.index_of(address).is_ok_and(|index| self.bits[index / 64] >> (index % 64) & 1 == 1)
    }

    /// Whether its count of free objects agrees with its bits.
    #[cfg(any(test, debug_assertions))]
    pub fn is_consistent(&self) -> bool {
        self.bits.iter().map(|word| word.count_ones()).sum::<u32>() == u32::from(self.free)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A span of a class at a page that nothing is behind.
    pub fn span_at(page: u64, class: SizeClass) -> Span {
        let len = Pages(class.info().pages.into());
        Span::small(PageRange { start: PageId(page), len }, class)
    }

    #[test]
    fn gives_each_object_once_in_order_of_addresses() {
        for class in SizeClass::all() {
            let mut span = span_at(1000, class);
            let mut objects = [null_mut(); MAX_OBJECTS];
            let (some, rest) = objects.split_at_mut(3);
            let taken = span.take(some);
            let taken = taken + span.take(rest);
            assert_eq!(taken, class.info().objects as usize);
            assert!(objects[..taken].is_sorted_by(|a, b| a < b));
            assert!(
                objects[taken - 1] as u64 + class.size() as u64 <= span.pages().end().address()
            );
            assert_eq!((span.free(), span.is_consistent()), (0, true));
            for &object in &objects[..taken] {
                span.give(object as usize).unwrap();
                assert_eq!(span.give(object as usize), Err(Refused::Free));
            }
            assert!(span.is_empty() && span.is_consistent());
        }
    }

    #[test]
    fn refuses_what_is_no_object() {
        let class = SizeClass::of_size(48).unwrap();
        let mut span = span_at(1000, class);
        let start = span.start().address() as usize;
        span.take(&mut [null_mut(); MAX_OBJECTS]);
        assert_eq!(span.give(start + 16), Err(Refused::Interior));
        // 8 KiB hold 170 objects of 48 bytes; the rest is no object.
        assert_eq!(span.give(start + 170 * 48), Err(Refused::Interior));
        assert_eq!(span.give(start + 169 * 48), Ok(()));
        let mut large = Span::large(PageRange { start: PageId(5), len: Pages(40) }, 300_000);
        assert_eq!(large.index_of(5 << 13), Ok(0));
        assert_eq!(large.give((5 << 13) + 8192), Err(Refused::Interior));
    }
}
