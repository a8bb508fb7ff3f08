//! Which huge page a span goes to: the filler's strategies (section 4.4 and Figure 11).

use core::fmt::Debug;
use core::marker::PhantomData;

use super::ranked_lists::{RANKS, RankedLists};
use super::tracker::Tracker;
use crate::storage::{Key, Slab, Storage};

/// A strategy of the filler: keeps huge pages in an order of preference.
pub trait Ranking<S: Storage>: Sized + Debug {
    /// Without huge pages. `None` if there is no storage.
    fn new() -> Option<Self>;

    /// Adds a huge page in its present state.
    fn insert(&mut self, trackers: &mut Slab<Tracker, S>, key: Key<Tracker>);

    /// Removes a huge page, which is in the state in which it was added.
    fn remove(&mut self, trackers: &mut Slab<Tracker, S>, key: Key<Tracker>);

    /// The preferred huge page with a free range of at least `pages`.
    fn find(&self, trackers: &Slab<Tracker, S>, pages: usize) -> Option<Key<Tracker>>;
}

/// Chunks by number of spans: Cmax of section 4.4.
pub const CHUNKS: usize = 8;
const LENGTHS: usize = RANKS / CHUNKS;

/// The chunk of a huge page with `spans` spans: 0 for the fullest, from 128 spans on, and 7 for
/// those with a single one.
///
/// The paper prints min(0, Cmax − log2(A)), which would be 0 for all; with `max` and Cmax − 1 the
/// chunks are the 0 to Cmax − 1 that its text names.
#[inline]
pub fn chunk(spans: usize) -> usize {
    (CHUNKS - 1).saturating_sub(spans.max(1).ilog2() as usize)
}

/// An order of huge pages as a rank below `RANKS`.
pub trait Order: Debug {
    /// The rank of a huge page by its longest free range and its chunk.
    fn rank(longest_free_range: usize, chunk: usize) -> usize;

    /// The first rank on `lists` that holds a huge page with `pages` free in a row.
    fn least<S: Storage>(lists: &RankedLists<Tracker, S, 0>, pages: usize) -> Option<Key<Tracker>>;
}

/// The paper's strategy: the lowest sufficient L, and among these the highest A.
#[derive(Debug)]
pub struct LongestFreeRange;

impl Order for LongestFreeRange {
    #[inline]
    fn rank(longest_free_range: usize, chunk: usize) -> usize {
        CHUNKS * longest_free_range + chunk
    }

    #[inline]
    fn least<S: Storage>(lists: &RankedLists<Tracker, S, 0>, pages: usize) -> Option<Key<Tracker>> {
        lists.least_from(CHUNKS * pages).map(|(_, key)| key)
    }
}

/// Fullness before fragmentation: the highest A, and among these the lowest sufficient L.
#[derive(Debug)]
pub struct Fullness;

impl Order for Fullness {
    #[inline]
    fn rank(longest_free_range: usize, chunk: usize) -> usize {
        LENGTHS * chunk + longest_free_range
    }

    fn least<S: Storage>(lists: &RankedLists<Tracker, S, 0>, pages: usize) -> Option<Key<Tracker>> {
        (0..CHUNKS).find_map(|chunk| {
            let (rank, key) = lists.least_from(LENGTHS * chunk + pages)?;
            (rank < LENGTHS * (chunk + 1)).then_some(key)
        })
    }
}

/// A strategy by an [`Order`]: an array of lists, and a bitmap of those that are not empty.
#[derive(Debug)]
pub struct ByRank<S: Storage, O: Order> {
    lists: RankedLists<Tracker, S, 0>,
    order: PhantomData<O>,
}

impl<S: Storage, O: Order> Ranking<S> for ByRank<S, O> {
    fn new() -> Option<Self> {
        Some(ByRank { lists: RankedLists::new()?, order: PhantomData })
    }

    #[inline]
    fn insert(&mut self, trackers: &mut Slab<Tracker, S>, key: Key<Tracker>) {
        let rank = rank_of::<O>(trackers.get(key));
        self.lists.insert(trackers, key, rank);
    }

    #[inline]
    fn remove(&mut self, trackers: &mut Slab<Tracker, S>, key: Key<Tracker>) {
        let rank = rank_of::<O>(trackers.get(key));
        self.lists.remove(trackers, key, rank);
    }

    #[inline]
    fn find(&self, _trackers: &Slab<Tracker, S>, pages: usize) -> Option<Key<Tracker>> {
        O::least(&self.lists, pages)
    }
}

#[inline]
fn rank_of<O: Order>(tracker: &Tracker) -> usize {
    O::rank(tracker.longest_free_range(), chunk(tracker.spans()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Allocated;
    use crate::units::{HugePageId, Pages};

    #[test]
    fn chunks_rank_almost_empty_huge_pages() {
        let chunks: Vec<usize> =
            [1, 2, 3, 4, 7, 8, 16, 32, 64, 127, 128, 150, 200, 256].map(chunk).to_vec();
        assert_eq!(chunks, [7, 6, 6, 5, 5, 4, 3, 2, 1, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn every_rank_is_its_own_and_within_the_lists() {
        for rank in [LongestFreeRange::rank, Fullness::rank] {
            let mut seen = vec![false; RANKS];
            for (longest, chunk) in (0..=256).flat_map(|l| (0..CHUNKS).map(move |c| (l, c))) {
                assert!(!std::mem::replace(&mut seen[rank(longest, chunk)], true));
            }
        }
    }

    /// A huge page that has the given free ranges, and single-page spans elsewhere.
    fn with_gaps(number: u64, gaps: &[usize]) -> Tracker {
        let mut tracker = Tracker::new(HugePageId(number), false);
        let spans: Vec<_> =
            (0..256).map(|_| tracker.allocate(Pages(1), Pages(1)).unwrap().0).collect();
        let mut at = 0;
        for &gap in gaps {
            spans[at..at + gap].iter().for_each(|&span| tracker.free(span));
            at += gap + 1;
        }
        tracker
    }

    fn preferred<R: Ranking<Allocated>>(huge_pages: &[Tracker], pages: usize) -> Option<u64> {
        let mut trackers = Slab::new();
        let mut ranking = R::new().unwrap();
        for &tracker in huge_pages {
            let key = trackers.insert(tracker).unwrap();
            ranking.insert(&mut trackers, key);
        }
        ranking.find(&trackers, pages).map(|key| trackers.get(key).huge_page().0)
    }

    #[test]
    fn the_papers_x_and_y() {
        // X with gaps of 3 and 10 pages, Y with one of 5: for 3 pages best fit takes X, LFR takes
        // Y.
        let huge_pages = [with_gaps(0, &[3, 10]), with_gaps(1, &[5])];
        type Lfr = ByRank<Allocated, LongestFreeRange>;
        assert_eq!(preferred::<Lfr>(&huge_pages, 3), Some(1));
        assert_eq!(preferred::<Lfr>(&huge_pages, 6), Some(0));
        assert_eq!(preferred::<Lfr>(&huge_pages, 11), None);
    }

    #[test]
    fn fullness_goes_before_fragmentation_and_the_other_way_round() {
        let mut sparse = Tracker::new(HugePageId(0), false);
        sparse.allocate(Pages(250), Pages(1)).unwrap();
        let full = with_gaps(1, &[100]);
        let huge_pages = [sparse, full];
        assert_eq!(preferred::<ByRank<Allocated, LongestFreeRange>>(&huge_pages, 4), Some(0));
        assert_eq!(preferred::<ByRank<Allocated, Fullness>>(&huge_pages, 4), Some(1));
    }
}
