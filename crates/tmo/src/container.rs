//! A container: pages that are touched, taken away, and waited for.
//!
//! A page of the model stands for several real ones, which are touched, taken and read together;
//! all counters count real pages. Time passes from one [`Container::advance`] to the next.

mod generations;
#[cfg(test)]
mod invariants;
mod observe;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::access::Rhythm;
use super::backend::{Backend, PAGE, Ssd};
use super::kernel::{Balance, Kernel};
use super::lists::Lists;
use prairie_model::random::Random;
use prairie_sim::machine::lru::Kind;

/// Where a page's contents are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In memory.
    Resident,
    /// In the compressed pool.
    Zswap,
    /// On the swap device.
    Device,
    /// In its file.
    File,
}

/// A page of the model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    pub rhythm: Rhythm,
    pub file: bool,
    /// Seen used when it was last scanned as an inactive page (`PG_referenced`).
    pub referenced: bool,
    /// Was on the active list (`PG_workingset`).
    pub workingset: bool,
    /// The pool or device that has a copy of what is in memory.
    pub copy: Option<Place>,
    pub place: Place,
    /// When it was filled, which sets its accessed bit.
    pub filled_s: f64,
    /// When its accessed bit was last scanned, and cleared.
    pub looked_s: f64,
    /// Age counter at its eviction.
    pub shadow: u64,
    /// Number of its stay outside: an older wait is void.
    pub stay: u32,
}

/// A page that is away, and when it will be touched.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Wait {
    at_s: f64,
    page: u32,
    stay: u32,
}

impl Eq for Wait {}

impl Ord for Wait {
    fn cmp(&self, other: &Wait) -> std::cmp::Ordering {
        self.at_s.total_cmp(&other.at_s).then(self.page.cmp(&other.page))
    }
}

impl PartialOrd for Wait {
    fn partial_cmp(&self, other: &Wait) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Counters, in real pages and microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Refaults: anonymous, file.
    pub refaults: [u64; 2],
    /// Pages scanned.
    pub scanned: u64,
    /// Pages taken: anonymous, file.
    pub taken: [u64; 2],
    /// Major faults.
    pub major_faults: u64,
    /// Pages read from and stored in the compressed pool.
    pub zswap: [u64; 2],
    /// Pages read from and written to the swap device.
    pub device: [u64; 2],
    /// `total=` of `some`: memory, IO.
    pub some_us: [f64; 2],
    /// Time that tasks waited for pages, whether the kernel counts it or not.
    pub waited_us: f64,
    /// Time spent in reclaim.
    pub reclaim_us: f64,
}

/// The parts of a container.
#[derive(Clone, Debug)]
pub struct ContainerParts {
    /// How each page is touched, and whether it is of a file; in the order in which they were
    /// filled.
    pub pages: Vec<(Rhythm, bool)>,
    /// Real pages that a page of the model stands for.
    pub real_pages: u32,
    /// The compression ratio of anonymous pages.
    pub compression: f64,
    /// Tasks that are busy at any time.
    pub busy_tasks: u32,
    /// Where anonymous memory goes.
    pub backend: Backend,
    /// Where files are.
    pub disk: Ssd,
    /// Bytes of swap.
    pub swap_bytes: u64,
    /// Its kernel.
    pub kernel: Kernel,
}

