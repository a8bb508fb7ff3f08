//! Multigenerational LRU: pages by when they were last seen used (`lru_gen`).
//!
//! Up to four generations of each kind. An aging step scans all pages: those used since the
//! last one join the youngest generation, and a new one begins. Eviction takes from the oldest.

use super::{Container, Place};
use crate::lists::Lists;
use prairie_sim::machine::lru::Kind;

/// Generations that can be distinguished (`MAX_NR_GENS`).
const MAX_GENERATIONS: u64 = 4;

/// Fewer than this, and pages have to age before any may go (`MIN_NR_GENS`).
const MIN_GENERATIONS: u64 = 2;

/// Lists that generations of both kinds take.
pub(super) const LISTS: u8 = 2 * MAX_GENERATIONS as u8;

/// Which generations there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Generations {
    /// The oldest: anonymous, file.
    oldest: [u64; 2],
    /// The youngest.
    youngest: u64,
    /// When each began, by its number modulo [`MAX_GENERATIONS`], in seconds.
    began_s: [f64; MAX_GENERATIONS as usize],
    /// Recently reclaimed and recently refaulted pages: anonymous, file.
    taken: [u64; 2],
    returned: [u64; 2],
}

impl Default for Generations {
    fn default() -> Generations {
        Generations {
            oldest: [0; 2],
            youngest: 1,
            began_s: [0.0; MAX_GENERATIONS as usize],
            taken: [0; 2],
            returned: [0; 2],
        }
    }
}

impl Generations {
    fn list(generation: u64, file: bool) -> u8 {
        (generation % MAX_GENERATIONS) as u8 * 2 + u8::from(file)
    }

    /// Pages that come in go to the youngest generation if they are known to be in use, else to
    /// the oldest but one.
    pub fn list_for_new(&self, file: bool, in_use: bool) -> u8 {
        let second = self.oldest[usize::from(file)] + 1;
        let generation = if in_use { self.youngest } else { second.min(self.youngest) };
        Generations::list(generation, file)
    }

    /// Counts a refault. Returns whether the kernel counts the wait as a stall: if the page was in
    /// use.
    pub fn refaulted(&mut self, file: bool, workingset: bool) -> bool {
        self.returned[usize::from(file)] += 1;
        workingset
    }

    /// Pages that would be on one of the classic lists: the two youngest generations are active.
    pub fn size_as(&self, lists: &Lists, kind: Kind) -> u64 {
        let file = kind.is_file();
        (self.oldest[usize::from(file)]..=self.youngest)
            .filter(|generation| kind.is_active() == (generation + MIN_GENERATIONS > self.youngest))
            .map(|generation| lists.size(Generations::list(generation, file)))
            .sum()
    }

    /// The kind to reclaim next: the one whose oldest generation is older, then the one with fewer
    /// refaults, weighed by swappiness.
    fn next_kind(&self, swappiness: u64) -> bool {
        let [anon, file] = self.oldest;
        if anon != file {
            return file < anon;
        }
        let rate = |kind: usize| (self.returned[kind] + 1) as f64 / (self.taken[kind] + 1) as f64;
        rate(1) / (200 - swappiness.min(199)) as f64 <= rate(0) / swappiness.max(1) as f64
    }
}

impl Container {
    /// Begins a generation: all pages that were used join the youngest (`+` of `lru_gen`).
    pub fn begin_generation(&mut self) {
        for kind in [0, 1] {
            if self.generations.youngest + 1 - self.generations.oldest[kind] >= MAX_GENERATIONS {
                self.fold_oldest(kind == 1);
            }
        }
        for number in 0..self.pages.len() as u32 {
            let page = self.pages[number as usize];
            if page.place == Place::Resident && self.take_accessed(number) {
                self.lists.remove(number);
                self.pages[number as usize].workingset = true;
                self.lists.push(Generations::list(self.generations.youngest, page.file), number);
            }
        }
        let generations = &mut self.generations;
        generations.youngest += 1;
        generations.began_s[(generations.youngest % MAX_GENERATIONS) as usize] = self.now_s;
        generations.taken = generations.taken.map(|count| count / 2);
        generations.returned = generations.returned.map(|count| count / 2);
    }

