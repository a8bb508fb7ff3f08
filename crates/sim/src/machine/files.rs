//! Files: their names and inodes in the kernel's caches, their pages in the page cache.

use std::collections::VecDeque;
use std::ops::Range;

use prairie_frames::placement::zonelist::Depth;
use prairie_frames::placement::{ObjectPage, Request, gfp};
use prairie_frames::{MigrateType, Mobility};

use super::Machine;
use super::page::{Flags, PageId, Use};
use super::slab::Cache;
use super::workingset::EVICTED;

/// The state of one page of a file in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// Nothing.
    Absent,
    /// The page.
    Cached(PageId),
    /// When it went.
    Evicted(u32),
}

/// A slot in four bytes.
const NOTHING: u32 = u32::MAX >> 1;

impl Slot {
    fn pack(self) -> u32 {
        match self {
            Slot::Absent => NOTHING,
            Slot::Cached(id) => id.0,
            Slot::Evicted(shadow) => shadow | EVICTED,
        }
    }

    fn unpack(word: u32) -> Slot {
        match word {
            NOTHING => Slot::Absent,
            word if word & EVICTED != 0 => Slot::Evicted(word),
            word => Slot::Cached(PageId(word)),
        }
    }
}

/// A file.
#[derive(Clone, Debug)]
pub(super) struct File {
    /// Pages that it has.
    pub len: u32,
    slots: Vec<u32>,
    resident: u32,
    inode: PageId,
    name: PageId,
    /// Tree nodes over 64 slots each, and how many of these are cached.
    nodes: Vec<(PageId, u8)>,
    /// Its name was looked up since a shrinker last saw it.
    used: bool,
    /// Processes map it: they touch its pages through page tables.
    mapped: bool,
}

/// Pages under one tree node (`XA_CHUNK_SIZE`).
const NODE: u32 = 64;
/// Files among the objects of a machine, next to the memory of its processes.
const FILES: u64 = 1 << 63;
/// Pages read ahead at once (128 KiB, `read_ahead_kb`).
pub(super) const READ_AHEAD: u32 = 32;

/// All files.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    files: Vec<File>,
    free: Vec<u32>,
    /// First file of each set; copies follow each other.
    first_of_set: Vec<u32>,
    /// Files that processes wrote and that are not deleted yet.
    pub written: Vec<u32>,
    /// Files with a name in the cache, longest unused first.
    names: VecDeque<u32>,
    /// Objects that shrinkers owe.
    pub shrink_debt: u64,
}

impl Files {
    /// Takes the file whose name was longest in the cache from the list.
    pub(super) fn oldest_name(&mut self) -> Option<u32> {
        while let Some(file) = self.names.pop_front() {
            if self.files[file as usize].name != PageId::NONE {
                return Some(file);
            }
        }
        None
    }

    /// Whether a name was used since the last time this was asked.
    pub(super) fn was_used(&mut self, file: u32) -> bool {
        std::mem::take(&mut self.files[file as usize].used)
    }

    /// Puts a name back as the youngest.
    pub(super) fn keep_name(&mut self, file: u32) {
        self.names.push_back(file);
    }

    /// Pages of a file.
    pub(super) fn len(&self, file: u32) -> u32 {
        self.files[file as usize].len
    }

    fn slot(&self, file: u32, index: u32) -> Slot {
        let word = self.files[file as usize].slots.get(index as usize);
        word.map_or(Slot::Absent, |&word| Slot::unpack(word))
    }

    fn set_slot(&mut self, file: u32, index: u32, slot: Slot) {
        let file = &mut self.files[file as usize];
        if file.slots.is_empty() {
            file.slots = vec![NOTHING; file.len as usize];
            file.nodes = vec![(PageId::NONE, 0); file.len.div_ceil(NODE) as usize];
        }
        file.slots[index as usize] = slot.pack();
    }

