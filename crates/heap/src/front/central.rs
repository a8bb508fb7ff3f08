//! The central free list of a size class: all spans of the class that have free objects.
//!
//! Objects are taken from the spans with the fewest free ones (section 3 of the paper): full spans
//! stay full, and those that are nearly empty get the time to become empty and go back to the page
//! heap. Spans are kept by the power of two of their free objects.

use core::ptr::null_mut;

use super::size_class::MAX_OBJECTS;
use super::span::{Refused, Span};

const BUCKETS: usize = MAX_OBJECTS.ilog2() as usize + 1;

/// The spans of one class that have free objects. Spans without one are in no list.
#[derive(Debug)]
pub struct CentralFreeList {
    /// First span with 2^i to 2^(i+1) − 1 free objects.
    buckets: [*mut Span; BUCKETS],
    /// Spans of the class, those without free objects too.
    spans: usize,
    /// Free objects in all of them.
    free: usize,
}

// SAFETY: the spans that the list points to are reached by the holder of its lock alone.
unsafe impl Send for CentralFreeList {}

/// The state of a list, for statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CentralState {
    /// Spans of the class.
    pub spans: usize,
    /// Objects free in them.
    pub free_objects: usize,
}

impl CentralFreeList {
    /// A list without spans.
    pub const fn new() -> CentralFreeList {
        CentralFreeList { buckets: [null_mut(); BUCKETS], spans: 0, free: 0 }
    }

    /// Its state.
    pub fn state(&self) -> CentralState {
        CentralState { spans: self.spans, free_objects: self.free }
    }

    /// Takes objects from the spans with the fewest free ones. Returns how many: fewer than
    /// `objects` holds only if no span has one more.
    pub fn take(&mut self, objects: &mut [*mut u8]) -> usize {
        let mut taken = 0;
        while taken < objects.len() {
            let Some(&span) = self.buckets.iter().find(|span| !span.is_null()) else { break };
            // SAFETY: spans in the lists are alive, and the list's holder may change them.
            let span = unsafe { &mut *span };
            let before = span.free();
            taken += span.take(&mut objects[taken..]);
            self.move_bucket(span, before);
        }
        self.free -= taken;
        taken
    }

    /// Adds a span of the class that has free objects.
    ///
    /// # Safety
    /// The span lives until [`CentralFreeList::give`] says that it is empty, and is in no list.
    pub unsafe fn add(&mut self, span: *mut Span) {
        // SAFETY: alive, by the caller's promise.
        let span = unsafe { &mut *span };
        self.spans += 1;
        self.free += span.free();
        self.move_bucket(span, 0);
    }

    /// Takes an object of a span back. True if the span is empty now; then it has left the list.
    ///
    /// # Safety
    /// The span was added and has not become empty since.
    ///
    /// # Errors
    /// As [`Span::give`].
    pub unsafe fn give(&mut self, span: *mut Span, object: usize) -> Result<bool, Refused> {
        // SAFETY: alive, by the caller's promise.
        let span = unsafe { &mut *span };
        let before = span.free();
        span.give(object)?;
        self.free += 1;
        if !span.is_empty() {
            self.move_bucket(span, before);
            return Ok(false);
        }
        self.unlink(span, before);
        self.spans -= 1;
        self.free -= span.free();
        Ok(true)
    }

    /// Checks the lists, whose spans must begin where `is_here` says. Returns how many spans are in
    /// them.
    ///
    /// # Errors
    /// A message that names the inconsistency.
    #[cfg(debug_assertions)]
    pub fn validate(&self, is_here: impl Fn(u64) -> bool) -> Result<usize, String> {
        let mut listed = 0;
        for (bucket, &first) in self.buckets.iter().enumerate() {
            let (mut next, mut previous) = (first, null_mut());
            // SAFETY: spans in the lists are alive.
            while let Some(span) = unsafe { next.as_ref() } {
                let belongs = span.free().checked_ilog2() == Some(bucket as u32);
                if !is_here(span.start().address()) {
                    return Err(format!("{span:?} is listed on another node"));
                }
                if !belongs || span.previous != previous || listed == self.spans {
                    return Err(format!("{span:?} does not belong where it is listed"));
                }
                listed += 1;
                (previous, next) = (next, span.next);
            }
        }
        Ok(listed)
    }

    /// Puts a span that had `before` free objects where its count of free objects belongs.
    fn move_bucket(&mut self, span: &mut Span, before: usize) {
        let bucket = |free: usize| free.checked_ilog2();
        if bucket(before) != bucket(span.free()) {
            self.unlink(span, before);
            self.link(span);
        }
    }

