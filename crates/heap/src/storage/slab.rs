//! A growing table of records that never move.

use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use super::Storage;

/// The name of a record in a [`Slab`].
pub struct Key<T>(u32, PhantomData<fn() -> T>);

impl<T> Key<T> {
    /// No record.
    pub const NONE: Key<T> = Key(u32::MAX, PhantomData);

    /// The key as a bare number, for tables that hold keys of records.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The key with the number that [`Key::get`] returned.
    pub const fn of(number: u32) -> Key<T> {
        Key(number, PhantomData)
    }

    /// Whether it names no record.
    pub const fn is_none(self) -> bool {
        self.0 == u32::MAX
    }

    /// The key, if it names a record.
    pub const fn some(self) -> Option<Key<T>> {
        if self.is_none() { None } else { Some(self) }
    }
}

impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Key<T> {}
impl<T> PartialEq for Key<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<T> Eq for Key<T> {}
impl<T> fmt::Debug for Key<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.some() {
            Some(key) => write!(f, "#{}", key.0),
            None => f.write_str("#none"),
        }
    }
}

/// A place for a record: taken, or on the list of free places.
enum Place<T> {
    Taken(T),
    Free { next: Key<T> },
}

/// Records in the first chunk, as a power of two; each further chunk doubles the table.
const FIRST_SHIFT: u32 = 5;
/// Chunks of 2^5, 2^5, 2^6, … records: more than 2^31 records in all.
const CHUNKS: usize = 27;

/// A table of records with stable keys: insert, look up and remove in O(1).
pub struct Slab<T: Copy, S: Storage> {
    chunks: [Option<NonNull<Place<T>>>; CHUNKS],
    /// Places that have been initialized, taken or free.
    places: u32,
    free: Key<T>,
    taken: u32,
    storage: PhantomData<S>,
}

// SAFETY: the slab owns its records and its chunks, as a `Vec<T>` does; storage is not tied to a
// thread.
unsafe impl<T: Copy + Send, S: Storage> Send for Slab<T, S> {}

impl<T: Copy, S: Storage> Slab<T, S> {
    /// A table without records, which has taken no storage.
    pub const fn new() -> Slab<T, S> {
        Slab { chunks: [None; CHUNKS], places: 0, free: Key::NONE, taken: 0, storage: PhantomData }
    }

    /// Number of records.
    pub const fn len(&self) -> u32 {
        self.taken
    }

    /// Whether there is no record.
    pub const fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// Bytes of storage taken, touched or not.
    pub fn bytes(&self) -> usize {
        (0..CHUNKS)
            .filter(|&chunk| self.chunks[chunk].is_some())
            .map(|chunk| Self::layout(chunk).map_or(0, |layout| layout.size()))
            .sum()
    }

    /// Takes storage for `records` records in total, so that inserting them cannot fail. Whether
    /// there was enough.
    #[must_use]
    pub fn ensure_capacity(&mut self, records: u32) -> bool {
        let Some(last) = records.checked_sub(1) else { return true };
        let (chunk, _) = Self::position(last);
        chunk < CHUNKS && (0..=chunk).all(|chunk| self.take_chunk(chunk).is_some())
    }

    /// Adds a record. `None` if there is no storage for it; nothing has changed then.
    pub fn insert(&mut self, record: T) -> Option<Key<T>> {
        let key = match self.free.some() {
            Some(free) => free,
            None => self.add_place()?,
        };
        let place = self.place_mut(key);
        let Place::Free { next } = *place else { unreachable!("{key:?} is on the free list") };
        *place = Place::Taken(record);
        self.free = next;
        self.taken += 1;
        Some(key)
    }

    /// Takes a record out. Its key may name another record afterwards.
    ///
    /// # Panics
    /// If `key` names no record.
    pub fn remove(&mut self, key: Key<T>) -> T {
        let free = self.free;
        let place = self.place_mut(key);
        let Place::Taken(record) = *place else { panic!("{key:?} was removed before") };
        *place = Place::Free { next: free };
        self.free = key;
        self.taken -= 1;
        record
    }

    /// The record of a key.
    ///
    /// # Panics
    /// If `key` names no record.
    #[inline]
    pub fn get(&self, key: Key<T>) -> &T {
        match self.place(key) {
            Place::Taken(record) => record,
            Place::Free { .. } => panic!("{key:?} was removed"),
        }
    }

    /// The record of a key, to change.
    ///
    /// # Panics
    /// If `key` names no record.
    #[inline]
    pub fn get_mut(&mut self, key: Key<T>) -> &mut T {
        match self.place_mut(key) {
            Place::Taken(record) => record,
            Place::Free { .. } => panic!("{key:?} was removed"),
        }
    }

