//! An array of lists by rank, and a bitmap of those that are not empty.

use core::marker::PhantomData;

use crate::storage::{Key, Slab, Storage, Zeroable, Zeroed};

/// Ranks that an array of lists has: 8 chunks for each longest free range of 0 to 256 pages.
pub const RANKS: usize = 8 * 257;
const WORDS: usize = RANKS.div_ceil(64);

/// Neighbors of a record on a list; the lists are rings.
#[derive(Debug)]
pub struct Links<T> {
    next: Key<T>,
    prev: Key<T>,
}

impl<T> Links<T> {
    /// On no list.
    pub const NONE: Links<T> = Links { next: Key::NONE, prev: Key::NONE };
}

impl<T> Clone for Links<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Links<T> {}

/// A record that can be on lists.
pub trait Linked: Copy {
    /// Its place on the array of lists number `lists`.
    fn links(&self, lists: usize) -> &Links<Self>;
    /// The same, to change.
    fn links_mut(&mut self, lists: usize) -> &mut Links<Self>;
}

#[repr(C)]
struct Table {
    nonempty: [u64; WORDS],
    /// Which words of `nonempty` are not 0.
    summary: u64,
    /// Key of the first record plus one, 0 where the list is empty; the last rank first. Huge pages
    /// with much free space, which a small heap has alone, have high ranks: what it touches of the
    /// table lies on one page.
    heads: [u32; RANKS],
}

impl Table {
    fn head(&mut self, rank: usize) -> &mut u32 {
        &mut self.heads[RANKS - 1 - rank]
    }
}

// SAFETY: its fields are numbers, for which zero is valid.
unsafe impl Zeroable for Table {}

/// Records on lists by rank. All operations take O(1).
///
/// A record can be on several arrays of lists at once: each array uses its own `LISTS` in it.
#[derive(Debug)]
pub struct RankedLists<T: Linked, S: Storage, const LISTS: usize> {
    table: Zeroed<Table, S>,
    records: PhantomData<fn() -> T>,
}

impl<T: Linked, S: Storage, const LISTS: usize> RankedLists<T, S, LISTS> {
    /// Empty lists. `None` if there is no storage for them.
    pub fn new() -> Option<Self> {
        Some(RankedLists { table: Zeroed::new()?, records: PhantomData })
    }

    /// Puts a record first on the list of a rank.
    pub fn insert(&mut self, records: &mut Slab<T, S>, key: Key<T>, rank: usize) {
        let links = match self.head(rank).some() {
            Some(next) => {
                let prev = records.get(next).links(LISTS).prev;
                records.get_mut(next).links_mut(LISTS).prev = key;
                records.get_mut(prev).links_mut(LISTS).next = key;
                Links { next, prev }
            }
            None => {
                self.table.nonempty[rank / 64] |= 1 << (rank % 64);
                self.table.summary |= 1 << (rank / 64);
                Links { next: key, prev: key }
            }
        };
        *records.get_mut(key).links_mut(LISTS) = links;
        *self.table.head(rank) = key.get() + 1;
    }

    /// Takes a record off the list of its rank.
    pub fn remove(&mut self, records: &mut Slab<T, S>, key: Key<T>, rank: usize) {
        let Links { next, prev } = *records.get(key).links(LISTS);
        if next == key {
            debug_assert_eq!(self.head(rank), key, "{key:?} is not on the list of rank {rank}");
            *self.table.head(rank) = 0;
            self.table.nonempty[rank / 64] &= !(1 << (rank % 64));
            if self.table.nonempty[rank / 64] == 0 {
                self.table.summary &= !(1 << (rank / 64));
            }
            return;
        }
        records.get_mut(next).links_mut(LISTS).prev = prev;
        records.get_mut(prev).links_mut(LISTS).next = next;
        if self.head(rank) == key {
            *self.table.head(rank) = next.get() + 1;
        }
    }

