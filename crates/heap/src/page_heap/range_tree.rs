//! Ranges of huge pages in a treap (section 4.2), by address.
//!
//! ```text
//!              [8, +4) largest 9         each node knows the largest range of its subtree,
//!             /              \           so a search for n huge pages goes only where one
//!    [0, +2) largest 2   [20, +9) largest 9    fits, and takes the side whose largest
//!                                              range is the smaller: an approximate best fit
//! ```

use crate::storage::{Key, Slab, Storage};
use crate::units::{HugePageId, HugePages, HugeRange};

#[derive(Clone, Copy, Debug)]
struct Node {
    range: HugeRange,
    /// The largest range of the subtree.
    largest: HugePages,
    /// A parent's is at least its children's.
    priority: u32,
    left: Key<Node>,
    right: Key<Node>,
}

/// A set of ranges that neither overlap nor touch.
///
/// Insertion and removal take O(log ranges) expected.
#[derive(Debug)]
pub struct RangeTree<S: Storage> {
    nodes: Slab<Node, S>,
    root: Key<Node>,
    total: HugePages,
    /// State of the generator of priorities: any fixed seed balances the tree, as addresses do not
    /// depend on it.
    seed: u32,
}

impl<S: Storage> RangeTree<S> {
    /// A set without ranges.
    pub const fn new() -> RangeTree<S> {
        RangeTree { nodes: Slab::new(), root: Key::NONE, total: HugePages::ZERO, seed: 0x9e37_79b9 }
    }

    /// Huge pages in all ranges.
    pub const fn total(&self) -> HugePages {
        self.total
    }

    /// Number of ranges.
    pub const fn len(&self) -> u32 {
        self.nodes.len()
    }

    /// The largest range's length.
    pub fn largest(&self) -> HugePages {
        self.largest_under(self.root)
    }

    /// Adds a range, joined with those that touch it. Whether there was storage to note it; if
    /// not, nothing has changed. There always is if it touches one, or one was removed before.
    ///
    /// The range must not overlap another.
    #[must_use]
    pub fn insert(&mut self, range: HugeRange) -> bool {
        debug_assert!(!range.len.is_zero());
        let mut joined = range;
        if let Some(before) = self.last_before(range.end()) {
            debug_assert!(before.end() <= range.start, "{range} overlaps {before}");
            if before.end() == range.start {
                self.remove(before.start);
                joined = HugeRange { start: before.start, len: before.len + joined.len };
            }
        }
        if let Some(after) = self.at(range.end()) {
            self.remove(after.start);
            joined.len += after.len;
        }
        self.insert_alone(joined)
    }

    /// Takes `len` huge pages out of a range that fits them about best, from its start. `None` if
    /// no range is so long.
    pub fn take(&mut self, len: HugePages) -> Option<HugeRange> {
        let range = self.fitting(len)?;
        self.remove(range.start);
        let (taken, rest) = range.split(len);
        self.insert_rest(rest);
        Some(taken)
    }

    /// Takes a range whose start is a multiple of `align` out of a longer one. `None` if no range
    /// has `len + align - 1` huge pages.
    pub fn take_aligned(&mut self, len: HugePages, align: HugePages) -> Option<HugeRange> {
        let ample = HugePages(len.0.checked_add(align.0 - 1)?);
        let range = self.take(ample)?;
        let start = HugePageId(range.start.0.next_multiple_of(align.0));
        let (before, rest) = range.split(start - range.start);
        let (taken, after) = rest.split(len);
        // Without storage for an end, the whole range is returned: this needs no node, because it
        // touches a range with one or reuses the node that `take` freed.
        if !before.len.is_zero() && !self.insert(before) {
            let _ = self.insert(range);
            return None;
        }
        if !after.len.is_zero() && !self.insert(after) {
            let _ = self.insert(HugeRange { start: taken.start, len: taken.len + after.len });
            return None;
        }
        Some(taken)
    }

    /// Takes at most `len` huge pages from a range that is about the smallest. `None` if empty.
    pub fn take_at_most(&mut self, len: HugePages) -> Option<HugeRange> {
        let range = self.fitting(HugePages::ONE)?;
        self.take_from(range, len.min(range.len))
    }

