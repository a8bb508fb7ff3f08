//! TLBs, walk caches and walks: what one access costs, and what many do on average.

use serde::Serialize;

use super::hardware::{Hardware, Shape};
use prairie_model::random::Random;

/// The size of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum PageSize {
    /// 4 KiB.
    Base = 0,
    /// 2 MiB.
    Huge = 1,
    /// 1 GiB.
    Gigantic = 2,
}

impl PageSize {
    /// Its size in pages of 4 KiB, as a power of two.
    pub const fn order(self) -> u32 {
        9 * self as u32
    }
}

/// Tags in sets, the one not used for longest replaced.
#[derive(Clone, Debug)]
struct Lru {
    ways: usize,
    /// Set by set, the latest used first.
    tags: Vec<u64>,
}

const EMPTY: u64 = u64::MAX;

impl Lru {
    fn new(shape: Shape) -> Lru {
        Lru { ways: shape.ways as usize, tags: vec![EMPTY; shape.entries as usize] }
    }

    /// Whether `tag` was there; it is from now on.
    fn touch(&mut self, tag: u64) -> bool {
        let sets = (self.tags.len() / self.ways) as u64;
        let first = (tag % sets) as usize * self.ways;
        let set = &mut self.tags[first..first + self.ways];
        let found = set.iter().position(|&held| held == tag);
        let at = found.unwrap_or(set.len() - 1);
        set[..=at].rotate_right(1);
        set[0] = tag;
        found.is_some()
    }
}

/// A core's translations.
#[derive(Clone, Debug)]
pub struct Translator {
    hardware: Hardware,
    l1: [Lru; 3],
    l2: Lru,
    l2_gigantic: Lru,
    /// Entries of level 1 (page directories), 2 and 3.
    walk_caches: [Lru; 3],
    lines: [Lru; 2],
}

/// What translations took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    /// Translations asked for.
    pub translations: u64,
    /// Those found in the second-level TLB.
    pub l2_hits: u64,
    /// Those walked for.
    pub walks: u64,
    /// Page-table entries read in walks.
    pub reads: u64,
    /// Cycles, before any is hidden.
    pub cycles: f64,
}

impl Cost {
    /// Cycles of walks, without those of the second-level TLB.
    pub fn walk_cycles(&self, hardware: &Hardware) -> f64 {
        self.cycles - hardware.l2_cycles * (self.l2_hits + self.walks) as f64
    }
}

impl Translator {
    /// A core that has translated nothing yet.
    pub fn new(hardware: &Hardware) -> Translator {
        let any = |entries| Lru::new(Shape { entries, ways: entries });
        Translator {
            hardware: *hardware,
            l1: hardware.l1.map(Lru::new),
            l2: Lru::new(hardware.l2),
            l2_gigantic: Lru::new(hardware.l2_gigantic),
            walk_caches: hardware.walk_caches.map(any),
            lines: hardware.lines.map(Lru::new),
        }
    }

    /// Translates the address of `page`, counted in 4 KiB, which lies in a page of `size`.
    pub fn translate(&mut self, page: u64, size: PageSize, cost: &mut Cost) {
        cost.translations += 1;
        let number = page >> size.order();
        if self.l1[size as usize].touch(number) {
            return;
        }
        let in_l2 = match size {
            PageSize::Gigantic => self.l2_gigantic.touch(number),
            // Entries of both sizes share the sets: a bit beyond any address tells them apart.
            _ => self.l2.touch(number | u64::from(size == PageSize::Huge) << 52),
        };
        cost.cycles += self.hardware.l2_cycles;
        if in_l2 {
            cost.l2_hits += 1;
            return;
        }
        cost.walks += 1;
        // Level 0 maps 4 KiB, 1 maps 2 MiB, 2 maps 1 GiB, 3 is the root. A walk reads from the
        // entry below the lowest one that a walk cache knows, down to the page's own.
        let leaf = size as u32;
        let known = (leaf + 1..=3)
            .find(|&level| self.walk_caches[level as usize - 1].touch(page >> (9 * level)));
        for level in (leaf..known.unwrap_or(4)).rev() {
            cost.reads += 1;
            cost.cycles += self.read(page >> (9 * level), level);
        }
    }