    fn add(&mut self, len: u32, mapped: bool) -> u32 {
        let file = File {
            len,
            slots: Vec::new(),
            resident: 0,
            inode: PageId::NONE,
            name: PageId::NONE,
            nodes: Vec::new(),
            used: false,
            mapped,
        };
        match self.free.pop() {
            Some(number) => {
                self.files[number as usize] = file;
                number
            }
            None => {
                self.files.push(file);
                self.files.len() as u32 - 1
            }
        }
    }

    /// Compares files with pages.
    ///
    /// # Panics
    /// If they contradict each other.
    pub(super) fn validate(&self, pages: &super::page::Pages) {
        let mut cached = 0;
        for (number, file) in self.files.iter().enumerate() {
            let mut resident = 0;
            for (index, &word) in file.slots.iter().enumerate() {
                if let Slot::Cached(id) = Slot::unpack(word) {
                    let page = &pages[id];
                    let mine = (page.used_as, page.owner, page.index);
                    assert_eq!(mine, (Use::File, number as u32, index as u32), "{id:?}");
                    resident += 1;
                }
            }
            assert_eq!(resident, file.resident, "cached pages of file {number}");
            let under: u32 = file.nodes.iter().map(|&(_, used)| u32::from(used)).sum();
            assert_eq!(under, resident, "pages under the nodes of file {number}");
            cached += u64::from(resident);
        }
        assert_eq!(cached, pages.frames_used_as(Use::File), "pages of no file");
    }
}

impl Machine {
    /// Makes the files of the scenario, none of them cached.
    pub(super) fn create_files(&mut self) {
        for set in self.scenario.files.clone() {
            self.files.first_of_set.push(self.files.files.len() as u32);
            for _ in 0..u64::from(set.count) * u64::from(set.copies) {
                let bytes = set.size.sample(&mut self.random);
                let len = (bytes / 4096.0).ceil().clamp(1.0, f64::from(u32::MAX >> 2)) as u32;
                self.files.add(len, set.mapped);
            }
        }
    }

    /// The file that is `share` of the way through a copy of a set.
    pub(super) fn file_at(&self, set: usize, copy: u32, share: f64) -> u32 {
        let config = &self.scenario.files[set];
        let within = ((share * f64::from(config.count)) as u32).min(config.count - 1);
        self.files.first_of_set[set] + (copy % config.copies) * config.count + within
    }

    /// Looks a file up: its name and inode are in the kernel's caches then. False if there is no
    /// memory for them.
    pub(super) fn open(&mut self, file: u32) -> bool {
        let entry = &mut self.files.files[file as usize];
        entry.used = true;
        if entry.name != PageId::NONE {
            return true;
        }
        if entry.inode == PageId::NONE {
            let Some(inode) = self.new_object(Cache::Inode) else { return false };
            self.files.files[file as usize].inode = inode;
        }
        match self.new_object(Cache::Dentry) {
            Some(name) => {
                self.files.files[file as usize].name = name;
                self.files.names.push_back(file);
                true
            }
            None => {
                self.forget_if_unused(file);
                false
            }
        }
    }

    /// Reads up to `count` pages of an open file from `start` on; what is not cached comes from the
    /// disk, which the slice then waits for. Returns the pages read, `None` if there is no memory.
    pub(super) fn read(&mut self, file: u32, start: u32, count: u32) -> Option<u32> {
        let end = start.saturating_add(count).min(self.files.len(file));
        self.request_batch(file, start..end);
        let from_disk = self.read_pages(file, start..end);
        for id in std::mem::take(&mut self.read_batch) {
            self.free(id);
        }
        let from_disk = from_disk?;
        if from_disk > 0 {
            self.counters.pgmajfault += 1;
            let done = self.disk.submit(self.clock.now_ns(), from_disk);
            self.slice.wait_until_ns = self.slice.wait_until_ns.max(done);
        }
        Some(end - start)
    }

