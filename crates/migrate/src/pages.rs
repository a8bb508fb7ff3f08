//! Where virtual pages lie: the page table of the one program that runs, as the walkers and the
//! operating system see it.

use std::collections::VecDeque;

use prairie_hostmem::prefetch;

use crate::address::{Frame, Line, PageSize, Virtual, Vpn};

/// The page table, flat for a quick look-up, and the lines that a walk of it reads.
#[derive(Clone, Debug)]
pub struct Pages {
    /// First frame of each page, by arena.
    frames: [Vec<Frame>; 3],
    /// First line of each level's tables, by arena: the lowest level first.
    tables: [[Line; 4]; 3],
    next: u32,
    limit: u32,
    /// Pages that migrations left, by size.
    free: [VecDeque<Frame>; 3],
}

/// Pages of each size that are left free while memory remains that was never used.
const RESTING: [usize; 3] = [64, 1, 0];

/// Memory is too small for what was to be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("memory.mib: expected at least {wanted_mib} MiB")]
pub struct TooSmall {
    /// MiB that would be enough up to here.
    pub wanted_mib: u64,
}

impl Pages {
    /// Maps `bytes` of each arena, from its start, on a machine of `frames` frames.
    ///
    /// # Errors
    /// [`TooSmall`] if they do not fit.
    pub fn new(frames: u32, bytes: [u64; 3]) -> Result<Pages, TooSmall> {
        let mut pages = Pages {
            frames: Default::default(),
            tables: [[Line(0); 4]; 3],
            next: 1,
            limit: frames,
            free: Default::default(),
        };
        for size in PageSize::ALL {
            let count = bytes[size as usize].div_ceil(u64::from(size.pages()) << 12);
            pages.lay_tables(size, count)?;
            pages.frames[size as usize] = (0..count)
                .map(|_| pages.take(size.pages(), size.pages()))
                .collect::<Result<_, _>>()?;
        }
        Ok(pages)
    }

    /// Room for the tables of an arena of `count` pages: 512 entries in each.
    fn lay_tables(&mut self, size: PageSize, count: u64) -> Result<(), TooSmall> {
        let mut entries = count;
        for level in size as usize..4 {
            entries = entries.div_ceil(512).max(1);
            self.tables[size as usize][level] = self.take(entries as u32, 1)?.line(0);
        }
        Ok(())
    }

    /// Consecutive frames that were never used.
    fn take(&mut self, frames: u32, align: u32) -> Result<Frame, TooSmall> {
        let first = self.next.next_multiple_of(align);
        let end = u64::from(first) + u64::from(frames);
        if end > u64::from(self.limit) {
            return Err(TooSmall { wanted_mib: end.div_ceil(256) });
        }
        self.next = end as u32;
        Ok(Frame(first))
    }

    /// The first frame of the page that `vpn` is part of.
    #[inline]
    pub fn frame(&self, vpn: Vpn) -> Frame {
        let size = vpn.size();
        self.frames[size as usize][(vpn.in_arena() >> size.order()) as usize]
    }

    /// Prefetches the translation of a page.
    #[inline]
    pub fn prefetch(&self, vpn: Vpn) {
        let size = vpn.size();
        prefetch(&self.frames[size as usize], (vpn.in_arena() >> size.order()) as usize);
    }

    /// Changes the frame of a page.
    pub fn remap(&mut self, vpn: Vpn, frame: Frame) {
        let size = vpn.size();
        self.frames[size as usize][(vpn.in_arena() >> size.order()) as usize] = frame;
    }

    /// The line that a walk for `vpn` reads at `level`: 1 is the table of base pages, 4 the top.
    #[inline]
    pub fn entry_line(&self, vpn: Vpn, level: u32) -> Line {
        let index = vpn.in_arena() >> (9 * (level - 1));
        let first = self.tables[vpn.size() as usize][level as usize - 1];
        Line(first.0 + index / 8)
    }

    /// A destination for the page of `vpn`: frames freed by an earlier migration, or new ones.
    ///
    /// # Errors
    /// [`TooSmall`] if there are none.
    pub fn destination(&mut self, size: PageSize) -> Result<Frame, TooSmall> {
        let free = &mut self.free[size as usize];
        // Some rest before they are used again: destinations are not what caches still hold.
        if free.len() > RESTING[size as usize] {
            return Ok(free.pop_front().expect("there are more than none"));
        }
        let new = self.take(size.pages(), size.pages());
        new.or_else(|error| self.free[size as usize].pop_front().ok_or(error))
    }

    /// Gives the frames of a page back.
    pub fn give_back(&mut self, size: PageSize, frame: Frame) {
        self.free[size as usize].push_back(frame);
    }

    /// Whether `address` is mapped.
    pub fn is_mapped(&self, address: Virtual) -> bool {
        let size = address.size();
        let page = address.vpn().in_arena() >> size.order();
        (page as usize) < self.frames[size as usize].len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_lie_apart_and_aligned() {
        let pages = Pages::new(4096, [5 << 12, 2 << 21, 0]).unwrap();
        let page =
            |size, number: u64| Virtual::new(size, number << (12 + PageSize::order(size))).vpn();
        let base: Vec<u32> = (0..5).map(|n| pages.frame(page(PageSize::Base, n)).0).collect();
        // Frame 0 is unused; four tables of one frame each come first.
        assert_eq!(base, [5, 6, 7, 8, 9]);
        assert_eq!(pages.frame(page(PageSize::Huge, 0)), Frame(512));
        assert_eq!(pages.frame(Virtual::new(PageSize::Huge, (1 << 21) + 5000).vpn()), Frame(1024));
        assert!(pages.is_mapped(Virtual::new(PageSize::Base, (5 << 12) - 1)));
        assert!(!pages.is_mapped(Virtual::new(PageSize::Base, 5 << 12)));
    }

    #[test]
    fn a_walk_reads_eight_entries_a_line() {
        let pages = Pages::new(1 << 16, [1 << 27, 0, 0]).unwrap();
        let line = |page: u64, level| {
            pages.entry_line(Virtual::new(PageSize::Base, page << 12).vpn(), level)
        };
        assert_eq!(line(0, 1), line(7, 1));
        assert_eq!(line(8, 1).0, line(0, 1).0 + 1);
        assert_eq!(line(0, 2), line(8 * 512 - 1, 2));
        assert_eq!(line(8 * 512, 2).0, line(0, 2).0 + 1);
        assert_eq!(line(0, 4), line(32_767, 4));
        let lines: std::collections::BTreeSet<_> = (1..=4).map(|level| line(0, level)).collect();
        assert_eq!(lines.len(), 4);
    }

    #[test]
    fn frames_left_by_migrations_are_reused() {
        let mut pages = Pages::new(600, [4 << 12, 0, 0]).unwrap();
        let mut seen = std::collections::HashSet::new();
        for _ in 0..2000 {
            let frame = pages.destination(PageSize::Base).unwrap();
            pages.give_back(PageSize::Base, frame);
            seen.insert(frame);
        }
        assert_eq!(seen.len(), 65);
        assert!(pages.destination(PageSize::Giant).is_err());
    }

    #[test]
    fn memory_that_is_too_small_says_how_much_is_needed() {
        assert_eq!(Pages::new(256, [1 << 20, 0, 0]).unwrap_err(), TooSmall { wanted_mib: 2 });
    }
}
