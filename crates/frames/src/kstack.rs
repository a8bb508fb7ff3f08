//! The position of kernel stacks' pages in the object that backs them, with and without the gaps
//! that guard pages leave (FreeBSD, "Reworking kernel stack allocations"; D38852).
//!
//! ```text
//! kernel addresses   |g|s s s s|g|s s s s|g|s s s s|      g: guard page, s: stack page
//! linear index        0 1 2 3 4 5 6 7 8 9 ...             a page of the object behind each guard
//! packed index          0 1 2 3   4 5 6 7   8 9 10 11     none
//! ```
//!
//! The object's pages come from contiguous memory, a superpage at a time. Under the linear index a
//! guard page, which is never backed, keeps a frame of it from ever being used: a hole of order 0
//! for every stack. The packed index leaves the guards out; it needs no table, because stacks have
//! one size and their guards stand at fixed offsets.
//!
//! [`Arena`] follows stacks that come and go, and reports the unused frames of their superpages.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::Order;

/// The shape of all kernel stacks of a machine, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stacks {
    /// Pages of a stack; more than none (`kstack_pages`).
    pub pages: u64,
    /// Guard pages below each stack (`KSTACK_GUARD_PAGES`).
    pub guards: u64,
}

/// How the pages of stacks are numbered in their object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indexing {
    /// By address alone, as in FreeBSD before.
    Linear,
    /// Guard pages left out.
    Packed,
}

impl Stacks {
    /// FreeBSD's on amd64: four pages and a guard.
    pub const AMD64: Stacks = Stacks { pages: 4, guards: 1 };

    /// Pages of address space that a stack takes.
    pub const fn stride(self) -> u64 {
        self.pages + self.guards
    }

    /// The index of the page that backs the page of address space `page`, counted from where the
    /// stacks' arena is aligned to (`vm_kstack_pindex`). `None` for a guard page.
    pub const fn index(self, page: u64, indexing: Indexing) -> Option<u64> {
        if page % self.stride() < self.guards {
            return None;
        }
        match indexing {
            Indexing::Linear => Some(page),
            Indexing::Packed => Some(page - (page / self.stride() + 1) * self.guards),
        }
    }

    /// Pages of the object that `stacks` stacks span, holes between them included.
    pub const fn spanned(self, stacks: u64, indexing: Indexing) -> u64 {
        match indexing {
            Indexing::Linear => stacks * self.stride(),
            Indexing::Packed => stacks * self.pages,
        }
    }
}

/// Frames of a superpage.
const SUPERPAGE: u64 = Order::HUGE.frames();

/// Places of stacks in the address space that is kept for them: the lowest free one is taken first.
#[derive(Clone, Debug, Default)]
pub struct Places {
    free: BTreeSet<u64>,
    /// Every place below is in use or in `free`.
    end: u64,
}

impl Places {
    /// Takes the lowest free place.
    pub fn take(&mut self) -> u64 {
        self.free.pop_first().unwrap_or_else(|| {
            self.end += 1;
            self.end - 1
        })
    }

    /// Frees a place.
    ///
    /// # Panics
    /// If there is no stack at `place`.
    pub fn give(&mut self, place: u64) {
        assert!(place < self.end && self.free.insert(place), "no stack at {place}");
    }

    /// Places in use.
    pub fn used(&self) -> u64 {
        self.end - self.free.len() as u64
    }
}

/// The stacks of a machine's threads. Each takes the lowest place that is free; the object's pages
/// behind it come from the superpage that holds their indices, which is set aside when the first of
/// them is needed and is free again when none is.
#[derive(Clone, Debug)]
pub struct Arena {
    stacks: Stacks,
    indexing: Indexing,
    places: Places,
    /// By page of the object, whether it is in use.
    pages: Vec<bool>,
}

/// What stacks keep of memory at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackMemory {
    /// Stacks.
    pub stacks: u64,
    /// Superpages with at least one page of a stack.
    pub superpages: u64,
    /// Frames of these that are in no use, as the largest aligned blocks that they make: how many
    /// of each order.
    pub holes: [u64; Order::HUGE.index()],
}

impl StackMemory {
    /// Unused frames that cannot be used separately from their superpages.
    pub fn unused_frames(&self) -> u64 {
        self.holes.iter().enumerate().map(|(order, blocks)| blocks << order).sum()
    }
}

impl Arena {
    /// No stacks yet.
    ///
    /// # Panics
    /// If a stack has no pages.
    pub fn new(stacks: Stacks, indexing: Indexing) -> Arena {
        assert!(stacks.pages > 0, "a stack without pages");
        Arena { stacks, indexing, places: Places::default(), pages: Vec::new() }
    }

    /// A thread begins; returns the place of its stack.
    pub fn take(&mut self) -> u64 {
        let place = self.places.take();
        self.mark(place, true);
        place
    }