    /// Cycles to read entry `entry` of a level: eight lie in a cache line.
    fn read(&mut self, entry: u64, level: u32) -> f64 {
        let line = entry >> 3 | u64::from(level) << 56;
        let in_l2 = self.lines[0].touch(line);
        let in_llc = self.lines[1].touch(line);
        let at = if in_l2 { 0 } else { 2 - usize::from(in_llc) };
        self.hardware.read_cycles[at]
    }
}

/// A program's way to use its memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Accesses {
    /// Its memory, in pages of 4 KiB.
    pub pages: u64,
    /// Exponent of the skew: how often the page of rank `r` is visited falls with `r` to this
    /// power. More than 0 and not 1.
    pub skew: f64,
    /// Neighboring pages that are as hot as each other, as a power of two: objects of a size lie
    /// together, what a request touches does not.
    pub cluster_order: u32,
    /// Cycles that the program computes between two visits to pages, beyond translation.
    pub cycles_between: f64,
}

/// The mapping of pages to larger ones.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Backing {
    /// Share of memory in pages of 2 MiB.
    pub huge: f64,
    /// The same of 1 GiB.
    pub gigantic: f64,
}

impl Backing {
    /// Nothing but pages of 4 KiB.
    pub const BASE: Backing = Backing { huge: 0.0, gigantic: 0.0 };

    /// The size of the page that contains a page of 4 KiB. Gigantic pages come first in address
    /// order; which aligned 2 MiB are huge is chance, the same each time.
    fn size_of(&self, page: u64, pages: u64) -> PageSize {
        let gigantic = (self.gigantic * pages as f64 / 262_144.0).round() as u64;
        if page >> 18 < gigantic {
            return PageSize::Gigantic;
        }
        let of_rest = self.huge / (1.0 - self.gigantic).max(1e-9);
        let chance = scatter(page >> 9) >> 11;
        match (chance as f64) < of_rest * (1u64 << 53) as f64 {
            true => PageSize::Huge,
            false => PageSize::Base,
        }
    }
}