    /// How many huge pages of the set lie next to each other from `start` on, where a range must
    /// begin.
    pub fn len_from(&self, start: HugePageId) -> HugePages {
        self.at(start).map_or(HugePages::ZERO, |range| range.len)
    }

    /// How many huge pages of the set lie next to each other up to `end`, where a range must end.
    pub fn len_up_to(&self, end: HugePageId) -> HugePages {
        let last = self.last_before(end).filter(|range| range.end() == end);
        last.map_or(HugePages::ZERO, |range| range.len)
    }

    /// Takes a part out that lies at an end of a range of the set.
    ///
    /// # Panics
    /// If no range of the set begins or ends with it.
    pub fn take_end(&mut self, part: HugeRange) {
        let whole = self.last_before(part.end()).expect("the part lies in a range");
        self.remove(whole.start);
        let (before, rest) = whole.split(part.start - whole.start);
        let (_, after) = rest.split(part.len);
        assert!(before.len.is_zero() || after.len.is_zero(), "{part} splits {whole}");
        self.insert_rest(if before.len.is_zero() { after } else { before });
    }

    /// Whether a range of the set has a huge page in common with `range`.
    pub fn overlaps(&self, range: HugeRange) -> bool {
        self.last_before(range.end()).is_some_and(|before| before.end() > range.start)
    }

    /// The ranges in the order of their addresses.
    pub fn iter(&self) -> impl Iterator<Item = HugeRange> {
        let mut next = self.first_from(HugePageId(0));
        core::iter::from_fn(move || {
            let range = next?;
            next = self.first_from(range.end());
            Some(range)
        })
    }

    /// Checks the order of addresses and of priorities, and the largest range of each subtree.
    ///
    /// # Errors
    /// A message that names the first inconsistency.
    pub fn validate(&self) -> Result<(), String> {
        let mut seen = (HugePageId(0), HugePages::ZERO, 0);
        self.validate_under(self.root, u32::MAX, &mut seen)?;
        if (seen.1, seen.2) != (self.total, self.nodes.len()) {
            return Err(format!(
                "range tree: counts {:?} huge pages, holds {:?}",
                self.total, seen
            ));
        }
        Ok(())
    }

    fn validate_under(
        &self,
        key: Key<Node>,
        above: u32,
        seen: &mut (HugePageId, HugePages, u32),
    ) -> Result<(), String> {
        let Some(key) = key.some() else { return Ok(()) };
        let node = self.nodes.get(key);
        self.validate_under(node.left, node.priority, seen)?;
        if seen.2 > 0 && node.range.start <= seen.0 {
            return Err(format!("range tree: {} touches what lies before it", node.range));
        }
        if node.priority > above || node.range.len.is_zero() {
            return Err(format!("range tree: {} does not belong where it is", node.range));
        }
        *seen = (node.range.end(), seen.1 + node.range.len, seen.2 + 1);
        self.validate_under(node.right, node.priority, seen)?;
        let largest = self.largest_with_children(key);
        if node.largest != largest {
            return Err(format!("range tree: {} knows the largest as {:?}", node.range, largest));
        }
        Ok(())
    }

    /// The range that fits `len` about best: where both sides hold one that fits, only the side
    /// whose largest is the smaller is searched. O(log ranges).
    fn fitting(&self, len: HugePages) -> Option<HugeRange> {
        let mut best: Option<HugeRange> = None;
        let mut at = self.root;
        while self.largest_under(at) >= len {
            let Some(key) = at.some() else { break };
            let node = self.nodes.get(key);
            if node.range.len >= len && best.is_none_or(|best| node.range.len < best.len) {
                best = Some(node.range);
            }
            let [left, right] = [node.left, node.right].map(|side| self.largest_under(side));
            let go_left = left >= len && (right < len || left <= right);
            at = if go_left { node.left } else { node.right };
        }
        best
    }

    fn take_from(&mut self, range: HugeRange, len: HugePages) -> Option<HugeRange> {
        self.remove(range.start);
        let (taken, rest) = range.split(len);
        self.insert_rest(rest);
        Some(taken)
    }

