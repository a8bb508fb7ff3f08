//! Processes: they start, touch memory, read and write files, and end.

use super::Machine;
use super::clock::{Actor, Next};
use super::files::READ_AHEAD;
use super::page::PageId;
use super::slab::Cache;
use super::stack::Stack;

/// Where one page of a process's memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Not touched yet.
    Nowhere,
    /// In memory.
    Memory(PageId),
    /// In this slot of swap.
    Swap(u32),
}

const NOT_MAPPED: u32 = u32::MAX >> 1;
const SWAPPED: u32 = 1 << 31;

/// A process.
#[derive(Clone, Debug, Default)]
pub(super) struct Process {
    /// Which kind.
    pub kind: u32,
    /// How often the number was used before.
    pub generation: u32,
    pub alive: bool,
    /// Which copy of its files it works on.
    copy: u32,
    /// A word for each page of its memory.
    places: Vec<u32>,
    /// Pages in memory.
    pub resident: u64,
    /// Pages touched so far.
    pub touched: u32,
    pub stack: Stack,
    /// One for each stretch of memory that a page table maps.
    pub tables: Vec<PageId>,
    objects: Vec<PageId>,
    slices: u64,
    slices_done: u64,
    read_pages: u64,
    pages_read: u64,
    reading: Option<(u32, u32)>,
    write_pages: u64,
    pages_written: u64,
    stats_done: f64,
    written: Vec<u32>,
}

impl Process {
    /// Untouched memory of N pages, without a process that runs or can be killed.
    pub(super) fn idle(pages: u32) -> Process {
        Process { places: vec![NOT_MAPPED; pages as usize], ..Process::default() }
    }

    /// Where a page of its memory is.
    pub(super) fn place(&self, index: u32) -> Place {
        match self.places[index as usize] {
            NOT_MAPPED => Place::Nowhere,
            word if word & SWAPPED != 0 => Place::Swap(word & !SWAPPED),
            word => Place::Memory(PageId(word)),
        }
    }

    /// Whether `id` is where page `index` is.
    pub(super) fn holds(&self, index: u32, id: PageId) -> bool {
        self.place(index) == Place::Memory(id)
    }

    /// Notes that `index` is in memory.
    pub(super) fn set_place(&mut self, index: u32, id: PageId) {
        self.places[index as usize] = id.0;
        self.resident += 1;
    }

    /// Notes that `index` went to swap.
    pub(super) fn set_swapped(&mut self, index: u32, slot: u32) {
        self.places[index as usize] = slot | SWAPPED;
        self.resident -= 1;
    }

    /// Notes that `index`, which was in memory, is nowhere any more.
    pub(super) fn forget(&mut self, index: u32) {
        self.places[index as usize] = NOT_MAPPED;
        self.resident -= 1;
    }

    /// Notes that `index`, which was in swap, is nowhere any more.
    pub(super) fn forget_swapped(&mut self, index: u32) {
        self.places[index as usize] = NOT_MAPPED;
    }

    /// Pages that its memory may have.
    pub(super) fn pages(&self) -> u32 {
        self.places.len() as u32
    }
}

/// Kernel objects of each process besides its memory.
const OBJECTS: usize = 6;
/// Pages touched again in each slice.
const TOUCHES: u64 = 24;

impl Machine {
    /// A process of this kind starts; false if there is no memory for even that.
    pub(super) fn start_process(&mut self, kind: usize) -> bool {
        let number = match self.free_processes.pop() {
            Some(number) => number,
            None => {
                self.processes.push(Process::default());
                self.processes.len() as u32 - 1
            }
        };
        self.plan_process(number, kind);
        if !self.populate_process(number) {
            self.end_process(number);
            return false;
        }
        let population = &mut self.population[kind];
        population.running += 1;
        population.started += 1;
        self.processes[number as usize].alive = true;
        let generation = self.processes[number as usize].generation;
        self.clock.wake(self.clock.now_ns(), Actor::Process(number, generation));
        true
    }