    /// The least rank from `rank` on whose list is not empty, and the first record on it.
    #[inline]
    pub fn least_from(&self, rank: usize) -> Option<(usize, Key<T>)> {
        if rank >= RANKS {
            return None;
        }
        let word = rank / 64;
        let here = self.table.nonempty[word] & (u64::MAX << (rank % 64));
        let found = if here != 0 {
            word * 64 + here.trailing_zeros() as usize
        } else {
            let later = self.table.summary & (u64::MAX << word) & !(1 << word);
            if later == 0 {
                return None;
            }
            let word = later.trailing_zeros() as usize;
            word * 64 + self.table.nonempty[word].trailing_zeros() as usize
        };
        Some((found, self.head(found)))
    }

    /// The record that has been longest on the list of a rank.
    pub fn last(&self, records: &Slab<T, S>, rank: usize) -> Option<Key<T>> {
        self.head(rank).some().map(|head| records.get(head).links(LISTS).prev)
    }

    /// The records on the list of a rank.
    pub fn on_list<'a>(
        &self,
        records: &'a Slab<T, S>,
        rank: usize,
    ) -> impl Iterator<Item = Key<T>> + use<'a, T, S, LISTS> {
        let head = self.head(rank);
        let mut at = head;
        core::iter::from_fn(move || {
            let key = at.some()?;
            let next = records.get(key).links(LISTS).next;
            at = if next == head { Key::NONE } else { next };
            Some(key)
        })
    }

    #[inline]
    fn head(&self, rank: usize) -> Key<T> {
        match self.table.heads[RANKS - 1 - rank] {
            0 => Key::NONE,
            key => Key::of(key - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tracker::Tracker;
    use super::*;
    use crate::storage::Allocated;
    use crate::units::HugePageId;

    proptest! {
        #[test]
        fn behaves_like_a_list_per_rank(
            steps in prop::collection::vec((0u32..12, 0..RANKS, 0..RANKS), 1..200)
        ) {
            let mut trackers = Slab::<Tracker, Allocated>::new();
            let mut lists = RankedLists::<Tracker, Allocated, 0>::new().unwrap();
            let mut model: Vec<Option<usize>> = vec![None; 12];
            for number in 0..12 {
                trackers.insert(Tracker::new(HugePageId(number), false)).unwrap();
            }
            for (number, rank, from) in steps {
                let key = Key::of(number);
                match model[number as usize].take() {
                    Some(rank) => lists.remove(&mut trackers, key, rank),
                    None => {
                        lists.insert(&mut trackers, key, rank);
                        model[number as usize] = Some(rank);
                    }
                }
                let least = model.iter().flatten().copied().filter(|&rank| rank >= from).min();
                for rank in model.iter().flatten() {
                    let last = lists.on_list(&trackers, *rank).last();
                    prop_assert_eq!(lists.last(&trackers, *rank), last);
                }
                prop_assert_eq!(lists.least_from(from).map(|(rank, _)| rank), least);
                if let Some(rank) = least {
                    let mut on: Vec<u32> =
                        lists.on_list(&trackers, rank).map(|key| key.get()).collect();
                    on.sort();
                    let expected: Vec<u32> =
                        (0..12).filter(|&n| model[n as usize] == Some(rank)).collect();
                    prop_assert_eq!(on, expected);
                }
            }
        }
    }

    #[test]
    fn the_last_rank_is_found_and_none_after_it() {
        let mut trackers = Slab::<Tracker, Allocated>::new();
        let mut lists = RankedLists::<Tracker, Allocated, 1>::new().unwrap();
        let key = trackers.insert(Tracker::new(HugePageId(0), false)).unwrap();
        lists.insert(&mut trackers, key, RANKS - 1);
        assert_eq!(lists.least_from(0), Some((RANKS - 1, key)));
        assert_eq!(lists.least_from(RANKS - 1), Some((RANKS - 1, key)));
        assert_eq!(lists.least_from(RANKS), None);
    }
}