    /// Puts the rest of a range back whose node was just removed.
    fn insert_rest(&mut self, rest: HugeRange) {
        if !rest.len.is_zero() {
            let noted = self.insert_alone(rest);
            assert!(noted, "the node that was removed can be used again");
        }
    }

    fn insert_alone(&mut self, range: HugeRange) -> bool {
        let priority = self.next_priority();
        let node = Node { range, largest: range.len, priority, left: Key::NONE, right: Key::NONE };
        let Some(key) = self.nodes.insert(node) else { return false };
        let (before, after) = self.split(self.root, range.start);
        let before = self.merge(before, key);
        self.root = self.merge(before, after);
        self.total += range.len;
        true
    }

    fn remove(&mut self, start: HugePageId) -> HugeRange {
        let (before, rest) = self.split(self.root, start);
        let (found, after) = self.split(rest, start + HugePages::ONE);
        let node = self.nodes.remove(found);
        debug_assert!(node.range.start == start && node.left.is_none() && node.right.is_none());
        self.root = self.merge(before, after);
        self.total -= node.range.len;
        node.range
    }

    /// The last range that starts before `end`.
    fn last_before(&self, end: HugePageId) -> Option<HugeRange> {
        let (mut at, mut found) = (self.root, None);
        while let Some(key) = at.some() {
            let node = self.nodes.get(key);
            if node.range.start < end {
                found = Some(node.range);
                at = node.right;
            } else {
                at = node.left;
            }
        }
        found
    }

    /// The first range that starts at `start` or after it.
    fn first_from(&self, start: HugePageId) -> Option<HugeRange> {
        let (mut at, mut found) = (self.root, None);
        while let Some(key) = at.some() {
            let node = self.nodes.get(key);
            if node.range.start >= start {
                found = Some(node.range);
                at = node.left;
            } else {
                at = node.right;
            }
        }
        found
    }

    fn at(&self, start: HugePageId) -> Option<HugeRange> {
        self.first_from(start).filter(|range| range.start == start)
    }

    /// The nodes that start before `start`, and the others. Recursion is as deep as the tree, whose
    /// expected depth is logarithmic.
    fn split(&mut self, at: Key<Node>, start: HugePageId) -> (Key<Node>, Key<Node>) {
        let Some(key) = at.some() else { return (Key::NONE, Key::NONE) };
        let Node { range, left, right, .. } = *self.nodes.get(key);
        if range.start < start {
            let (before, after) = self.split(right, start);
            self.nodes.get_mut(key).right = before;
            self.update(key);
            (key, after)
        } else {
            let (before, after) = self.split(left, start);
            self.nodes.get_mut(key).left = after;
            self.update(key);
            (before, key)
        }
    }

    /// Merges two trees; all ranges of the first lie before the second.
    fn merge(&mut self, before: Key<Node>, after: Key<Node>) -> Key<Node> {
        let (Some(first), Some(second)) = (before.some(), after.some()) else {
            return if before.is_none() { after } else { before };
        };
        if self.nodes.get(first).priority >= self.nodes.get(second).priority {
            let right = self.merge(self.nodes.get(first).right, after);
            self.nodes.get_mut(first).right = right;
            self.update(first);
            first
        } else {
            let left = self.merge(before, self.nodes.get(second).left);
            self.nodes.get_mut(second).left = left;
            self.update(second);
            second
        }
    }

    fn largest_under(&self, at: Key<Node>) -> HugePages {
        at.some().map_or(HugePages::ZERO, |key| self.nodes.get(key).largest)
    }

    fn largest_with_children(&self, key: Key<Node>) -> HugePages {
        let node = self.nodes.get(key);
        node.range.len.max(self.largest_under(node.left)).max(self.largest_under(node.right))
    }

    fn update(&mut self, key: Key<Node>) {
        self.nodes.get_mut(key).largest = self.largest_with_children(key);
    }

    /// Marsaglia's xorshift.
    fn next_priority(&mut self) -> u32 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 17;
        self.seed ^= self.seed << 5;
        self.seed
    }
}