    /// Draws what a process will do.
    fn plan_process(&mut self, number: u32, kind: usize) {
        let config = &self.scenario.processes[kind];
        let random = &mut self.random;
        let pages = |bytes: f64| (bytes.max(0.0) / 4096.0).round() as u64;
        let anonymous = pages(config.anonymous.sample(random)).min(1 << 30);
        let cpu_ns = config.cpu.sample(random).max(0.0) as u64;
        let process = &mut self.processes[number as usize];
        *process = Process {
            kind: kind as u32,
            generation: process.generation,
            copy: self.population[kind].started as u32,
            places: vec![NOT_MAPPED; anonymous as usize],
            slices: cpu_ns.div_ceil(config.slice.0).max(1),
            read_pages: pages(config.read.sample(random)),
            write_pages: pages(config.write.sample(random)),
            ..Process::default()
        };
    }

    /// The kernel's part of a new process: its stack and its objects.
    fn populate_process(&mut self, number: u32) -> bool {
        if !self.start_stack(number) {
            return false;
        }
        for _ in 0..OBJECTS {
            let Some(object) = self.new_object(Cache::Task) else { return false };
            self.processes[number as usize].objects.push(object);
        }
        true
    }

    /// A slice of a process's life.
    pub(super) fn run_process(&mut self, number: u32, generation: u32) -> Next {
        if self.processes[number as usize].generation != generation {
            return Next::Wait;
        }
        self.slice.process = Some(number);
        let kind = self.processes[number as usize].kind as usize;
        self.processes[number as usize].slices_done += 1;
        self.spend(self.scenario.processes[kind].slice.0);
        let lives = self.grow(number, kind)
            && self.touch_again(number, kind)
            && self.read_files(number, kind)
            && self.look_at_files(number, kind)
            && self.write_files(number, kind);
        let process = &self.processes[number as usize];
        if process.generation != generation {
            // The OOM killer was here.
            self.replace(kind);
            return Next::Wait;
        }
        if !lives || process.slices_done >= process.slices {
            self.population[kind].running -= 1;
            self.population[kind].ended += u64::from(lives);
            self.end_process(number);
            self.replace(kind);
            return Next::Wait;
        }
        let pause = self.scenario.processes[kind].pause.sample(&mut self.random).max(0.0) as u64;
        if pause > 0 {
            return Next::SleepUntil(self.clock.now_ns() + self.slice.spent_ns + pause);
        }
        Next::Again
    }

    /// The part of `total` that must be done after this slice.
    fn due(&self, number: u32, total: u64, share_of_life: f64) -> u64 {
        let process = &self.processes[number as usize];
        let life = (process.slices as f64 * share_of_life).max(1.0);
        let done = (process.slices_done as f64 / life).min(1.0);
        (total as f64 * done) as u64
    }

    /// Touches new memory; pages that khugepaged filled meanwhile already exist.
    fn grow(&mut self, number: u32, kind: usize) -> bool {
        let growth = self.scenario.processes[kind].growth;
        let pages = u64::from(self.processes[number as usize].pages());
        let due = self.due(number, pages, growth) as u32;
        while self.processes[number as usize].touched < due {
            let index = self.processes[number as usize].touched;
            if self.processes[number as usize].place(index) != Place::Nowhere {
                self.processes[number as usize].touched += 1;
                continue;
            }
            let Some(pages) = self.fault_new(number, index) else { return false };
            self.processes[number as usize].touched += pages;
        }
        true
    }

    /// Touches memory that it has: the most recent share of it.
    fn touch_again(&mut self, number: u32, kind: usize) -> bool {
        let touched = u64::from(self.processes[number as usize].touched);
        let hot = (touched as f64 * self.scenario.processes[kind].hot) as u64;
        for _ in 0..TOUCHES.min(hot) {
            let index = touched - 1 - self.random.below(hot);
            if !self.touch(number, index as u32) {
                return false;
            }
        }
        true
    }

