//! Kernel caches of small objects: a slab is one block, freed when its last object is.
//!
//! That is what makes kernel memory stick: one inode in use keeps the page of all its neighbors.

use prairie_frames::placement::{Request, gfp};
use prairie_frames::{MigrateType, Mobility, Order, ZoneKind};

use super::Machine;
use super::lru::PageList;
use super::page::{Page, PageId, Use};
use prairie_model::zones::Architecture;

/// The caches that the machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cache {
    /// Names of files.
    Dentry = 0,
    /// Files.
    Inode = 1,
    /// Where the pages of a file are: one object for each 64.
    RadixNode = 2,
    /// Kernel memory of a process: task, files, areas of its address space.
    Task = 3,
}

/// One cache (`struct kmem_cache`).
#[derive(Clone, Debug)]
struct SlabCache {
    order: Order,
    objects_per_slab: u32,
    migrate_type: MigrateType,
    /// Whether slabs stay when their last object ends.
    permanent: bool,
    /// Slabs with room.
    partial: PageList,
    objects: u64,
    slabs: u64,
}

/// The list that slabs with room are on.
const PARTIAL: u8 = Page::NO_LIST - 1;

/// All caches.
#[derive(Clone, Debug)]
pub(super) struct Slabs {
    caches: [SlabCache; 4],
}

impl Slabs {
    /// Sizes of objects and slabs as `/proc/slabinfo` shows them: of ext3 on 2.6.16 for the
    /// machines of that time, of ext4 on 6.1 for today's.
    ///
    /// With `keeps_processes`, slabs of processes are single pages that are never returned, as
    /// those of FreeBSD's `PROC` and `THREAD` zones (`UMA_ZONE_NOFREE`). Two objects to a page:
    /// chosen.
    pub(super) fn new(architecture: Architecture, keeps_processes: bool) -> Slabs {
        use MigrateType::{Reclaimable, Unmovable};
        let cache = |order, objects_per_slab, migrate_type| SlabCache {
            order: Order::new(order).expect("a small order"),
            objects_per_slab,
            migrate_type,
            permanent: false,
            partial: PageList::EMPTY,
            objects: 0,
            slabs: 0,
        };
        let mut caches = match architecture {
            Architecture::X86_32 => [
                cache(0, 29, Reclaimable),
                cache(0, 8, Reclaimable),
                cache(0, 14, Reclaimable),
                cache(0, 4, Unmovable),
            ],
            Architecture::Ppc64 => [
                cache(0, 18, Reclaimable),
                cache(0, 5, Reclaimable),
                cache(0, 7, Reclaimable),
                cache(0, 3, Unmovable),
            ],
            Architecture::X86_64 => [
                cache(0, 21, Reclaimable),
                cache(3, 27, Reclaimable),
                cache(2, 28, Reclaimable),
                cache(3, 8, Unmovable),
            ],
        };
        if keeps_processes {
            let processes = cache(0, 2, Unmovable);
            caches[Cache::Task as usize] = SlabCache { permanent: true, ..processes };
        }
        Slabs { caches }
    }

    /// Objects in use.
    pub(super) fn objects(&self, cache: Cache) -> u64 {
        self.caches[cache as usize].objects
    }

    /// Compares the caches with the pages.
    ///
    /// # Panics
    /// If they contradict each other.
    pub(super) fn validate(&self, pages: &super::page::Pages) {
        let mut seen = [(0, 0); 4];
        for id in pages.in_use().filter(|&id| pages[id].used_as == Use::Slab) {
            let page = &pages[id];
            let (slabs, objects) = &mut seen[page.owner as usize];
            *slabs += 1;
            *objects += u64::from(page.index);
            let most = self.caches[page.owner as usize].objects_per_slab;
            let least = u32::from(!self.caches[page.owner as usize].permanent);
            assert!((least..=most).contains(&page.index), "{id:?} {page:?}");
            assert_eq!(page.list == PARTIAL, page.index < most, "{id:?} {page:?}");
        }
        for (cache, (slabs, objects)) in self.caches.iter().zip(seen) {
            assert_eq!((cache.slabs, cache.objects), (slabs, objects));
        }
    }
}

impl Machine {
    /// An object of a cache, as the slab that it lies in; `None` if there is no memory.
    pub(super) fn new_object(&mut self, cache: Cache) -> Option<PageId> {
        self.spend(self.scenario.costs.object_ns);
        let partial = self.slabs.caches[cache as usize].partial.head();
        let id = match partial {
            Some(id) => id,
            None => self.new_slab(cache)?,
        };
        let entry = &mut self.slabs.caches[cache as usize];
        let page = &mut self.memory.pages[id];
        page.index += 1;
        let (full, listed) = (page.index == entry.objects_per_slab, page.list == PARTIAL);
        entry.objects += 1;
        match (listed, full) {
            (true, true) => entry.partial.remove(&mut self.memory.pages, id),
            (false, false) => entry.partial.push_head(&mut self.memory.pages, id, PARTIAL),
            _ => {}
        }
        Some(id)
    }

    fn new_slab(&mut self, cache: Cache) -> Option<PageId> {
        let entry = &self.slabs.caches[cache as usize];
        let request = Request {
            order: entry.order,
            migrate_type: entry.migrate_type,
            mobility: Mobility::Unmovable,
            highest_zone: ZoneKind::Normal,
            gfp_flags: gfp::KERNEL,
            permanent: entry.permanent,
            ..Request::default()
        };
        let id = self.allocate(&request)?;
        // Reclaim on the way here may have freed room in another slab, or let others take this
        // cache's numbers: they are counted only now.
        self.slabs.caches[cache as usize].slabs += 1;
        self.memory.pages.set_use(id, Use::Slab, cache as u32, 0);
        Some(id)
    }

    /// Ends an object; its slab is freed with the last one.
    pub(super) fn end_object(&mut self, cache: Cache, id: PageId) {
        self.spend(self.scenario.costs.object_ns);
        let entry = &mut self.slabs.caches[cache as usize];
        let page = &mut self.memory.pages[id];
        debug_assert_eq!((page.used_as, page.owner), (Use::Slab, cache as u32), "{id:?}");
        page.index -= 1;
        let empty = page.index == 0 && !entry.permanent;
        let listed = page.list == PARTIAL;
        entry.objects -= 1;
        match (listed, empty) {
            (true, true) => entry.partial.remove(&mut self.memory.pages, id),
            (false, false) => entry.partial.push_head(&mut self.memory.pages, id, PARTIAL),
            _ => {}
        }
        if empty {
            self.slabs.caches[cache as usize].slabs -= 1;
            self.free(id);
        }
    }
}