    /// Puts what is in the oldest generation into the next one.
    fn fold_oldest(&mut self, file: bool) {
        let oldest = self.generations.oldest[usize::from(file)];
        let (from, to) = (Generations::list(oldest, file), Generations::list(oldest + 1, file));
        while let Some(number) = self.lists.oldest(from) {
            self.lists.remove(number);
            self.lists.push(to, number);
        }
        self.generations.oldest[usize::from(file)] += 1;
    }

    /// When the generation after this one began: since then its pages were not seen used.
    fn idle_since_s(&self, generation: u64) -> f64 {
        self.generations.began_s[((generation + 1) % MAX_GENERATIONS) as usize]
    }

    /// The oldest generation of a kind, if all its pages have been idle for `age_s`.
    fn old_enough(&self, file: bool, age_s: f64) -> Option<u64> {
        let oldest = self.generations.oldest[usize::from(file)];
        let idle =
            oldest < self.generations.youngest && self.now_s - self.idle_since_s(oldest) >= age_s;
        idle.then_some(oldest)
    }

    /// Bytes in generations that have been idle for `age_s`.
    pub fn idle_bytes(&self, age_s: f64) -> u64 {
        let idle = |file: bool| -> u64 {
            (self.generations.oldest[usize::from(file)]..self.generations.youngest)
                .filter(|generation| self.now_s - self.idle_since_s(*generation) >= age_s)
                .map(|generation| self.lists.size(Generations::list(generation, file)))
                .sum()
        };
        (idle(false) + idle(true)) * self.real_pages() * 4096
    }

    /// Evicts up to `bytes` of what has been idle for `age_s` (`-` of `lru_gen`).
    pub fn evict_idle(&mut self, bytes: u64, age_s: f64, file_only: bool) -> u64 {
        let before = self.taken_pages();
        let wanted = bytes / 4096;
        for file in [true, false] {
            while (file || !file_only)
                && self.taken_pages() - before < wanted
                && let Some(oldest) = self.old_enough(file, age_s)
            {
                match self.lists.oldest(Generations::list(oldest, file)) {
                    Some(number) => self.look_at_oldest(number),
                    None if self.generations.youngest - oldest >= MIN_GENERATIONS => {
                        self.fold_oldest(file)
                    }
                    None => break,
                }
            }
        }
        let taken = self.taken_pages() - before;
        self.counters.reclaim_us += taken as f64 * self.made.kernel.reclaim_page_s * 1e6;
        taken * 4096
    }

    /// Reclaim without regard to age: from the oldest generation, beginning new ones as they run
    /// out.
    pub(crate) fn evict_generations(&mut self, wanted: u64, file_only: bool) {
        let before = self.taken_pages();
        // Once around all generations finds whatever can go.
        let mut begun = 0;
        while self.taken_pages() - before < wanted && begun <= MAX_GENERATIONS {
            let file = file_only
                || !self.has_room()
                || self.generations.next_kind(self.made.kernel.swappiness);
            let oldest = self.generations.oldest[usize::from(file)];
            if let Some(number) = self.lists.oldest(Generations::list(oldest, file)) {
                self.look_at_oldest(number);
            } else if self.generations.youngest - oldest >= MIN_GENERATIONS {
                self.fold_oldest(file);
            } else {
                self.begin_generation();
                begun += 1;
            }
        }
    }

    fn look_at_oldest(&mut self, number: u32) {
        self.counters.scanned += self.real_pages();
        let file = self.pages[number as usize].file;
        if self.take_accessed(number) {
            self.lists.remove(number);
            self.lists.push(Generations::list(self.generations.youngest, file), number);
        } else if let Some(place) = self.place_for(number) {
            self.generations.taken[usize::from(file)] += 1;
            self.evict(number, place);
        } else {
            self.lists.remove(number);
            self.lists.push(Generations::list(self.generations.youngest, file), number);
        }
    }
}