/// A container.
pub struct Container {
    pub(super) made: ContainerParts,
    pub(super) pages: Vec<Page>,
    pub(super) lists: Lists,
    pub(super) now_s: f64,
    /// When all accessed bits were last cleared.
    pub(super) cleared_s: f64,
    pub(super) counters: Counters,
    /// Evictions and activations so far (`nonresident_age`).
    pub(super) age: u64,
    /// What reclaiming has cost: anonymous, file.
    pub(super) cost: [u64; 2],
    /// Recently scanned and recently rotated pages: anonymous, file.
    pub(super) rotated: [[u64; 2]; 2],
    /// Whether a page came back to the active list since the last reclaim: anonymous, file.
    pub(super) activated: [bool; 2],
    pub(super) generations: generations::Generations,
    /// Pages in memory of which the device is getting a copy.
    pub(super) writing: Vec<u32>,
    /// Its limit on swap is so low that a page gives up its slot when it comes back.
    pub(super) gives_up_slots: bool,
    waits: BinaryHeap<Reverse<Wait>>,
    /// Until when each busy task waits for a page.
    tasks_s: Vec<f64>,
    /// Model pages resident, of anonymous memory and of files; in the pool; on the device; in
    /// memory with a copy outside.
    resident: [u64; 2],
    pooled: u64,
    stored: u64,
    pub(super) copies: [u64; 2],
    pool_order: VecDeque<(u32, u32)>,
    random: Random,
}

impl Container {
    /// A container whose pages have all just been filled: each carries its accessed bit.
    pub fn new(made: ContainerParts, seed: u64) -> Container {
        let generational = made.kernel.balance == Balance::Generations;
        let lists = if generational { generations::LISTS } else { 4 };
        let mut container = Container {
            pages: Vec::with_capacity(made.pages.len()),
            lists: Lists::new(lists, made.pages.len()),
            now_s: 0.0,
            cleared_s: -1.0,
            counters: Counters::default(),
            age: 0,
            cost: [0; 2],
            rotated: [[0; 2]; 2],
            activated: [false; 2],
            generations: Default::default(),
            writing: Vec::new(),
            gives_up_slots: false,
            waits: BinaryHeap::new(),
            tasks_s: vec![0.0; made.busy_tasks.max(1) as usize],
            resident: [0; 2],
            pooled: 0,
            stored: 0,
            copies: [0; 2],
            pool_order: VecDeque::new(),
            random: Random::new(seed),
            made,
        };
        let filled = std::mem::take(&mut container.made.pages);
        for (number, (rhythm, file)) in filled.into_iter().enumerate() {
            container.pages.push(Page {
                rhythm,
                file,
                referenced: false,
                workingset: false,
                copy: None,
                place: Place::Resident,
                filled_s: 0.0,
                looked_s: -1.0,
                shadow: 0,
                stay: 0,
            });
            container.resident[usize::from(file)] += 1;
            container.put_on_list(number as u32, false);
        }
        container
    }

    /// Now, in seconds since it was filled.
    pub fn now_s(&self) -> f64 {
        self.now_s
    }

    /// Its counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Real pages that a page of the model stands for.
    pub fn real_pages(&self) -> u64 {
        u64::from(self.made.real_pages)
    }

    fn bytes(&self, model_pages: u64) -> u64 {
        model_pages * self.real_pages() * PAGE as u64
    }

    /// Bytes resident: anonymous, file.
    pub fn resident_bytes(&self) -> [u64; 2] {
        self.resident.map(|pages| self.bytes(pages))
    }

    /// Bytes that the pool takes of the host: more than the compressed lengths.
    pub fn pool_bytes(&self) -> u64 {
        let zswap = self.made.backend.zswap();
        let each = zswap.map_or(0.0, |zswap| zswap.page_bytes(self.made.compression));
        ((self.pooled + self.copies[0]) as f64 * self.made.real_pages as f64 * each) as u64
    }

    /// Compressed lengths of what is in the pool, which the container is charged.
    pub fn charged_bytes(&self) -> u64 {
        (self.bytes(self.pooled + self.copies[0]) as f64 / self.made.compression.max(1.0)) as u64
    }

    /// `memory.current`: what is resident, and the compressed lengths.
    pub fn current_bytes(&self) -> u64 {
        self.resident_bytes().iter().sum::<u64>() + self.charged_bytes()
    }

    /// Memory that it takes of the host: what is resident, and the pool.
    pub fn host_bytes(&self) -> u64 {
        self.resident_bytes().iter().sum::<u64>() + self.pool_bytes()
    }

