//! The TLBs of a core in two levels, and the caches of its page walkers.

use crate::address::{Frame, PageSize, Vpn};
use crate::lru::Sets;
use crate::params::Params;

/// One TLB: translations of pages, by the first base page of each.
#[derive(Clone, Debug)]
pub struct Level {
    sets: Sets,
    frames: Vec<Frame>,
    mask: u32,
}

impl Level {
    /// An empty TLB.
    pub fn new(entries: u64, ways: u64) -> Level {
        let sets = Sets::new((entries / ways) as usize, ways as usize);
        let frames = vec![Frame(0); sets.slots()];
        Level { sets, frames, mask: (entries / ways) as u32 - 1 }
    }

    #[inline]
    fn set(&self, first: Vpn, size: PageSize) -> usize {
        (first.0 >> size.order() & self.mask) as usize
    }

    /// The first frame of a page, if its translation is here.
    #[inline]
    pub fn find(&mut self, first: Vpn, size: PageSize) -> Option<Frame> {
        let set = self.set(first, size);
        self.sets.touch(set, first.0).map(|slot| self.frames[slot])
    }

    /// Takes a translation that is not here.
    #[inline]
    pub fn insert(&mut self, first: Vpn, size: PageSize, frame: Frame) {
        let set = self.set(first, size);
        let (slot, _) = self.sets.insert(set, first.0, 1);
        self.frames[slot] = frame;
    }

    /// Forgets a translation. Returns whether it was here.
    pub fn invalidate(&mut self, first: Vpn, size: PageSize) -> bool {
        let found = self.sets.find(self.set(first, size), first.0);
        found.inspect(|slot| self.sets.remove(*slot)).is_some()
    }

    /// All translations.
    pub fn iter(&self) -> impl Iterator<Item = (Vpn, Frame)> + '_ {
        self.sets.iter().map(|(_, slot, key, _)| (Vpn(key), self.frames[slot]))
    }
}

/// Entries of one upper level of the page table, kept by the walkers.
#[derive(Clone, Debug)]
struct WalkCache {
    sets: Sets,
    mask: u32,
    shift: u32,
}

impl WalkCache {
    fn new(entries: u64, shift: u32) -> WalkCache {
        let ways = entries.min(16);
        let sets = entries / ways;
        WalkCache { sets: Sets::new(sets as usize, ways as usize), mask: sets as u32 - 1, shift }
    }

    fn place(&self, vpn: Vpn) -> (usize, u32) {
        let key = vpn.0 >> self.shift;
        ((key & self.mask) as usize, key)
    }

    fn has(&mut self, vpn: Vpn) -> bool {
        let (set, key) = self.place(vpn);
        self.sets.touch(set, key).is_some()
    }

    fn insert(&mut self, vpn: Vpn) {
        let (set, key) = self.place(vpn);
        if self.sets.touch(set, key).is_none() {
            self.sets.insert(set, key, 1);
        }
    }
}

/// Where a translation was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// In the first level: no time.
    First(Frame),
    /// In the second level, and now in the first.
    Second(Frame),
    /// Nowhere: a walk is needed.
    Nowhere,
}

/// The TLBs and walk caches of one core.
#[derive(Clone, Debug)]
pub struct Tlb {
    first: [Level; 3],
    second: Level,
    second_giant: Level,
    /// Caches of entries of level 2 (page directory), 3 and 4, from the lowest.
    walk: [WalkCache; 3],
}

impl Tlb {
    /// Empty TLBs.
    pub fn new(params: &Params) -> Tlb {
        let (t, w) = (&params.tlb, &params.walker);
        Tlb {
            first: [
                Level::new(t.l1_4k_entries, t.l1_4k_ways),
                Level::new(t.l1_2m_entries, t.l1_2m_ways),
                Level::new(t.l1_1g_entries, t.l1_1g_ways),
            ],
            second: Level::new(t.l2_entries, t.l2_ways),
            second_giant: Level::new(t.l2_1g_entries, t.l2_1g_ways),
            walk: [
                WalkCache::new(w.pde_entries, 9),
                WalkCache::new(w.pdpte_entries, 18),
                WalkCache::new(w.pml4_entries, 27),
            ],
        }
    }

    /// Looks a base page up in both levels.
    #[inline]
    pub fn find(&mut self, vpn: Vpn) -> Found {
        let (size, first) = (vpn.size(), vpn.first());
        match self.first[size as usize].find(first, size) {
            Some(frame) => Found::First(frame),
            None => self.find_second(first, size),
        }
    }

    fn find_second(&mut self, first: Vpn, size: PageSize) -> Found {
        match self.second_of(size).find(first, size) {
            Some(frame) => {
                self.first[size as usize].insert(first, size, frame);
                Found::Second(frame)
            }
            None => Found::Nowhere,
        }
    }

    fn second_of(&mut self, size: PageSize) -> &mut Level {
        match size {
            PageSize::Giant => &mut self.second_giant,
            PageSize::Base | PageSize::Huge => &mut self.second,
        }
    }

