//! Transfer caches: a small, fast store of objects of one class between the caches of the CPUs and
//! the central free list (section 3 of the paper).
//!
//! What one CPU frees and another allocates passes through here in batches, as a copy of pointers,
//! and never reaches its span.

use super::size_class::SizeClass;

/// Objects that the transfer cache of a class may hold at most.
pub const MAX_TRANSFER: usize = 1024;
/// Bytes of objects that it may hold at most.
const MAX_BYTES: usize = 1 << 20;

/// The transfer cache of one class: a stack in a flat array.
#[derive(Debug)]
pub struct TransferCache {
    objects: *mut *mut u8,
    capacity: usize,
    len: usize,
    /// Fewest objects held since [`TransferCache::idle`] was asked last.
    low: usize,
}

// SAFETY: the array is reached by the holder of the cache's lock alone.
unsafe impl Send for TransferCache {}

impl TransferCache {
    /// A cache that holds nothing.
    pub const fn new() -> TransferCache {
        TransferCache { objects: core::ptr::null_mut(), capacity: 0, len: 0, low: 0 }
    }

    /// Objects that the cache of a class may hold: 1 MiB, and 1,024 objects at most.
    pub const fn capacity_of(class: SizeClass) -> usize {
        let fit = MAX_BYTES / SizeClass::info_of(class.number()).size as usize;
        if fit < MAX_TRANSFER { fit } else { MAX_TRANSFER }
    }

    /// Gives the cache an array to keep objects in.
    ///
    /// # Safety
    /// `objects` has room for `capacity` pointers, for as long as the cache lives, and is its own.
    pub unsafe fn set_storage(&mut self, objects: *mut *mut u8, capacity: usize) {
        debug_assert_eq!(self.len, 0);
        (self.objects, self.capacity) = (objects, capacity);
    }

    /// Whether it has an array.
    pub fn is_equipped(&self) -> bool {
        self.capacity > 0
    }

    /// Objects held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The objects held.
    #[cfg(debug_assertions)]
    pub fn objects(&self) -> &[*mut u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: as many objects are held, from the start of the array.
        unsafe { core::slice::from_raw_parts(self.objects, self.len) }
    }

    /// Takes the objects that came last, as many as there are and `objects` holds.
    pub fn take(&mut self, objects: &mut [*mut u8]) -> usize {
        let taken = objects.len().min(self.len);
        self.len -= taken;
        self.low = self.low.min(self.len);
        // SAFETY: `taken` objects were held above the new length, within the array.
        unsafe { self.objects.add(self.len).copy_to_nonoverlapping(objects.as_mut_ptr(), taken) };
        taken
    }

    /// Keeps objects, as many as there is room for. Returns how many.
    pub fn give(&mut self, objects: &[*mut u8]) -> usize {
        let kept = objects.len().min(self.capacity - self.len);
        // SAFETY: there is room for `kept` more objects in the array.
        unsafe { self.objects.add(self.len).copy_from_nonoverlapping(objects.as_ptr(), kept) };
        self.len += kept;
        kept
    }

    /// The number of held objects that were not needed since the last call.
    pub fn idle(&mut self) -> usize {
        core::mem::replace(&mut self.low, self.len)
    }
}

impl Default for TransferCache {
    fn default() -> Self {
        TransferCache::new()
    }
}

#[cfg(test)]
mod tests {
    use core::ptr::without_provenance_mut;

    use super::*;

    fn objects(numbers: core::ops::Range<usize>) -> Vec<*mut u8> {
        numbers.map(without_provenance_mut).collect()
    }

    #[test]
    fn what_came_last_goes_first_and_nothing_overflows() {
        let mut array = objects(0..10);
        let mut cache = TransferCache::new();
        assert_eq!(cache.give(&objects(1..3)), 0);
        // SAFETY: the array outlives the cache.
        unsafe { cache.set_storage(array.as_mut_ptr(), array.len()) };
        assert_eq!(cache.give(&objects(1..8)), 7);
        assert_eq!(cache.give(&objects(8..9)), 1);
        assert_eq!(cache.give(&objects(9..20)), 2);
        let mut taken = objects(0..4);
        assert_eq!(cache.take(&mut taken), 4);
        assert_eq!(taken, objects(7..11));
        let mut rest = objects(0..9);
        assert_eq!((cache.take(&mut rest), cache.len()), (6, 0));
        assert_eq!(rest[..6], objects(1..7));
    }

    #[test]
    fn what_stays_untouched_is_idle() {
        let mut array = objects(0..10);
        let mut cache = TransferCache::new();
        // SAFETY: the array outlives the cache.
        unsafe { cache.set_storage(array.as_mut_ptr(), array.len()) };
        cache.give(&objects(1..9));
        assert_eq!(cache.idle(), 0);
        cache.take(&mut objects(0..5));
        cache.give(&objects(1..6));
        assert_eq!(cache.idle(), 3);
        assert_eq!(cache.idle(), 8);
    }

    #[test]
    fn capacity_is_bounded_in_bytes_and_objects() {
        for class in SizeClass::all() {
            let capacity = TransferCache::capacity_of(class);
            assert!(capacity <= MAX_TRANSFER && capacity * class.size() <= MAX_BYTES);
            assert!(capacity >= 1);
        }
    }
}
