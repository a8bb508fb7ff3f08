//! Small objects between the caches and the page level: transfer caches and central free lists.

use core::ptr::null_mut;
use core::sync::atomic::Ordering::*;

use super::{Heap, Observer};
use crate::front::cache::Lower;
use crate::front::emergency;
use crate::front::misuse::{double_free, interior, not_an_object};
use crate::front::size_class::{CLASSES, MAX_BATCH, SizeClass};
use crate::front::span::{Refused, Span};
use crate::front::transfer::TransferCache;
use crate::page_heap::PageHeap;
use crate::units::{PageId, Pages};

/// Bytes that the transfer caches together may hold in a heap of any size: 4 MiB. With less,
/// objects go back to their spans, others take their place, and the heap grows.
const SMALLEST_TRANSFER: usize = 4 << 20;

impl<P: PageHeap, O: Observer<P>> Heap<P, O> {
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