    /// A thread ends.
    ///
    /// # Panics
    /// If `place` has no stack.
    pub fn give(&mut self, place: u64) {
        self.places.give(place);
        self.mark(place, false);
    }

    fn mark(&mut self, place: u64, in_use: bool) {
        let first = place * self.stacks.stride();
        for page in first..first + self.stacks.stride() {
            let Some(index) = self.stacks.index(page, self.indexing) else { continue };
            let index = index as usize;
            if self.pages.len() <= index {
                let superpages = (index as u64 / SUPERPAGE + 1) * SUPERPAGE;
                self.pages.resize(superpages as usize, false);
            }
            debug_assert_ne!(self.pages[index], in_use, "page {index}");
            self.pages[index] = in_use;
        }
    }

    /// The memory of the stacks now. Time linear in the pages that there ever were.
    pub fn held(&self) -> StackMemory {
        let mut holes = [0; Order::HUGE.index()];
        let mut superpages = 0;
        for superpage in self.pages.chunks_exact(SUPERPAGE as usize) {
            if superpage.iter().any(|&in_use| in_use) {
                superpages += 1;
                count_holes(superpage, &mut holes);
            }
        }
        StackMemory { stacks: self.places.used(), superpages, holes }
    }
}

/// Adds the largest aligned blocks without a page in use.
fn count_holes(pages: &[bool], holes: &mut [u64]) {
    if pages.iter().all(|&in_use| !in_use) {
        holes[pages.len().ilog2() as usize] += 1;
    } else if pages.len() > 1 {
        let (lower, upper) = pages.split_at(pages.len() / 2);
        count_holes(lower, holes);
        count_holes(upper, holes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 128 stacks of four pages fill a superpage; with a page behind each guard, 102 and a part of
    /// the next do, and every guard is a hole of one frame.
    #[test]
    fn stacks_without_holes_fill_their_superpages() {
        let fill = |indexing| {
            let mut arena = Arena::new(Stacks::AMD64, indexing);
            (0..1024).for_each(|_| {
                arena.take();
            });
            arena.held()
        };
        let packed = fill(Indexing::Packed);
        assert_eq!((packed.superpages, packed.unused_frames()), (8, 0));
        let linear = fill(Indexing::Linear);
        assert_eq!((linear.superpages, linear.unused_frames(), linear.holes[0]), (10, 1024, 1024));
    }

    /// Places are used again, lowest first; a superpage without stacks is free.
    #[test]
    fn superpages_come_free_with_their_last_stack() {
        let mut arena = Arena::new(Stacks::AMD64, Indexing::Packed);
        let places: Vec<u64> = (0..256).map(|_| arena.take()).collect();
        places[..127].iter().for_each(|&place| arena.give(place));
        let held = arena.held();
        assert_eq!((held.stacks, held.superpages), (129, 2));
        // 127 stacks of four frames: 256 + 128 + 64 + … + 4.
        assert_eq!(held.holes, [0, 0, 1, 1, 1, 1, 1, 1, 1]);
        arena.give(127);
        assert_eq!(arena.held().superpages, 1);
        assert_eq!(arena.take(), 0);
        assert_eq!(arena.held().superpages, 2);
    }

    #[test]
    #[should_panic(expected = "no stack at 0")]
    fn a_stack_ends_once() {
        let mut arena = Arena::new(Stacks::AMD64, Indexing::Linear);
        let place = arena.take();
        arena.give(place);
        arena.give(place);
    }

    /// The packed index is the plain enumeration of stack pages, guards left out, for every shape
    /// and wherever the arena begins, as long as it is aligned to a whole stack.
    #[test]
    fn the_packed_index_is_a_plain_enumeration() {
        for pages in 1..=32 {
            for guards in 0..=4 {
                let stacks = Stacks { pages, guards };
                for begin in [0, 1, 7, 1 << 20] {
                    let mut expected = begin * pages;
                    let first = begin * stacks.stride();
                    for page in first..first + 9 * stacks.stride() {
                        let is_guard = (page - first) % stacks.stride() < guards;
                        let index = stacks.index(page, Indexing::Packed);
                        assert_eq!(index, (!is_guard).then_some(expected), "{stacks:?} at {page}");
                        expected += u64::from(!is_guard);
                        assert_eq!(
                            stacks.index(page, Indexing::Linear),
                            (!is_guard).then_some(page)
                        );
                    }
                    assert_eq!(expected, (begin + 9) * pages, "no index left out");
                }
            }
        }
    }

    #[test]
    fn each_stack_wastes_its_guards_under_the_linear_index() {
        // 1,024 stacks: 4 MiB of holes that would do for two superpages, were they together.
        assert_eq!(Stacks::AMD64.spanned(102, Indexing::Linear), 510);
        assert_eq!(Stacks::AMD64.spanned(128, Indexing::Packed), 512);
    }
}