    /// Bytes of all its pages: its size without offloading.
    pub fn filled_bytes(&self) -> u64 {
        self.bytes(self.pages.len() as u64)
    }

    /// Bytes of swap in use, kept copies included.
    pub fn swap_bytes(&self) -> u64 {
        self.bytes(self.pooled + self.stored + self.copies[0] + self.copies[1])
    }

    /// Whether a page was used since it was last scanned; scans it.
    pub(super) fn take_accessed(&mut self, number: u32) -> bool {
        let page = &mut self.pages[number as usize];
        let since = page.looked_s.max(self.cleared_s);
        page.looked_s = self.now_s;
        since < page.filled_s || page.rhythm.touched(number, since, self.now_s)
    }

    /// Clears all accessed bits.
    pub fn clear_accessed(&mut self) {
        self.cleared_s = self.now_s;
    }

    /// Bytes resident that were not used since all bits were cleared, without looking.
    pub fn untouched_bytes(&self) -> u64 {
        let idle = |(number, page): &(usize, &Page)| {
            page.place == Place::Resident
                && !page.rhythm.touched(*number as u32, self.cleared_s, self.now_s)
        };
        self.bytes(self.pages.iter().enumerate().filter(idle).count() as u64)
    }

    pub(super) fn put_on_list(&mut self, number: u32, active: bool) {
        let file = self.pages[number as usize].file;
        let list = match self.made.kernel.balance {
            Balance::Generations => self.generations.list_for_new(file, active),
            _ => kind(file, active) as u8,
        };
        self.lists.push(list, number);
    }

    /// Gives some pages another rhythm from now on.
    pub fn change(&mut self, pages: std::ops::Range<usize>, rhythm: Rhythm) {
        for number in pages {
            let page = &mut self.pages[number];
            page.rhythm = rhythm;
            if page.place != Place::Resident {
                page.stay += 1;
                self.wait_for(number as u32);
            }
        }
    }

    /// More pages, just filled.
    pub fn grow(&mut self, pages: impl IntoIterator<Item = (Rhythm, bool)>) {
        for (rhythm, file) in pages {
            let number = self.pages.len() as u32;
            let (filled_s, looked_s) = (self.now_s, self.now_s.next_down());
            self.pages.push(Page {
                rhythm,
                file,
                referenced: false,
                workingset: false,
                copy: None,
                place: Place::Resident,
                filled_s,
                looked_s,
                shadow: 0,
                stay: 0,
            });
            self.lists.add_page();
            self.resident[usize::from(file)] += 1;
            self.put_on_list(number, false);
        }
    }

    fn wait_for(&mut self, number: u32) {
        let page = &self.pages[number as usize];
        let at_s = page.rhythm.next_after(number, self.now_s);
        if at_s.is_finite() {
            self.waits.push(Reverse(Wait { at_s, page: number, stay: page.stay }));
        }
    }

    /// Lets time pass: what is away and touched comes back.
    pub fn advance(&mut self, to_s: f64) {
        while let Some(Reverse(wait)) = self.waits.peek().copied() {
            if wait.at_s > to_s {
                break;
            }
            self.waits.pop();
            let page = &self.pages[wait.page as usize];
            if page.place != Place::Resident && page.stay == wait.stay {
                self.now_s = wait.at_s;
                self.fault(wait.page);
            }
        }
        self.now_s = to_s;
    }

    /// Takes a page out of memory, to where it still has a copy, else to `place`.
    pub(super) fn put_away(&mut self, number: u32, place: Place) {
        self.lists.remove(number);
        let real = self.real_pages();
        let page = &mut self.pages[number as usize];
        let copy = page.copy.take();
        page.place = copy.unwrap_or(place);
        page.stay += 1;
        page.referenced = false;
        let (file, stay, place) = (page.file, page.stay, page.place);
        self.resident[usize::from(file)] -= 1;
        self.counters.taken[usize::from(file)] += real;
        let written = if copy.is_none() { real } else { 0 };
        match place {
            Place::Zswap => {
                self.pooled += 1;
                self.pool_order.push_back((number, stay));
                self.copies[0] -= u64::from(copy.is_some());
                self.counters.zswap[1] += written;
                self.move_on();
            }
            Place::Device => {
                self.stored += 1;
                self.copies[1] -= u64::from(copy.is_some());
                self.counters.device[1] += written;
            }
            Place::File | Place::Resident => {}
        }
        self.wait_for(number);
    }