    /// Requests the pages that a read will bring in at once, where the system does so. What does not
    /// come is requested page by page.
    fn request_batch(&mut self, file: u32, pages: Range<u32>) {
        // Pages of mapped files come from reservations.
        if !self.system.settings.policies.batched_reads || self.files.files[file as usize].mapped {
            return;
        }
        let missing = |&index: &u32| !matches!(self.files.slot(file, index), Slot::Cached(_));
        let count = pages.filter(missing).count() as u32;
        if count < 2 {
            return;
        }
        let (cpu, highest_zone) = (self.slice.cpu, self.highest_for_users());
        let request =
            Request { cpu, node: self.node_of_cpu(cpu), highest_zone, ..file_request(None) };
        self.memory.take_batch(&request, count, Depth::Low, &mut self.read_batch);
        self.counters.pgalloc += self.read_batch.len() as u64;
        self.operations += self.read_batch.len() as u64;
    }

    /// Reads pages of an open file; returns those that come from the disk.
    fn read_pages(&mut self, file: u32, pages: Range<u32>) -> Option<u64> {
        let mut from_disk = 0;
        for index in pages {
            self.operations += 1;
            match self.files.slot(file, index) {
                Slot::Cached(id) => {
                    self.spend(self.scenario.costs.read_hit_ns);
                    self.mark_accessed(id, file);
                }
                slot => {
                    self.add_to_cache(file, index, slot)?;
                    from_disk += 1;
                }
            }
        }
        Some(from_disk)
    }

    /// A file page was read: the second time it becomes active (`folio_mark_accessed`). Pages of
    /// mapped files are touched through page tables instead, which reclaim looks up.
    fn mark_accessed(&mut self, id: PageId, file: u32) {
        let mapped = self.files.files[file as usize].mapped;
        let flags = &mut self.memory.pages[id].flags;
        if mapped {
            flags.set(Flags::YOUNG);
        } else if !flags.take(Flags::REFERENCED) {
            flags.set(Flags::REFERENCED);
        } else if !flags.has(Flags::ACTIVE) {
            self.counters.pgactivate += 1;
            self.lru.activate(&mut self.memory.pages, id);
        }
    }

    /// Brings a page of a file into the cache (`filemap_add_folio`).
    fn add_to_cache(&mut self, file: u32, index: u32, slot: Slot) -> Option<PageId> {
        let node = (index / NODE) as usize;
        self.files.set_slot(file, index, slot);
        if self.files.files[file as usize].nodes[node].1 == 0 {
            let object = self.new_object(Cache::RadixNode)?;
            self.files.files[file as usize].nodes[node].0 = object;
        }
        // Counted before the page is there, so that reclaim on the way does not free the node.
        self.files.files[file as usize].nodes[node].1 += 1;
        // Only what is mapped is laid out for superpages (`vm_object_color`).
        let page = self.files.files[file as usize].mapped.then(|| ObjectPage {
            object: FILES | u64::from(file),
            index: u64::from(index),
            pages: u64::from(self.files.len(file)),
        });
        let request = Request { highest_zone: self.highest_for_users(), ..file_request(page) };
        let batched = self.read_batch.pop();
        let Some(id) = batched.or_else(|| self.allocate(&request)) else {
            self.leave_node(file, node);
            self.forget_if_unused(file);
            return None;
        };
        self.spend(self.scenario.costs.copy_frame_ns);
        self.memory.pages.set_use(id, Use::File, file, index);
        if self.files.files[file as usize].mapped {
            self.memory.pages[id].flags.set(Flags::EXECUTABLE | Flags::YOUNG);
        }
        let lists = self.lru.of_zone(self.memory.zone(id));
        if let Slot::Evicted(shadow) = slot {
            self.workingset_refault(lists, id, shadow, true);
        }
        self.lru.add(&mut self.memory.pages, lists, id);
        self.files.set_slot(file, index, Slot::Cached(id));
        self.files.files[file as usize].resident += 1;
        Some(id)
    }

    /// Takes a page out of its file, which keeps `left` in its place. The page itself is the
    /// caller's to free.
    pub(super) fn uncache(&mut self, file: u32, index: u32, left: Slot) {
        self.files.set_slot(file, index, left);
        self.files.files[file as usize].resident -= 1;
        self.leave_node(file, (index / NODE) as usize);
        self.forget_if_unused(file);
    }

