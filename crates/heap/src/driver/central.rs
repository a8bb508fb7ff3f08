//! A central free list (section 3): objects of one size on spans, freest spans last.

use crate::units::Pages;

/// None.
const NONE: u32 = u32::MAX;

/// Objects of one size, and the spans that they lie on.
///
/// A new object goes to the span with the fewest free objects, which leaves others to drain; a span
/// whose last object dies goes back to the page heap. Objects and spans are numbers: there is no
/// memory behind them. Allocation takes O(1) but for a scan of a bitmap, freeing O(1).
pub struct Central {
    pages: Pages,
    objects_a_span: u32,
    spans: Vec<Span>,
    free_spans: Vec<u32>,
    /// First span by number of free objects.
    heads: Vec<u32>,
    nonempty: Vec<u64>,
    /// The span of each live object, in no order.
    live: Vec<u32>,
}

struct Span {
    name: u64,
    free: u32,
    next: u32,
    prev: u32,
}

impl Central {
    /// For objects of `bytes`, or for spans of this size.
    pub fn new(bytes: u64, of_spans: bool) -> Central {
        let (pages, objects) =
            if of_spans { (Pages::holding(bytes), 1) } else { span_shape(bytes) };
        Central {
            pages,
            objects_a_span: objects,
            spans: Vec::new(),
            free_spans: Vec::new(),
            heads: vec![NONE; objects as usize + 1],
            nonempty: vec![0; (objects as usize + 1).div_ceil(64)],
            live: Vec::new(),
        }
    }

    /// Number of live objects.
    pub fn live(&self) -> usize {
        self.live.len()
    }

    /// Adds an object. If that took a new span, which `name` names: its pages.
    pub fn allocate(&mut self, name: impl FnOnce() -> u64) -> Option<Pages> {
        let fullest = self.fewest_free();
        let span = fullest.unwrap_or_else(|| self.add_span(name()));
        self.unlink(span);
        self.spans[span as usize].free -= 1;
        self.link(span);
        self.live.push(span);
        fullest.is_none().then_some(self.pages)
    }

    /// Takes a live object by its place among them. If its span is empty by that: the span's name.
    pub fn free(&mut self, victim: usize) -> Option<u64> {
        let span = self.live.swap_remove(victim);
        self.unlink(span);
        let Span { name, free, .. } = &mut self.spans[span as usize];
        *free += 1;
        if *free == self.objects_a_span {
            self.free_spans.push(span);
            return Some(*name);
        }
        self.link(span);
        None
    }

    /// The span with the fewest free objects, but at least one.
    fn fewest_free(&self) -> Option<u32> {
        // Bit 0 stands for the full ones.
        let mut keep = !1u64;
        for (word, &bits) in self.nonempty.iter().enumerate() {
            if bits & keep != 0 {
                let free = word * 64 + (bits & keep).trailing_zeros() as usize;
                return Some(self.heads[free]);
            }
            keep = u64::MAX;
        }
        None
    }

    fn add_span(&mut self, name: u64) -> u32 {
        let span = Span { name, free: self.objects_a_span, next: NONE, prev: NONE };
        let number = match self.free_spans.pop() {
            Some(number) => {
                self.spans[number as usize] = span;
                number
            }
            None => {
                self.spans.push(span);
                self.spans.len() as u32 - 1
            }
        };
        self.link(number);
        number
    }

    fn link(&mut self, span: u32) {
        let free = self.spans[span as usize].free as usize;
        let next = std::mem::replace(&mut self.heads[free], span);
        let Span { next: to_next, prev, .. } = &mut self.spans[span as usize];
        (*to_next, *prev) = (next, NONE);
        if next != NONE {
            self.spans[next as usize].prev = span;
        }
        self.nonempty[free / 64] |= 1 << (free % 64);
    }

    fn unlink(&mut self, span: u32) {
        let Span { free, next, prev, .. } = self.spans[span as usize];
        if next != NONE {
            self.spans[next as usize].prev = prev;
        }
        if prev != NONE {
            self.spans[prev as usize].next = next;
            return;
        }
        self.heads[free as usize] = next;
        if next == NONE {
            self.nonempty[free as usize / 64] &= !(1 << (free % 64));
        }
    }
}

/// Objects above this size have spans of their own: 256 KiB (section 3).
const LARGEST_SMALL: u64 = 256 << 10;

/// Pages of a span for objects of `bytes`, and how many objects it holds: the fewest pages that
/// waste at most an eighth.
fn span_shape(bytes: u64) -> (Pages, u32) {
    if bytes > LARGEST_SMALL {
        return (Pages::holding(bytes), 1);
    }
    let fits = |pages: &u64| {
        let span = pages * Pages::SIZE;
        span >= bytes && span % bytes <= span / 8
    };
    let pages = (1..).find(fits).expect("eight objects leave at most an eighth over");
    (Pages(pages), (pages * Pages::SIZE / bytes) as u32)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn span_shapes_leave_little_over() {
        assert_eq!(span_shape(16), (Pages(1), 512));
        assert_eq!(span_shape(8192), (Pages(1), 1));
        // One page would leave 3,192 of 8,192 bytes, two leave 1,384 of 16,384.
        assert_eq!(span_shape(5_000), (Pages(2), 3));
        assert_eq!(span_shape(256 << 10), (Pages(32), 1));
        assert_eq!(span_shape((256 << 10) + 1), (Pages(33), 1));
        for bytes in 1..=LARGEST_SMALL / 16 {
            let (pages, objects) = span_shape(bytes * 16);
            let left = pages.bytes() - u64::from(objects) * bytes * 16;
            assert!(left <= pages.bytes() / 8);
        }
    }

    proptest! {
        /// Against a count per span: the fullest span with room is taken, and only empty ones go.
        #[test]
        fn behaves_like_counts_per_span(
            steps in prop::collection::vec((any::<bool>(), any::<usize>()), 1..300)
        ) {
            let mut central = Central::new(1_000, false);
            let per_span = central.objects_a_span;
            let mut model: BTreeMap<u64, u32> = BTreeMap::new();
            let mut next = 0;
            for (birth, number) in steps {
                if birth || central.live() == 0 {
                    let wanted = model.values().filter(|&&used| used < per_span).max().copied();
                    let created = central.allocate(|| next);
                    prop_assert_eq!(created.is_some(), wanted.is_none());
                    let span = *central.live.last().unwrap();
                    let name = central.spans[span as usize].name;
                    prop_assert_eq!(model.get(&name).copied(), wanted);
                    *model.entry(name).or_default() += 1;
                    next += u64::from(created.is_some());
                } else {
                    let victim = number % central.live();
                    let name = central.spans[central.live[victim] as usize].name;
                    let used = model.get_mut(&name).unwrap();
                    *used -= 1;
                    let empty = *used == 0;
                    prop_assert_eq!(central.free(victim), empty.then_some(name));
                    if empty {
                        model.remove(&name);
                    }
                }
                prop_assert_eq!(central.live(), model.values().sum::<u32>() as usize);
            }
        }
    }
}
