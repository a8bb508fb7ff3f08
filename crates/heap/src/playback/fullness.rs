//! The filler's second strategy, for comparison (Figure 11): fullness before fragmentation.

use std::collections::BTreeSet;

use crate::page_heap::ranking::Ranking;
use crate::page_heap::tracker::Tracker;
use crate::storage::{Key, Slab, Storage};
use crate::units::HugePages;

/// Places a span on the huge page with the most spans, A, that has room; among those with equally
/// many, on the one with the shortest longest free range, L: A over L. Only for playback: it
/// allocates, and looking a huge page up takes up to 256 steps.
#[derive(Debug)]
pub struct ExactFullness {
    /// By number of spans: longest free range, address and key of the huge pages.
    with_spans: Vec<BTreeSet<(usize, u64, u32)>>,
}

impl ExactFullness {
    fn entry(tracker: &Tracker, key: Key<Tracker>) -> (usize, u64, u32) {
        (tracker.longest_free_range(), tracker.huge_page().0, key.get())
    }
}

impl<S: Storage> Ranking<S> for ExactFullness {
    fn new() -> Option<Self> {
        let with_spans = vec![BTreeSet::new(); HugePages::PAGES.0 as usize + 1];
        Some(ExactFullness { with_spans })
    }

    fn insert(&mut self, trackers: &mut Slab<Tracker, S>, key: Key<Tracker>) {
        let tracker = trackers.get(key);
        self.with_spans[tracker.spans()].insert(Self::entry(tracker, key));
    }

    fn remove(&mut self, trackers: &mut Slab<Tracker, S>, key: Key<Tracker>) {
        let tracker = trackers.get(key);
        self.with_spans[tracker.spans()].remove(&Self::entry(tracker, key));
    }

    fn find(&self, _trackers: &Slab<Tracker, S>, pages: usize) -> Option<Key<Tracker>> {
        let fits = |equals: &BTreeSet<_>| equals.range((pages, 0, 0)..).next().copied();
        self.with_spans.iter().rev().find_map(fits).map(|(_, _, key)| Key::of(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Allocated;
    use crate::units::{HugePageId, Pages};

    #[test]
    fn the_most_spans_go_before_the_shortest_gap() {
        let mut trackers = Slab::<Tracker, Allocated>::new();
        let mut ranking = <ExactFullness as Ranking<Allocated>>::new().unwrap();
        // Two spans and 206 pages free in a row; one span and 6 pages; two spans and 236 pages.
        let keys = [[25, 25].as_slice(), &[250], &[10, 10]].map(|spans| {
            let mut tracker = Tracker::new(HugePageId(spans[0]), false);
            for &pages in spans {
                tracker.allocate(Pages(pages), Pages(1)).unwrap();
            }
            trackers.insert(tracker).unwrap()
        });
        keys.iter().for_each(|&key| ranking.insert(&mut trackers, key));
        let find = |pages| Ranking::<Allocated>::find(&ranking, &trackers, pages);
        assert_eq!(find(4), Some(keys[0]));
        assert_eq!(find(207), Some(keys[2]));
        assert_eq!(find(237), None);
        ranking.remove(&mut trackers, keys[0]);
        ranking.remove(&mut trackers, keys[2]);
        assert_eq!(Ranking::<Allocated>::find(&ranking, &trackers, 4), Some(keys[1]));
    }
}
