//! The TLBs of the cores in two levels, and the caches of their page walkers.

use crate::address::{Frame, PageSize, Vpn};
use crate::geometry::Geometry;
use crate::lru::{Fours, MAX_WAYS, Place, Sets, Shape};
use crate::params::Params;
use prairie_hostmem::{Array, prefetch};

/// One level of TLB in several parts, one for each core: translations of pages, by the first base
/// page of each.
#[derive(Clone, Debug)]
pub struct Level<S: Shape> {
    sets: Sets<S>,
    frames: Array<u32>,
    /// Sets of a part.
    of_part: usize,
}

impl<S: Shape> Level<S> {
    /// `parts` empty TLBs.
    pub fn new(parts: usize, entries: u64, ways: u64) -> Level<S> {
        let of_part = (entries / ways) as usize;
        let sets = Sets::new(parts * of_part, ways as usize, 2);
        let frames = Array::zeroed(sets.slots());
        Level { sets, frames, of_part }
    }

    #[inline(always)]
    fn place(&self, part: usize, first: Vpn, size: PageSize) -> Place {
        let set = (first.0 >> size.order()) as usize & (self.of_part - 1);
        Place { set: part * self.of_part + set, key: first.0 << 2 }
    }

    /// The first frame of a page, if its translation is here.
    #[inline(always)]
    pub fn find(&mut self, part: usize, first: Vpn, size: PageSize) -> Option<Frame> {
        let place = self.place(part, first, size);
        self.sets.touch(place).map(|slot| Frame(self.frames[slot.index()]))
    }

    /// Has what a look-up reads brought into the host's cache.
    #[inline]
    pub fn prefetch(&self, part: usize, first: Vpn, size: PageSize) {
        let set = self.place(part, first, size).set;
        self.sets.prefetch(set);
        prefetch(&self.frames, set * MAX_WAYS);
    }

    /// Takes a translation that is not here.
    #[inline(always)]
    pub fn insert(&mut self, part: usize, first: Vpn, size: PageSize, frame: Frame) {
        let (slot, _) = self.sets.insert(self.place(part, first, size), 1, 0);
        self.frames[slot.index()] = frame.0;
    }

    /// Forgets a translation. Returns whether it was here.
    pub fn invalidate(&mut self, part: usize, first: Vpn, size: PageSize) -> bool {
        let found = self.sets.find(self.place(part, first, size));
        found.inspect(|slot| self.sets.remove(*slot)).is_some()
    }

    /// All translations of all parts.
    pub fn iter(&self) -> impl Iterator<Item = (Vpn, Frame)> + '_ {
        self.sets.iter().map(|(_, slot, key, _)| (Vpn(key >> 2), Frame(self.frames[slot.index()])))
    }
}

/// Entries of one upper level of the page table, kept by the walkers of each core.
#[derive(Clone, Debug)]
struct WalkCache {
    sets: Sets<Fours<4>>,
    /// Sets of a core.
    of_core: usize,
    shift: u32,
    /// The key that each core used last, whose use again changes nothing. One that no address has
    /// if there is none.
    used_last: Vec<u32>,
}

impl WalkCache {
    fn new(cores: usize, entries: u64, shift: u32) -> WalkCache {
        let ways = entries.min(16);
        let of_core = (entries / ways) as usize;
        let sets = Sets::new(cores * of_core, ways as usize, 2);
        WalkCache { sets, of_core, shift, used_last: vec![u32::MAX; cores] }
    }

    #[inline(always)]
    fn place(&self, core: usize, vpn: Vpn) -> Place {
        let entry = vpn.0 >> self.shift;
        let set = core * self.of_core + (entry as usize & (self.of_core - 1));
        Place { set, key: entry << 2 }
    }

    /// Uses the entry for `vpn`, which is kept from now on. Returns whether it was here.
    #[inline(always)]
    fn take(&mut self, core: usize, vpn: Vpn) -> bool {
        let place = self.place(core, vpn);
        let last = std::mem::replace(&mut self.used_last[core], place.key);
        last == place.key || self.sets.take(place)
    }

    fn clear(&mut self, core: usize) {
        self.used_last[core] = u32::MAX;
        self.sets.clear(core * self.of_core..(core + 1) * self.of_core);
    }
}

/// The TLBs and walk caches of all cores.
#[derive(Clone, Debug)]
pub struct Tlbs<G: Geometry> {
    cores: usize,
    first: [Level<G::FirstTlb>; 3],
    second: Level<G::SecondTlb>,
    second_giant: Level<G::SecondTlb>,
    /// Caches of entries of level 2 (page directory), 3 and 4, from the lowest.
    walk: [WalkCache; 3],
}