/// Numbers without pattern, the same for the same input (the finaliser of SplitMix64).
fn scatter(value: u64) -> u64 {
    let mut mixed = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

impl Accesses {
    /// The page of the next visit.
    fn next(&self, random: &mut Random) -> u64 {
        let clusters = (self.pages >> self.cluster_order).max(1);
        // The inverse of the distribution function of the continuous power law from 1 to the
        // number of clusters plus one.
        let power = 1.0 - self.skew;
        let most = ((clusters + 1) as f64).powf(power);
        let rank = (1.0 + random.share() * (most - 1.0)).powf(1.0 / power) as u64;
        let cluster = scatter(rank.clamp(1, clusters)) % clusters;
        let within = random.below(1 << self.cluster_order);
        (cluster << self.cluster_order | within).min(self.pages - 1)
    }

    /// What `visits` cost on average after as many that warm everything up. The same seed gives
    /// the same visits whatever the backing.
    pub fn cost(&self, hardware: &Hardware, backing: &Backing, visits: u64, seed: u64) -> Cost {
        let mut translator = Translator::new(hardware);
        let mut random = Random::new(seed);
        let (mut warm, mut cost) = (Cost::default(), Cost::default());
        for visit in 0..2 * visits {
            let page = self.next(&mut random);
            let counted = if visit < visits { &mut warm } else { &mut cost };
            translator.translate(page, backing.size_of(page, self.pages), counted);
        }
        cost
    }

    /// Share of all cycles for which translations hold the program up.
    pub fn share(&self, hardware: &Hardware, cost: &Cost) -> f64 {
        let stalled = cost.cycles * hardware.exposed / cost.translations.max(1) as f64;
        stalled / (stalled + self.cycles_between)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accesses(pages: u64) -> Accesses {
        Accesses { pages, skew: 0.8, cluster_order: 2, cycles_between: 100.0 }
    }

    #[test]
    fn the_least_recently_used_goes() {
        let mut lru = Lru::new(Shape { entries: 4, ways: 2 });
        assert_eq!(
            [2, 4, 2, 6, 2, 4].map(|tag| lru.touch(tag)),
            [false, false, true, false, true, false]
        );
        assert!(!lru.touch(1), "another set");
        assert!(lru.touch(2) && lru.touch(1));
    }

    /// Worked by hand: a cold walk of four levels reads four entries from memory; its neighbor
    /// finds the page directory's entry in the walk cache and its own in the line just read.
    #[test]
    fn a_walk_reads_what_no_cache_knows() {
        let hardware = Hardware::default();
        let mut translator = Translator::new(&hardware);
        let mut cost = Cost::default();
        translator.translate(0, PageSize::Base, &mut cost);
        assert_eq!((cost.walks, cost.reads), (1, 4));
        assert_eq!(cost.cycles, 9.0 + 4.0 * 225.0);
        translator.translate(1, PageSize::Base, &mut cost);
        assert_eq!((cost.walks, cost.reads), (2, 5));
        assert_eq!(cost.cycles, 2.0 * 9.0 + 4.0 * 225.0 + 14.0);
        translator.translate(1, PageSize::Base, &mut cost);
        assert_eq!(cost.cycles, 2.0 * 9.0 + 4.0 * 225.0 + 14.0, "first-level hit");
        assert_eq!(cost.walk_cycles(&hardware), 4.0 * 225.0 + 14.0);
        // 2 MiB and 1 GiB pages need one and two reads less from the root.
        for (size, reads) in [(PageSize::Huge, 3), (PageSize::Gigantic, 2)] {
            let (mut cold, mut cost) = (Translator::new(&hardware), Cost::default());
            cold.translate(1 << 30, size, &mut cost);
            assert_eq!(cost.reads, reads);
        }
    }

    /// What fits into the TLB costs nothing; what does not costs less in larger pages.
    #[test]
    fn larger_pages_cost_less() {
        let hardware = Hardware::default();
        let small = accesses(64).cost(&hardware, &Backing::BASE, 10_000, 1);
        assert_eq!(small.walks, 0, "{small:?}");
        let large = accesses(8 << 18);
        let backings = [
            Backing::BASE,
            Backing { huge: 0.5, gigantic: 0.0 },
            Backing { huge: 1.0, gigantic: 0.0 },
            Backing { huge: 0.0, gigantic: 1.0 },
        ];
        let shares = backings
            .map(|backing| large.share(&hardware, &large.cost(&hardware, &backing, 50_000, 1)));
        assert!(shares.windows(2).all(|pair| pair[0] > pair[1]), "{shares:?}");
        assert!(shares[0] < 1.0 && shares[3] >= 0.0);
    }

    /// The most visited ranks get their share, and every page is of the program.
    #[test]
    fn visits_are_skewed_and_stay_inside() {
        let program = Accesses { cluster_order: 0, ..accesses(1000) };
        let mut random = Random::new(3);
        let mut visits = vec![0u32; 1000];
        (0..100_000).for_each(|_| visits[program.next(&mut random) as usize] += 1);
        visits.sort_unstable_by(|a, b| b.cmp(a));
        let top: u32 = visits[..100].iter().sum();
        // The law's own: (101^0.2 - 1) / (1001^0.2 - 1), and some for ranks that share a page.
        assert!((48_000..62_000).contains(&top), "{top}");
    }

    #[test]
    fn as_much_is_huge_as_was_said() {
        let backing = Backing { huge: 0.3, gigantic: 0.25 };
        let pages = 16 << 18;
        let of = |size| {
            let all = (0..pages).step_by(512).filter(|&page| backing.size_of(page, pages) == size);
            all.count() as f64 * 512.0 / pages as f64
        };
        assert_eq!(of(PageSize::Gigantic), 0.25);
        assert!((of(PageSize::Huge) - 0.3).abs() < 0.02, "{}", of(PageSize::Huge));
        assert!((of(PageSize::Base) - 0.45).abs() < 0.02);
    }
}