    fn leave_node(&mut self, file: u32, node: usize) {
        let (object, used) = &mut self.files.files[file as usize].nodes[node];
        *used -= 1;
        if *used == 0 && *object != PageId::NONE {
            let object = std::mem::replace(object, PageId::NONE);
            self.end_object(Cache::RadixNode, object);
        }
    }

    /// A file of `len` pages without kernel objects: a recording has those.
    pub(super) fn add_recorded_file(&mut self, len: u32) -> u32 {
        self.files.add(len, false)
    }

    /// Puts a page into the cache as page `index` of a recorded file.
    pub(super) fn cache_recorded(&mut self, file: u32, index: u32, id: PageId) {
        self.files.set_slot(file, index, Slot::Cached(id));
        let file = &mut self.files.files[file as usize];
        file.nodes[(index / NODE) as usize].1 += 1;
        file.resident += 1;
    }

    /// The page that is page `index` of a file, if it is cached.
    pub(super) fn cached(&self, file: u32, index: u32) -> Option<PageId> {
        match self.files.slot(file, index) {
            Slot::Cached(id) => Some(id),
            Slot::Absent | Slot::Evicted(_) => None,
        }
    }

    /// Ends the name of a file, and its inode if nothing else needs it.
    pub(super) fn end_name(&mut self, file: u32) {
        let name = std::mem::replace(&mut self.files.files[file as usize].name, PageId::NONE);
        self.end_object(Cache::Dentry, name);
        self.forget_if_unused(file);
    }

    /// An inode goes with its name once none of its pages is cached.
    fn forget_if_unused(&mut self, file: u32) {
        let entry = &mut self.files.files[file as usize];
        let wanted = |entry: &File| entry.nodes.iter().any(|&(_, used)| used > 0);
        if entry.name == PageId::NONE && entry.inode != PageId::NONE && !wanted(entry) {
            let inode = std::mem::replace(&mut entry.inode, PageId::NONE);
            self.end_object(Cache::Inode, inode);
        }
    }

    /// Writes a new file of `len` pages, which are dirty then. `None` if there was no memory; what
    /// was written until then stays.
    pub(super) fn write_new(&mut self, len: u32) -> Option<u32> {
        let file = self.files.add(len, false);
        self.files.written.push(file);
        if !self.open(file) {
            return None;
        }
        for index in 0..len {
            self.operations += 1;
            let id = self.add_to_cache(file, index, Slot::Absent)?;
            self.dirty(id);
        }
        self.balance_dirty_pages();
        Some(file)
    }

    /// Drops a file's pages, name and inode from the caches, as deleting it does.
    pub(super) fn drop_file(&mut self, file: u32) {
        for index in 0..self.files.files[file as usize].slots.len() as u32 {
            if let Slot::Cached(id) = self.files.slot(file, index) {
                self.lru.remove(&mut self.memory.pages, id);
                self.clean(id);
                self.uncache(file, index, Slot::Absent);
                self.free(id);
            }
        }
        if self.files.files[file as usize].name != PageId::NONE {
            self.end_name(file);
        }
        let entry = &mut self.files.files[file as usize];
        (entry.slots, entry.nodes) = (Vec::new(), Vec::new());
    }

    /// Deletes a file that a process wrote.
    pub(super) fn delete_written(&mut self, file: u32) {
        self.drop_file(file);
        // Its name may still be in the list of names, where it is skipped.
        self.files.free.push(file);
    }

    /// Deletes all files of a set.
    pub(super) fn delete_set(&mut self, set: usize) {
        let config = &self.scenario.files[set];
        let first = self.files.first_of_set[set];
        for file in first..first + config.count * config.copies {
            self.drop_file(file);
        }
    }
}

/// A page of a file.
fn file_request(page: Option<ObjectPage>) -> Request {
    Request {
        migrate_type: MigrateType::Movable,
        mobility: Mobility::Movable,
        gfp_flags: gfp::KERNEL,
        page,
        ..Request::default()
    }
}
