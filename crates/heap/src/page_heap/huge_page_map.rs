//! A two-level table from huge pages to their metadata.

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::storage::{Key, Storage, Zeroable, Zeroed};
use crate::units::HugePageId;

/// Addresses below 2^48: all that x86-64 and aarch64 give a program that does not ask for more.
const ROOT_BITS: u32 = 14;
const LEAF_BITS: u32 = 48 - 21 - ROOT_BITS;

/// A key plus one for each huge page of 16 GiB of address space; 0 means none.
type Leaf = [u32; 1 << LEAF_BITS];

struct Root([Option<NonNull<Leaf>>; 1 << ROOT_BITS]);

// SAFETY: `None` of an optional `NonNull` is null, which is all zeros.
unsafe impl Zeroable for Root {}

/// A map from huge pages to keys of records `T`. Looking up, setting and clearing take O(1).
pub struct HugePageMap<T, S: Storage> {
    root: Zeroed<Root, S>,
    records: core::marker::PhantomData<fn() -> T>,
}

// SAFETY: the map owns its root and its leaves, which are plain numbers.
unsafe impl<T, S: Storage> Send for HugePageMap<T, S> {}

impl<T, S: Storage> HugePageMap<T, S> {
    /// A map without entries. `None` if there is no storage for it.
    pub fn new() -> Option<HugePageMap<T, S>> {
        Some(HugePageMap { root: Zeroed::new()?, records: core::marker::PhantomData })
    }

    /// The record of a huge page.
    #[inline]
    pub fn get(&self, huge_page: HugePageId) -> Option<Key<T>> {
        let (leaf, entry) = split(huge_page)?;
        // SAFETY: a leaf is storage of its type that the map owns, and zeroed is valid.
        let entry = unsafe { self.root.0[leaf]?.as_ref() }[entry];
        entry.checked_sub(1).map(Key::of)
    }

    /// Gives a huge page a record. Whether there was storage to note it; once there was for a huge
    /// page, there is again.
    #[must_use]
    pub fn set(&mut self, huge_page: HugePageId, key: Key<T>) -> bool {
        let Some((leaf, entry)) = split(huge_page) else { return false };
        let mut place = match self.root.0[leaf] {
            Some(place) => place,
            None => match S::take(Layout::new::<Leaf>()) {
                Some(taken) => *self.root.0[leaf].insert(taken.cast()),
                None => return false,
            },
        };
        // SAFETY: as in `get`, and the map is borrowed mutably.
        let leaf = unsafe { place.as_mut() };
        leaf[entry] = key.get() + 1;
        true
    }

    /// Takes a huge page's record away.
    pub fn clear(&mut self, huge_page: HugePageId) {
        let Some((leaf, entry)) = split(huge_page) else { return };
        if let Some(mut place) = self.root.0[leaf] {
            // SAFETY: as in `get`, and the map is borrowed mutably.
            let leaf = unsafe { place.as_mut() };
            leaf[entry] = 0;
        }
    }
}

/// Which leaf, and which entry of it. `None` beyond 48 bits of address.
#[inline]
fn split(huge_page: HugePageId) -> Option<(usize, usize)> {
    let leaf = (huge_page.0 >> LEAF_BITS) as usize;
    (leaf < 1 << ROOT_BITS).then_some((leaf, huge_page.0 as usize % (1 << LEAF_BITS)))
}

impl<T, S: Storage> Drop for HugePageMap<T, S> {
    fn drop(&mut self) {
        for leaf in self.root.0.iter().flatten() {
            // SAFETY: taken with this layout in `set`, and the map that owned it is gone.
            unsafe { S::give_back(leaf.cast(), Layout::new::<Leaf>()) };
        }
    }
}

impl<T, S: Storage> core::fmt::Debug for HugePageMap<T, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("HugePageMap")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Allocated;

    #[test]
    fn far_apart_huge_pages_have_their_own_records() {
        let mut map = HugePageMap::<u8, Allocated>::new().unwrap();
        let pages = [0, 1, (1 << LEAF_BITS) - 1, 1 << LEAF_BITS, (1 << 27) - 1].map(HugePageId);
        for (number, &page) in pages.iter().enumerate() {
            assert_eq!(map.get(page), None);
            assert!(map.set(page, Key::of(number as u32)));
        }
        for (number, &page) in pages.iter().enumerate() {
            assert_eq!(map.get(page), Some(Key::of(number as u32)));
        }
        map.clear(pages[1]);
        assert_eq!(map.get(pages[1]), None);
        assert_eq!(map.get(pages[0]), Some(Key::of(0)));
    }

    #[test]
    fn addresses_beyond_48_bits_are_refused() {
        let mut map = HugePageMap::<u8, Allocated>::new().unwrap();
        let beyond = HugePageId(1 << 27);
        assert!(!map.set(beyond, Key::of(0)));
        assert_eq!(map.get(beyond), None);
        map.clear(beyond);
    }
}
