//! The filler's third strategy, for comparison (Figure 11): the best fit over all huge pages.

use std::collections::BTreeSet;

use crate::page_heap::ranking::Ranking;
use crate::page_heap::tracker::Tracker;
use crate::storage::{Key, Slab, Storage};
use crate::units::HugePages;

/// Places a span in the free range, of all huge pages, whose length is closest to its own; in the
/// lowest, of several. Only for playback: it allocates, and each change costs O(free ranges of the
/// huge page · log huge pages).
#[derive(Debug)]
pub struct BestFit {
    /// By length: the huge pages with a free range of just that length, by address.
    with_range_of: Vec<BTreeSet<(u64, u32)>>,
    /// Lengths for which there are some.
    lengths: BTreeSet<usize>,
}

impl BestFit {
    fn lengths_of(tracker: &Tracker) -> BTreeSet<usize> {
        tracker.free_ranges().collect()
    }
}

impl<S: Storage> Ranking<S> for BestFit {
    fn new() -> Option<Self> {
        let with_range_of = vec![BTreeSet::new(); HugePages::PAGES.0 as usize + 1];
        Some(BestFit { with_range_of, lengths: BTreeSet::new() })
    }

    fn insert(&mut self, trackers: &mut Slab<Tracker, S>, key: Key<Tracker>) {
        let tracker = trackers.get(key);
        for length in BestFit::lengths_of(tracker) {
            self.with_range_of[length].insert((tracker.huge_page().0, key.get()));
            self.lengths.insert(length);
        }
    }

    fn remove(&mut self, trackers: &mut Slab<Tracker, S>, key: Key<Tracker>) {
        let tracker = trackers.get(key);
        for length in BestFit::lengths_of(tracker) {
            self.with_range_of[length].remove(&(tracker.huge_page().0, key.get()));
            if self.with_range_of[length].is_empty() {
                self.lengths.remove(&length);
            }
        }
    }

    fn find(&self, _trackers: &Slab<Tracker, S>, pages: usize) -> Option<Key<Tracker>> {
        let length = *self.lengths.range(pages..).next()?;
        self.with_range_of[length].first().map(|&(_, key)| Key::of(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Allocated;
    use crate::units::{HugePageId, Pages};

    #[test]
    fn the_closest_range_of_all_huge_pages_is_found() {
        let mut trackers = Slab::<Tracker, Allocated>::new();
        let mut ranking = <BestFit as Ranking<Allocated>>::new().unwrap();
        // Free ranges of 3 and 243 pages on the first huge page, of 5 and 241 on the second.
        let keys = [3, 5].map(|gap| {
            let mut tracker = Tracker::new(HugePageId(gap), false);
            let (first, _) = tracker.allocate(Pages(gap), Pages(1)).unwrap();
            tracker.allocate(Pages(10), Pages(1)).unwrap();
            tracker.free(first);
            trackers.insert(tracker).unwrap()
        });
        keys.iter().for_each(|&key| ranking.insert(&mut trackers, key));
        let find = |ranking: &BestFit, pages| Ranking::<Allocated>::find(ranking, &trackers, pages);
        assert_eq!(find(&ranking, 3), Some(keys[0]));
        assert_eq!(find(&ranking, 4), Some(keys[1]));
        assert_eq!(find(&ranking, 6), Some(keys[1]));
        assert_eq!(find(&ranking, 242), Some(keys[0]));
        assert_eq!(find(&ranking, 244), None);
        ranking.remove(&mut trackers, keys[0]);
        assert_eq!(Ranking::<Allocated>::find(&ranking, &trackers, 2), Some(keys[1]));
    }
}