impl<G: Geometry> Tlbs<G> {
    /// Empty TLBs.
    pub fn new(params: &Params) -> Tlbs<G> {
        let (t, w) = (&params.tlb, &params.walker);
        let cores = params.cores.count as usize;
        Tlbs {
            cores,
            first: [
                Level::new(cores, t.l1_4k_entries, t.l1_4k_ways),
                Level::new(cores, t.l1_2m_entries, t.l1_2m_ways),
                Level::new(cores, t.l1_1g_entries, t.l1_1g_ways),
            ],
            second: Level::new(cores, t.l2_entries, t.l2_ways),
            second_giant: Level::new(cores, t.l2_1g_entries, t.l2_1g_ways),
            walk: [
                WalkCache::new(cores, w.pde_entries, 9),
                WalkCache::new(cores, w.pdpte_entries, 18),
                WalkCache::new(cores, w.pml4_entries, 27),
            ],
        }
    }

    /// How many cores there are.
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// Looks the page that begins at `first` up in the first level of a core.
    #[inline(always)]
    pub fn find_first(&mut self, core: usize, first: Vpn, size: PageSize) -> Option<Frame> {
        self.first[size as usize].find(core, first, size)
    }

    /// Looks a page that the first level does not have up in the second; the first has it then.
    #[inline(always)]
    pub fn find_second(&mut self, core: usize, first: Vpn, size: PageSize) -> Option<Frame> {
        let frame = self.second_of(size).find(core, first, size)?;
        self.first[size as usize].insert(core, first, size, frame);
        Some(frame)
    }

    #[inline(always)]
    fn second_of(&mut self, size: PageSize) -> &mut Level<G::SecondTlb> {
        match size {
            PageSize::Giant => &mut self.second_giant,
            PageSize::Base | PageSize::Huge => &mut self.second,
        }
    }

    /// Has what a look-up in the second level reads brought into the host's cache.
    #[inline(always)]
    pub fn prefetch_second(&self, core: usize, vpn: Vpn) {
        self.second.prefetch(core, vpn.first(), vpn.size());
    }

    /// Takes the translation that a walk of a core found.
    #[inline(always)]
    pub fn fill(&mut self, core: usize, first: Vpn, size: PageSize, frame: Frame) {
        self.first[size as usize].insert(core, first, size, frame);
        self.second_of(size).insert(core, first, size, frame);
    }

    /// The highest level of the page table that a walk for a page has to read: 1 for the lowest
    /// table of base pages alone, 4 for all. What it reads on the way is kept.
    #[inline(always)]
    pub fn walk_from(&mut self, core: usize, first: Vpn, size: PageSize) -> u32 {
        let leaf = size as usize + 1;
        // walk[i] keeps entries of level i + 2, which spare reading that level and those above. No
        // loop: each of them is predicted by itself.
        let [pde, pdpte, pml4] = &mut self.walk;
        let mut top = if pml4.take(core, first) { 3 } else { 4 };
        if leaf <= 2 && pdpte.take(core, first) {
            top = 2;
        }
        if leaf <= 1 && pde.take(core, first) {
            top = 1;
        }
        top
    }

    /// `INVLPG` on a core: forgets the page of `vpn`, and all that its walkers keep (Intel SDM
    /// volume 3, 4.10.4.1). Returns whether a translation was here.
    pub fn invalidate(&mut self, core: usize, vpn: Vpn) -> bool {
        let (size, first) = (vpn.size(), vpn.first());
        self.walk.iter_mut().for_each(|cache| cache.clear(core));
        let in_first = self.first[size as usize].invalidate(core, first, size);
        let in_second = self.second_of(size).invalidate(core, first, size);
        in_first || in_second
    }