impl<S: Storage> Default for RangeTree<S> {
    fn default() -> Self {
        RangeTree::new()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::storage::Allocated;

    fn range(start: u64, len: u64) -> HugeRange {
        HugeRange { start: HugePageId(start), len: HugePages(len) }
    }

    fn tree(ranges: &[(u64, u64)]) -> RangeTree<Allocated> {
        let mut tree = RangeTree::new();
        for &(start, len) in ranges {
            assert!(tree.insert(range(start, len)));
        }
        tree
    }

    #[test]
    fn ranges_that_touch_are_joined() {
        let mut tree = tree(&[(0, 2), (4, 1), (8, 3)]);
        assert!(tree.insert(range(2, 2)));
        assert_eq!(tree.iter().collect::<Vec<_>>(), [range(0, 5), range(8, 3)]);
        assert_eq!((tree.len(), tree.total(), tree.largest()), (2, HugePages(8), HugePages(5)));
    }

    #[test]
    fn a_lone_fit_is_found_wherever_it_is() {
        for lone in 0..64 {
            let ranges: Vec<_> =
                (0..64).map(|i| (i * 100, if i == lone { 7 } else { 1 + i % 6 })).collect();
            let mut tree = tree(&ranges);
            assert_eq!(tree.take(HugePages(7)), Some(range(lone * 100, 7)));
            assert_eq!(tree.take(HugePages(7)), None);
        }
    }

    #[test]
    fn alignment_cuts_both_ends_off() {
        let mut tree = tree(&[(3, 20)]);
        assert_eq!(tree.take_aligned(HugePages(4), HugePages(8)), Some(range(8, 4)));
        assert_eq!(tree.iter().collect::<Vec<_>>(), [range(3, 5), range(12, 11)]);
        assert_eq!(tree.take_aligned(HugePages(5), HugePages(8)), None);
    }

    #[test]
    fn an_end_is_taken_and_the_rest_stays() {
        let mut tree = tree(&[(10, 6), (20, 3)]);
        assert_eq!(
            (tree.len_from(HugePageId(10)), tree.len_from(HugePageId(11))),
            (HugePages(6), HugePages(0))
        );
        assert_eq!(
            (tree.len_up_to(HugePageId(16)), tree.len_up_to(HugePageId(15))),
            (HugePages(6), HugePages(0))
        );
        tree.take_end(range(10, 2));
        tree.take_end(range(15, 1));
        tree.take_end(range(20, 3));
        assert_eq!(tree.iter().collect::<Vec<_>>(), [range(12, 3)]);
        assert_eq!((tree.total(), tree.validate()), (HugePages(3), Ok(())));
    }

    #[test]
    #[should_panic(expected = "splits")]
    fn a_middle_is_no_end() {
        tree(&[(10, 6)]).take_end(range(12, 1));
    }

    proptest! {
        /// Against a set of huge page numbers: what is taken was there, and fits.
        #[test]
        fn behaves_like_a_set(
            steps in prop::collection::vec((any::<bool>(), 0u64..60, 1u64..12), 1..200)
        ) {
            let mut tree = RangeTree::<Allocated>::new();
            let mut model = BTreeSet::new();
            for (insert, start, len) in steps {
                if insert {
                    if (start..start + len).any(|page| model.contains(&page)) {
                        continue;
                    }
                    prop_assert!(tree.insert(range(start, len)));
                    model.extend(start..start + len);
                } else {
                    let longest = longest_run(&model);
                    let taken = tree.take(HugePages(len));
                    prop_assert_eq!(taken.is_some(), longest >= len);
                    for page in taken.iter().flat_map(|taken| taken.start.0..taken.end().0) {
                        prop_assert!(model.remove(&page));
                    }
                }
                prop_assert_eq!(tree.validate(), Ok(()));
                let pages: BTreeSet<u64> =
                    tree.iter().flat_map(|range| range.start.0..range.end().0).collect();
                prop_assert_eq!(&pages, &model);
                prop_assert_eq!(tree.largest().0, longest_run(&model));
            }
        }
    }

    fn longest_run(pages: &BTreeSet<u64>) -> u64 {
        let (mut longest, mut run, mut next) = (0, 0, u64::MAX);
        for &page in pages {
            run = if page == next { run + 1 } else { 1 };
            (longest, next) = (longest.max(run), page + 1);
        }
        longest
    }
}