    /// Takes the translation that a walk found.
    pub fn fill(&mut self, vpn: Vpn, frame: Frame) {
        let (size, first) = (vpn.size(), vpn.first());
        self.first[size as usize].insert(first, size, frame);
        self.second_of(size).insert(first, size, frame);
    }

    /// The highest level of the page table that a walk for `vpn` has to read: 1 for the lowest
    /// table of base pages alone, 4 for all. What it reads on the way is kept.
    pub fn walk_from(&mut self, vpn: Vpn) -> u32 {
        let leaf = vpn.size() as usize + 1;
        let mut top = 4;
        // walk[i] keeps entries of level i + 2, which spare reading that level and those above.
        for at in (leaf - 1)..3 {
            if self.walk[at].has(vpn) {
                top = at + 1;
                break;
            }
        }
        for at in (leaf - 1)..3 {
            self.walk[at].insert(vpn);
        }
        top as u32
    }

    /// `INVLPG`: forgets the page of `vpn`, and all that the walkers keep (Intel SDM volume 3,
    /// 4.10.4.1). Returns whether a translation was here.
    pub fn invalidate(&mut self, vpn: Vpn) -> bool {
        let (size, first) = (vpn.size(), vpn.first());
        self.walk.iter_mut().for_each(|cache| cache.sets.clear());
        let in_first = self.first[size as usize].invalidate(first, size);
        let in_second = self.second_of(size).invalidate(first, size);
        in_first || in_second
    }

    /// All translations, of both levels.
    pub fn iter(&self) -> impl Iterator<Item = (Vpn, Frame)> + '_ {
        let second = self.second.iter().chain(self.second_giant.iter());
        self.first.iter().flat_map(Level::iter).chain(second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Virtual;

    fn page(size: PageSize, number: u64) -> Vpn {
        Virtual::new(size, number << (12 + size.order())).vpn()
    }

    fn small() -> Tlb {
        let text = "[tlb]\nl1_4k_entries = 2\nl1_4k_ways = 2\nl2_entries = 4\nl2_ways = 4\n\
                    [walker]\npde_entries = 1\npdpte_entries = 1\npml4_entries = 1";
        Tlb::new(&Params::read(text).unwrap())
    }

    #[test]
    fn the_second_level_keeps_what_the_first_forgets() {
        let mut tlb = small();
        let pages: Vec<Vpn> = (0..5).map(|number| page(PageSize::Base, number)).collect();
        for (number, vpn) in pages.iter().enumerate() {
            assert_eq!(tlb.find(*vpn), Found::Nowhere);
            tlb.fill(*vpn, Frame(100 + number as u32));
        }
        assert_eq!(tlb.find(pages[4]), Found::First(Frame(104)));
        assert_eq!(tlb.find(pages[1]), Found::Second(Frame(101)));
        assert_eq!(tlb.find(pages[1]), Found::First(Frame(101)));
        assert_eq!(tlb.find(pages[0]), Found::Nowhere, "four entries, five pages");
    }

    #[test]
    fn sizes_share_the_second_level_and_are_not_taken_for_each_other() {
        let mut tlb = small();
        let vpns = PageSize::ALL.map(|size| page(size, 0));
        for (at, vpn) in vpns.iter().enumerate() {
            tlb.fill(*vpn, Frame(at as u32));
        }
        for (at, vpn) in vpns.iter().enumerate() {
            assert_eq!(tlb.find(*vpn), Found::First(Frame(at as u32)));
        }
        let within = Virtual::new(PageSize::Huge, 0x1F_F123).vpn();
        assert_eq!(tlb.find(within), Found::First(Frame(1)), "any base page of a huge page");
    }

    #[test]
    fn walks_read_what_the_walkers_do_not_keep() {
        let mut tlb = small();
        let base = |number| page(PageSize::Base, number);
        assert_eq!(tlb.walk_from(base(0)), 4, "nothing kept");
        assert_eq!(tlb.walk_from(base(511)), 1, "same page directory entry");
        assert_eq!(tlb.walk_from(base(512)), 2, "same entry one level up");
        assert_eq!(tlb.walk_from(base(1 << 18)), 3);
        assert_eq!(tlb.walk_from(base(1 << 27)), 4);
        assert_eq!(tlb.walk_from(page(PageSize::Huge, 0)), 4, "another arena");
        assert_eq!(tlb.walk_from(page(PageSize::Huge, 511)), 2, "its leaf is at level 2");
        assert_eq!(tlb.walk_from(page(PageSize::Giant, 0)), 4);
        assert_eq!(tlb.walk_from(page(PageSize::Giant, 1)), 3);
    }

    #[test]
    fn invalidation_empties_both_levels_and_the_walk_caches() {
        let mut tlb = small();
        let vpn = page(PageSize::Base, 3);
        tlb.walk_from(vpn);
        tlb.fill(vpn, Frame(9));
        assert!(tlb.invalidate(vpn));
        assert_eq!(tlb.find(vpn), Found::Nowhere);
        assert_eq!(tlb.walk_from(vpn), 4);
        assert!(!tlb.invalidate(vpn));
        assert_eq!(tlb.iter().count(), 0);
    }
}