    /// All translations, of both levels and all cores.
    pub fn iter(&self) -> impl Iterator<Item = (Vpn, Frame)> + '_ {
        let second = self.second.iter().chain(self.second_giant.iter());
        self.first.iter().flat_map(Level::iter).chain(second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Virtual;
    use crate::geometry::Any;

    fn page(size: PageSize, number: u64) -> Vpn {
        Virtual::new(size, number << (12 + size.order())).vpn()
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Lookup {
        First(Frame),
        Second(Frame),
        Nowhere,
    }

    fn find(tlb: &mut Tlbs<Any>, core: usize, vpn: Vpn) -> Lookup {
        let (first, size) = (vpn.first(), vpn.size());
        let found = tlb.find_first(core, first, size).map(Lookup::First);
        let second = || tlb.find_second(core, first, size).map(Lookup::Second);
        found.or_else(second).unwrap_or(Lookup::Nowhere)
    }

    fn fill(tlb: &mut Tlbs<Any>, core: usize, vpn: Vpn, frame: Frame) {
        tlb.fill(core, vpn.first(), vpn.size(), frame);
    }

    fn walk_from(tlb: &mut Tlbs<Any>, core: usize, vpn: Vpn) -> u32 {
        tlb.walk_from(core, vpn.first(), vpn.size())
    }

    fn small() -> Tlbs<Any> {
        let text = "[cores]\ncount = 2\n[tlb]\nl1_4k_entries = 2\nl1_4k_ways = 2\nl2_entries = 4\nl2_ways = 4\n\
                    [walker]\npde_entries = 1\npdpte_entries = 1\npml4_entries = 1";
        Tlbs::new(&Params::read(text).unwrap())
    }

    #[test]
    fn the_second_level_keeps_what_the_first_forgets() {
        let mut tlb = small();
        let pages: Vec<Vpn> = (0..5).map(|number| page(PageSize::Base, number)).collect();
        for (number, vpn) in pages.iter().enumerate() {
            assert_eq!(find(&mut tlb, 1, *vpn), Lookup::Nowhere);
            fill(&mut tlb, 1, *vpn, Frame(100 + number as u32));
        }
        assert_eq!(find(&mut tlb, 1, pages[4]), Lookup::First(Frame(104)));
        assert_eq!(find(&mut tlb, 1, pages[1]), Lookup::Second(Frame(101)));
        assert_eq!(find(&mut tlb, 1, pages[1]), Lookup::First(Frame(101)));
        assert_eq!(find(&mut tlb, 1, pages[0]), Lookup::Nowhere, "four entries, five pages");
    }

    #[test]
    fn sizes_share_the_second_level_and_are_not_taken_for_each_other() {
        let mut tlb = small();
        let vpns = PageSize::ALL.map(|size| page(size, 0));
        for (at, vpn) in vpns.iter().enumerate() {
            fill(&mut tlb, 1, *vpn, Frame(at as u32));
        }
        for (at, vpn) in vpns.iter().enumerate() {
            assert_eq!(find(&mut tlb, 1, *vpn), Lookup::First(Frame(at as u32)));
        }
        let within = Virtual::new(PageSize::Huge, 0x1F_F123).vpn();
        assert_eq!(
            find(&mut tlb, 1, within),
            Lookup::First(Frame(1)),
            "any base page of a huge page"
        );
    }

    #[test]
    fn walks_read_what_the_walkers_do_not_keep() {
        let mut tlb = small();
        let base = |number| page(PageSize::Base, number);
        assert_eq!(walk_from(&mut tlb, 1, base(0)), 4, "nothing kept");
        assert_eq!(walk_from(&mut tlb, 1, base(511)), 1, "same page directory entry");
        assert_eq!(walk_from(&mut tlb, 1, base(512)), 2, "same entry one level up");
        assert_eq!(walk_from(&mut tlb, 1, base(1 << 18)), 3);
        assert_eq!(walk_from(&mut tlb, 1, base(1 << 27)), 4);
        assert_eq!(walk_from(&mut tlb, 1, page(PageSize::Huge, 0)), 4, "another arena");
        assert_eq!(walk_from(&mut tlb, 1, page(PageSize::Huge, 511)), 2, "its leaf is at level 2");
        assert_eq!(walk_from(&mut tlb, 1, page(PageSize::Giant, 0)), 4);
        assert_eq!(walk_from(&mut tlb, 1, page(PageSize::Giant, 1)), 3);
    }

    #[test]
    fn invalidation_empties_both_levels_and_the_walk_caches() {
        let mut tlb = small();
        let vpn = page(PageSize::Base, 3);
        walk_from(&mut tlb, 1, vpn);
        fill(&mut tlb, 1, vpn, Frame(9));
        assert!(tlb.invalidate(1, vpn));
        assert_eq!(find(&mut tlb, 1, vpn), Lookup::Nowhere);
        assert_eq!(walk_from(&mut tlb, 1, vpn), 4);
        assert!(!tlb.invalidate(1, vpn));
        assert_eq!(tlb.iter().count(), 0);
    }

    #[test]
    fn cores_have_tlbs_and_walk_caches_of_their_own() {
        let mut tlb = small();
        let vpn = page(PageSize::Base, 3);
        walk_from(&mut tlb, 0, vpn);
        fill(&mut tlb, 0, vpn, Frame(9));
        assert_eq!((find(&mut tlb, 1, vpn), walk_from(&mut tlb, 1, vpn)), (Lookup::Nowhere, 4));
        tlb.invalidate(1, vpn);
        assert_eq!(
            (find(&mut tlb, 0, vpn), walk_from(&mut tlb, 0, vpn)),
            (Lookup::First(Frame(9)), 1)
        );
    }
}
