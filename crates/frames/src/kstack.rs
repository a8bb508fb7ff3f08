//! Where the pages of kernel stacks lie in the object that backs them, with and without the gaps
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
    /// By address alone: what FreeBSD had.
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

    /// Frames that `stacks` stacks keep from any use: those behind guard pages.
    pub const fn wasted(self, stacks: u64, indexing: Indexing) -> u64 {
        self.spanned(stacks, indexing) - stacks * self.pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(Stacks::AMD64.wasted(1024, Indexing::Linear), 1024);
        assert_eq!(Stacks::AMD64.wasted(1024, Indexing::Packed), 0);
        assert_eq!(Stacks::AMD64.spanned(102, Indexing::Linear), 510);
        assert_eq!(Stacks::AMD64.spanned(128, Indexing::Packed), 512);
    }
}