    /// Limits the pool of a hierarchy to a number of bytes from the next stored page on, as
    /// `memory.zswap.max` does.
    pub fn limit_pool(&mut self, bytes: u64) {
        if let Backend::Hierarchy(_, _, most) = &mut self.made.backend {
            *most = bytes;
        }
    }

    /// Moves what was stored first from a pool that is over its size to the device.
    fn move_on(&mut self) {
        let Backend::Hierarchy(_, _, most) = self.made.backend else { return };
        while self.pool_bytes() > most {
            let Some((number, stay)) = self.pool_order.pop_front() else { return };
            let page = &mut self.pages[number as usize];
            if page.place == Place::Zswap && page.stay == stay {
                page.place = Place::Device;
                self.pooled -= 1;
                self.stored += 1;
                self.counters.device[1] += self.made.real_pages as u64;
            }
        }
    }

    /// A page that is away is touched now.
    fn fault(&mut self, number: u32) {
        let page = self.pages[number as usize];
        let real = self.real_pages();
        let task = number as usize % self.tasks_s.len();
        let began_s = self.tasks_s[task].max(self.now_s);
        let mut done_s = began_s;
        for _ in 0..real {
            done_s = self.read(page.place, done_s);
        }
        self.tasks_s[task] = done_s;
        let waited_us = (done_s - began_s) * 1e6;
        let restored = self.refaulted(number);
        let keeps = self.made.kernel.keeps_copies && !self.gives_up_slots;
        match page.place {
            Place::Zswap => {
                self.pooled -= 1;
                self.copies[0] += u64::from(keeps);
                self.counters.zswap[0] += real;
            }
            Place::Device => {
                self.stored -= 1;
                self.copies[1] += u64::from(keeps);
                self.counters.device[0] += real;
            }
            Place::File | Place::Resident => {}
        }
        self.counters.major_faults += real;
        self.counters.waited_us += waited_us;
        let share = waited_us / self.tasks_s.len() as f64;
        // The kernel takes waiting for a page as a stall for lack of memory only if the page had
        // been in use; and reading the pool is no IO.
        if restored {
            self.counters.some_us[0] += share;
        }
        if page.place != Place::Zswap {
            self.counters.some_us[1] += share;
        }
        let back = &mut self.pages[number as usize];
        back.copy = (keeps && page.place != Place::File).then_some(page.place);
        back.place = Place::Resident;
        back.looked_s = self.now_s.next_down();
        self.resident[usize::from(page.file)] += 1;
    }

    fn read(&mut self, place: Place, at_s: f64) -> f64 {
        let random = &mut self.random;
        match (place, &mut self.made.backend) {
            (Place::Zswap, Backend::Zswap(zswap) | Backend::Hierarchy(zswap, ..)) => {
                at_s + zswap.read.sample(random) * 1e-9
            }
            (Place::Device, Backend::Device(ssd) | Backend::Hierarchy(_, ssd, _)) => {
                ssd.read(at_s, random)
            }
            _ => self.made.disk.read(at_s, random),
        }
    }

    /// A task of the container waits for something else than a page, such as reclaim.
    pub(super) fn stall(&mut self, seconds: f64) {
        self.counters.some_us[0] += seconds * 1e6 / self.tasks_s.len() as f64;
        self.counters.waited_us += seconds * 1e6;
    }
}

/// The list of a kind of page.
pub(super) fn kind(file: bool, active: bool) -> Kind {
    Kind::ALL[usize::from(file) * 2 + usize::from(active)]
}