    fn link(&mut self, span: &mut Span) {
        let Some(bucket) = span.free().checked_ilog2() else { return };
        let first = self.buckets[bucket as usize];
        (span.previous, span.next) = (null_mut(), first);
        // SAFETY: the first span of a list is alive, and the list's holder may change it.
        if let Some(first) = unsafe { first.as_mut() } {
            first.previous = span;
        }
        self.buckets[bucket as usize] = span;
    }

    fn unlink(&mut self, span: &mut Span, before: usize) {
        let Some(bucket) = before.checked_ilog2() else { return };
        // SAFETY: neighbors in a list are alive, and the list's holder may change them.
        unsafe {
            match span.previous.as_mut() {
                Some(previous) => previous.next = span.next,
                None => self.buckets[bucket as usize] = span.next,
            }
            if let Some(next) = span.next.as_mut() {
                next.previous = span.previous;
            }
        }
    }
}

impl Default for CentralFreeList {
    fn default() -> Self {
        CentralFreeList::new()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::size_class::SizeClass;
    use super::super::span::tests::span_at;
    use super::*;

    /// Objects of 1 KiB: 8 in a span.
    fn class() -> SizeClass {
        SizeClass::of_size(1024).unwrap()
    }

    fn take(list: &mut CentralFreeList, count: usize) -> Vec<usize> {
        let mut objects = vec![null_mut(); count];
        let taken = list.take(&mut objects);
        objects.truncate(taken);
        objects.into_iter().map(|object| object as usize).collect()
    }

    fn page(object: usize) -> usize {
        object >> 13
    }

    #[test]
    fn prefers_the_span_with_fewest_free_objects() {
        let mut spans = [span_at(1, class()), span_at(2, class())];
        let [one, two] = spans.each_mut().map(|span| span as *mut Span);
        let mut list = CentralFreeList::new();
        // SAFETY: both spans outlive the list.
        unsafe { list.add(one) };
        assert_eq!(take(&mut list, 8).len(), 8);
        // SAFETY: as above.
        unsafe { list.add(two) };
        assert_eq!(take(&mut list, 8).len(), 8);
        let give = |list: &mut CentralFreeList, span: *mut Span, page: usize, index: usize| {
            // SAFETY: the spans live, and the list knows them.
            unsafe { list.give(span, (page << 13) + index * 1024) }
        };
        for index in 0..5 {
            assert_eq!(give(&mut list, one, 1, index), Ok(false));
        }
        assert_eq!(give(&mut list, two, 2, 7), Ok(false));
        // Page 2 has one free object, page 1 has five.
        let pages: Vec<usize> = take(&mut list, 3).into_iter().map(page).collect();
        assert_eq!(pages, [2, 1, 1]);
        assert_eq!(list.state(), CentralState { spans: 2, free_objects: 3 });
    }

    proptest! {
        /// Against a plain set: an object is given out once, spans leave when they are empty.
        #[test]
        fn never_gives_an_object_twice(steps in prop::collection::vec((0..3u8, any::<usize>()), 1..300)) {
            let mut list = CentralFreeList::new();
            let mut spans: Vec<Box<Span>> = Vec::new();
            let mut live: Vec<usize> = Vec::new();
            for (step, number) in steps {
                match step {
                    0 => {
                        spans.push(Box::new(span_at(100 + spans.len() as u64, class())));
                        // SAFETY: boxed spans stay where they are until the test ends.
                        unsafe { list.add(&mut **spans.last_mut().unwrap()) };
                    }
                    1 => {
                        let taken = take(&mut list, number % 20);
                        prop_assert!(taken.iter().all(|object| !live.contains(object)));
                        live.extend(taken);
                    }
                    _ if live.is_empty() => {}
                    _ => {
                        let object = live.swap_remove(number % live.len());
                        let span = &mut *spans[page(object) - 100];
                        // SAFETY: the span has a live object, so it is not empty and was added.
                        let empty = unsafe { list.give(span, object) }.unwrap();
                        prop_assert_eq!(empty, !live.iter().any(|&other| page(other) == page(object)));
                        if empty {
                            // Its place is taken by a fresh span of the same page.
                            *span = span_at(page(object) as u64, class());
                            // SAFETY: as above.
                            unsafe { list.add(span) };
                        }
                    }
                }
                let state = list.state();
                prop_assert_eq!(state.spans, spans.len());
                prop_assert_eq!(state.free_objects, spans.len() * 8 - live.len());
                prop_assert!(spans.iter().all(|span| span.is_consistent()));
            }
        }
    }
}
