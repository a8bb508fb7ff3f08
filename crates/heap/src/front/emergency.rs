//! Allocation while a level of the heap is unavailable: a signal handler allocates while its own
//! thread is inside the heap, or a fork waits for what the allocating thread holds.
//!
//! Allocations come from a separate region, one after the other, and are never reused: there are
//! few of them. Objects that cannot be freed now are kept in a list and freed later.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering::*};

use super::protocol::deferred::Deferred;
use super::protocol::place::Place;
use super::size_class::GRANULE;
use crate::storage::Storage;

/// Address space of the region.
const REGION: usize = 64 << 20;
/// The size is stored in front of each allocation.
const HEADER: usize = GRANULE;

/// Start of the region, once it exists.
static START: Place<u8> = Place::new();
/// Bytes handed out.
static USED: AtomicUsize = AtomicUsize::new(0);
/// Objects that could not be taken back.
static DEFERRED: Deferred = Deferred::new();

/// Memory of `size` bytes aligned to `align`, a power of two, or null.
pub fn allocate<S: Storage>(size: usize, align: usize) -> *mut u8 {
    let align = align.max(GRANULE);
    let Some(needed) = size.checked_add(align + HEADER + GRANULE) else { return null_mut() };
    let Some(start) = region::<S>() else { return null_mut() };
    let needed = needed & !(GRANULE - 1);
    let taken = USED.fetch_update(Relaxed, Relaxed, |used| {
        used.checked_add(needed).filter(|&used| used <= REGION)
    });
    let Ok(offset) = taken else { return null_mut() };
    let place = (start + offset + HEADER).next_multiple_of(align);
    let end = start + offset + needed;
    // SAFETY: within what was just taken: the header lies before an address that is at least a
    // header behind its start.
    unsafe { ((place - HEADER) as *mut usize).write(end - place) };
    place as *mut u8
}

fn region<S: Storage>() -> Option<usize> {
    let start = START.get();
    if !start.is_null() {
        return Some(start as usize);
    }
    let layout = core::alloc::Layout::from_size_align(REGION, 4096).ok()?;
    let fresh = S::take(layout)?;
    match START.fill(fresh.as_ptr()) {
        Ok(()) => Some(fresh.as_ptr() as usize),
        Err(start) => {
            // SAFETY: no other thread knows of the fresh region.
            unsafe { S::give_back(fresh, layout) };
            Some(start as usize)
        }
    }
}

/// Whether an address lies in the region.
#[inline]
pub fn owns(address: usize) -> bool {
    let start = START.get() as usize;
    start != 0 && address.wrapping_sub(start) < REGION
}

/// Bytes that an allocation of the region holds.
///
/// # Safety
/// `place` came from [`allocate`].
pub unsafe fn usable_size(place: *mut u8) -> usize {
    // SAFETY: the size stands in front of each allocation.
    unsafe { place.sub(HEADER).cast::<usize>().read() }
}

/// Bytes handed out so far.
pub fn used() -> usize {
    USED.load(Relaxed)
}

/// Keeps an object until [`take_deferred`].
///
/// # Safety
/// The object belongs to the caller alone, and holds a word.
pub unsafe fn defer(object: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { DEFERRED.push(object.cast()) };
}

/// Takes all objects that were kept, and hands each to `act`.
pub fn take_deferred(mut act: impl FnMut(*mut u8)) {
    if !DEFERRED.is_empty() {
        DEFERRED.take_all(|object| act(object.cast()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Mapped;

    #[test]
    fn allocations_are_aligned_apart_and_know_their_size() {
        let mut last = 0;
        for (size, align) in [(0, 1), (1, 16), (100, 64), (5000, 4096), (17, 16)] {
            let place = allocate::<Mapped>(size, align);
            assert!(!place.is_null() && owns(place as usize));
            assert!((place as usize).is_multiple_of(align.max(16)) && place as usize > last);
            // SAFETY: just allocated.
            let usable = unsafe { usable_size(place) };
            assert!(usable >= size);
            // SAFETY: as many bytes as the allocation says that it has.
            unsafe { place.write_bytes(0xaa, usable) };
            last = place as usize + usable - 1;
        }
        assert!(allocate::<Mapped>(REGION, 16).is_null());
        assert!(allocate::<Mapped>(usize::MAX, 16).is_null());
        assert!(!owns(1) && !owns(usize::MAX));
    }

    #[test]
    fn deferred_objects_come_back_once() {
        let mut objects = [[0usize; 2]; 5];
        let addresses = objects.each_mut().map(|object| object.as_mut_ptr().cast::<u8>());
        for object in addresses {
            // SAFETY: the arrays outlive the list.
            unsafe { defer(object) };
        }
        let mut back = Vec::new();
        take_deferred(|object| back.push(object));
        take_deferred(|_| panic!("taken before"));
        back.reverse();
        assert_eq!(back, addresses);
    }
}