    fn read_files(&mut self, number: u32, kind: usize) -> bool {
        let due = self.due(number, self.processes[number as usize].read_pages, 1.0);
        while self.processes[number as usize].pages_read < due {
            let (file, at) = match self.processes[number as usize].reading {
                Some(place) => place,
                None => {
                    let Some(file) = self.choose_file(number, kind) else { return true };
                    if !self.open(file) {
                        return false;
                    }
                    (file, 0)
                }
            };
            let Some(read) = self.read(file, at, READ_AHEAD) else { return false };
            let more = at + read < self.files.len(file);
            let process = &mut self.processes[number as usize];
            process.reading = more.then_some((file, at + read));
            process.pages_read += u64::from(read.max(1));
        }
        true
    }

    /// A file of the process's set: the first ones more often, as its kind's skew says.
    fn choose_file(&mut self, number: u32, kind: usize) -> Option<u32> {
        let config = &self.scenario.processes[kind];
        let name = config.files.as_ref()?;
        let set = self.scenario.files.iter().position(|set| set.name == *name)?;
        let share = self.random.share().powf(config.skew);
        Some(self.file_at(set, self.processes[number as usize].copy, share))
    }

    /// Looks files up without reading them, one after another, as `updatedb` does.
    fn look_at_files(&mut self, number: u32, kind: usize) -> bool {
        let config = &self.scenario.processes[kind];
        if config.stat_rate == 0.0 {
            return true;
        }
        let Some(set) = config
            .files
            .as_ref()
            .and_then(|name| self.scenario.files.iter().position(|s| s.name == *name))
        else {
            return true;
        };
        let files = f64::from(self.scenario.files[set].count * self.scenario.files[set].copies);
        let more = config.stat_rate * config.slice.0 as f64 / 1e9;
        let done = self.processes[number as usize].stats_done;
        for at in done as u64..(done + more) as u64 {
            let within = at as f64 % files;
            let count = f64::from(self.scenario.files[set].count);
            let file = self.file_at(set, (within / count) as u32, (within % count) / count);
            if !self.open(file) {
                return false;
            }
        }
        self.processes[number as usize].stats_done = done + more;
        true
    }

    fn write_files(&mut self, number: u32, kind: usize) -> bool {
        let due = self.due(number, self.processes[number as usize].write_pages, 1.0);
        while self.processes[number as usize].pages_written < due {
            let bytes = self.scenario.processes[kind].written_file.sample(&mut self.random);
            let pages = (bytes / 4096.0).ceil().clamp(1.0, 1e6) as u32;
            let written = self.write_new(pages);
            let process = &mut self.processes[number as usize];
            process.pages_written += u64::from(pages);
            match written {
                Some(file) => process.written.push(file),
                None => return false,
            }
        }
        true
    }

    /// Gives back everything that a process has, and its number.
    pub(super) fn end_process(&mut self, number: u32) {
        for index in 0..self.processes[number as usize].pages() {
            match self.processes[number as usize].place(index) {
                Place::Nowhere => {}
                Place::Swap(slot) => {
                    self.swap.take(slot);
                }
                Place::Memory(id) => {
                    // A huge page has many entries; the first one frees it.
                    if self.memory.pages[id].index == index {
                        self.lru.remove(&mut self.memory.pages, id);
                        self.free(id);
                    }
                }
            }
        }
        let mut process = std::mem::take(&mut self.processes[number as usize]);
        for table in process.tables.into_iter().filter(|&table| table != PageId::NONE) {
            self.free(table);
        }
        for object in process.objects.drain(..) {
            self.end_object(Cache::Task, object);
        }
        self.end_stack(std::mem::take(&mut process.stack));
        if self.scenario.processes[process.kind as usize].temporary {
            for file in process.written {
                self.files.written.retain(|&written| written != file);
                self.delete_written(file);
            }
        }
        self.processes[number as usize].generation = process.generation + 1;
        self.free_processes.push(number);
    }
}