    /// All records, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (Key<T>, &T)> {
        (0..self.places).map(Key::of).filter_map(|key| match self.place(key) {
            Place::Taken(record) => Some((key, record)),
            Place::Free { .. } => None,
        })
    }

    /// Chunk of a place, and where in the chunk: chunk 0 has places 0 to 31, chunk `k` those from
    /// `32 << (k - 1)` up to its double.
    #[inline]
    fn position(index: u32) -> (usize, usize) {
        let chunk = (u32::BITS - (index >> FIRST_SHIFT).leading_zeros()) as usize;
        let first = if chunk == 0 { 0 } else { 1 << (FIRST_SHIFT as usize + chunk - 1) };
        (chunk, index as usize - first)
    }

    fn layout(chunk: usize) -> Option<Layout> {
        let places = 1usize << (FIRST_SHIFT as usize + chunk.saturating_sub(1));
        Layout::array::<Place<T>>(places).ok()
    }

    /// One more place, free and first on the free list.
    fn add_place(&mut self) -> Option<Key<T>> {
        let (chunk, offset) = Self::position(self.places);
        let start = self.take_chunk(chunk)?;
        // SAFETY: `position` stays within the chunk, whose layout holds all of its places.
        unsafe { start.add(offset).write(Place::Free { next: self.free }) };
        self.free = Key::of(self.places);
        self.places += 1;
        Some(self.free)
    }

    fn take_chunk(&mut self, chunk: usize) -> Option<NonNull<Place<T>>> {
        if let Some(start) = *self.chunks.get(chunk)? {
            return Some(start);
        }
        let start = S::take(Self::layout(chunk)?)?.cast();
        self.chunks[chunk] = Some(start);
        Some(start)
    }

    #[inline]
    fn pointer(&self, key: Key<T>) -> NonNull<Place<T>> {
        assert!(key.0 < self.places, "{key:?} names no record");
        let (chunk, offset) = Self::position(key.0);
        let start = self.chunks[chunk].expect("a chunk with initialized places was taken");
        // SAFETY: `position` stays within the chunk, whose layout holds all of its places.
        unsafe { start.add(offset) }
    }

    #[inline]
    fn place(&self, key: Key<T>) -> &Place<T> {
        // SAFETY: all places below `places` are initialized, in storage that is ours, and the
        // borrow of the slab keeps others from changing them.
        unsafe { self.pointer(key).as_ref() }
    }

    #[inline]
    fn place_mut(&mut self, key: Key<T>) -> &mut Place<T> {
        // SAFETY: as in `place`, and the slab is borrowed mutably.
        unsafe { self.pointer(key).as_mut() }
    }
}

impl<T: Copy, S: Storage> Default for Slab<T, S> {
    fn default() -> Self {
        Slab::new()
    }
}

impl<T: Copy, S: Storage> Drop for Slab<T, S> {
    fn drop(&mut self) {
        for chunk in 0..CHUNKS {
            if let (Some(start), Some(layout)) = (self.chunks[chunk], Self::layout(chunk)) {
                // SAFETY: the chunk was taken with this layout, and the slab that owned it is gone;
                // records are `Copy`, so none has anything to drop.
                unsafe { S::give_back(start.cast(), layout) };
            }
        }
    }
}

impl<T: Copy, S: Storage> fmt::Debug for Slab<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slab of {} records", self.taken)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::{Allocated, Mapped};
    use super::*;

    #[test]
    fn chunks_double_and_positions_are_dense() {
        let mut expected = (0, 0);
        for index in 0..5_000 {
            assert_eq!(Slab::<u64, Allocated>::position(index), expected, "of {index}");
            let places = Slab::<u64, Allocated>::layout(expected.0).unwrap().size()
                / size_of::<Place<u64>>();
            expected = (expected.0, expected.1 + 1);
            if expected.1 == places {
                expected = (expected.0 + 1, 0);
            }
        }
        let last = Slab::<u64, Allocated>::position(u32::MAX >> 1);
        assert_eq!(last, (CHUNKS - 1, (1 << 30) - 1));
    }

    #[test]
    #[should_panic(expected = "was removed")]
    fn a_removed_record_is_not_found() {
        let mut slab = Slab::<u32, Mapped>::new();
        let key = slab.insert(7).unwrap();
        slab.remove(key);
        slab.get(key);
    }

    proptest! {
        #[test]
        fn behaves_like_a_map(steps in prop::collection::vec((any::<bool>(), any::<usize>()), 0..400)) {
            let mut slab = Slab::<usize, Allocated>::new();
            let mut model = BTreeMap::new();
            for (insert, number) in steps {
                if insert || model.is_empty() {
                    let key = slab.insert(number).unwrap();
                    prop_assert_eq!(model.insert(key.get(), number), None);
                } else {
                    let key = *model.keys().nth(number % model.len()).unwrap();
                    prop_assert_eq!(Some(slab.remove(Key::of(key))), model.remove(&key));
                }
                prop_assert_eq!(slab.len() as usize, model.len());
            }
            let found: BTreeMap<u32, usize> =
                slab.iter().map(|(key, &record)| (key.get(), record)).collect();
            prop_assert_eq!(found, model);
        }
    }
}
