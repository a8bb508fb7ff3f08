//! Page faults: new memory, memory that was swapped out, huge pages.

use prairie_frames::placement::{ObjectPage, Request, gfp};
use prairie_frames::{MigrateType, Mobility, Order};

use super::Machine;
use super::page::{Flags, PageId, Use};
use super::process::Place;
use super::scenario::{Defrag, HugePages};

impl Machine {
    /// A process touches page `index` for the first time. Returns how many pages it has then from
    /// there on, `None` if there is no memory.
    pub(super) fn fault_new(&mut self, process: u32, index: u32) -> Option<u32> {
        self.operations += 1;
        self.counters.pgfault += 1;
        self.spend(self.scenario.costs.fault_ns);
        self.map_table(process, index)?;
        if let Some(id) = self.huge_page_for(process, index) {
            self.own(process, index, id);
            return Some(Order::HUGE.frames() as u32);
        }
        let id = self.allocate(&self.request_for_page(process, index))?;
        self.own(process, index, id);
        Some(1)
    }

    /// A process touches a page that it touched before. False if it was in swap and there is no
    /// memory to bring it back.
    pub(super) fn touch(&mut self, process: u32, index: u32) -> bool {
        match self.processes[process as usize].place(index) {
            Place::Memory(id) => {
                self.memory.pages[id].flags.set(Flags::YOUNG);
                true
            }
            Place::Swap(slot) => self.swap_in(process, index, slot).is_some(),
            Place::Nowhere => true,
        }
    }

    fn swap_in(&mut self, process: u32, index: u32, slot: u32) -> Option<()> {
        self.operations += 1;
        self.counters.pgfault += 1;
        self.counters.pgmajfault += 1;
        self.counters.pswpin += 1;
        self.spend(self.scenario.costs.fault_ns);
        let id = self.allocate(&self.request_for_page(process, index))?;
        let shadow = self.swap.take(slot) as u32;
        let done = self.disk.submit(self.clock.now_ns(), 1);
        self.slice.wait_until_ns = self.slice.wait_until_ns.max(done);
        self.memory.pages.set_use(id, Use::Anonymous, process, index);
        self.begin_active(id);
        let lists = self.lru.of_zone(self.memory.zone(id));
        self.workingset_refault(lists, id, shadow, false);
        self.lru.add(&mut self.memory.pages, lists, id);
        self.processes[process as usize].set_place(index, id);
        Some(())
    }

    /// Gives a block to a process, page by page from `index` on, and puts it on the LRU.
    pub(super) fn own(&mut self, process: u32, index: u32, id: PageId) {
        self.memory.pages.set_use(id, Use::Anonymous, process, index);
        self.memory.pages[id].flags.set(Flags::YOUNG);
        self.begin_active(id);
        let frames = self.memory.pages[id].frames();
        self.spend(self.scenario.costs.copy_frame_ns * frames);
        let lists = self.lru.of_zone(self.memory.zone(id));
        self.lru.add(&mut self.memory.pages, lists, id);
        for at in 0..frames as u32 {
            self.processes[process as usize].set_place(index + at, id);
        }
    }

    /// Anonymous memory begins on the inactive list since Linux 5.9, on the active one before
    /// (`lru_cache_add_active`).
    fn begin_active(&mut self, id: PageId) {
        if self.system.settings.policies.reclaims_as_2_6 {
            self.memory.pages[id].flags.set(Flags::ACTIVE);
        }
    }

    /// khugepaged tries as hard as a fault of a process that asked
    /// (`alloc_hugepage_khugepaged_gfpmask`).
    pub(super) fn request_to_collapse(&self) -> Request {
        self.request_for_users(Order::HUGE, gfp::KERNEL & !gfp::KSWAPD_RECLAIM)
    }

    /// A page of a process's memory, which is an object of its own in systems that ask. Each life of
    /// a process's number is another object.
    fn request_for_page(&self, process: u32, index: u32) -> Request {
        let generation = u64::from(self.processes[process as usize].generation);
        let object = generation << 32 | u64::from(process);
        let page = ObjectPage { object, index: u64::from(index), pages: u64::MAX };
        Request { page: Some(page), ..self.request_for_users(Order::BASE, gfp::KERNEL) }
    }

    fn request_for_users(&self, order: Order, gfp_flags: u32) -> Request {
        Request {
            order,
            migrate_type: MigrateType::Movable,
            mobility: Mobility::Movable,
            highest_zone: self.highest_for_users(),
            gfp_flags,
            ..Request::default()
        }
    }

    /// Makes sure that there is a page table for page `index` (`pte_alloc`).
    fn map_table(&mut self, process: u32, index: u32) -> Option<()> {
        let span = self.scenario.machine.architecture.frames_per_page_table() as u32;
        let table = (index / span) as usize;
        let tables = &mut self.processes[process as usize].tables;
        if tables.len() <= table {
            tables.resize(table + 1, PageId::NONE);
        }
        if tables[table] != PageId::NONE {
            return Some(());
        }
        let request = Request {
            migrate_type: MigrateType::Unmovable,
            mobility: Mobility::Unmovable,
            highest_zone: self.highest_for_page_tables(),
            gfp_flags: gfp::KERNEL,
            ..Request::default()
        };
        let id = self.allocate(&request)?;
        self.memory.pages.set_use(id, Use::PageTable, process, index);
        self.processes[process as usize].tables[table] = id;
        Some(())
    }

    /// A huge page for the fault, where settings, alignment and size allow one and there is one
    /// (`do_huge_pmd_anonymous_page`).
    fn huge_page_for(&mut self, process: u32, index: u32) -> Option<PageId> {
        let this = &self.processes[process as usize];
        let advised = self.scenario.processes[this.kind as usize].madvise;
        let wanted = match self.scenario.vm.thp {
            HugePages::Always => true,
            HugePages::Madvise => advised,
            HugePages::Never => false,
        };
        let huge = Order::HUGE.frames() as u32;
        let empty = || (index..index + huge).all(|at| this.place(at) == Place::Nowhere);
        let fits = index.is_multiple_of(huge) && this.pages() - index >= huge && empty();
        if !wanted || !fits || !self.system.settings.policies.huge_pages {
            return None;
        }
        let request = self.request_for_users(Order::HUGE, self.huge_gfp(advised));
        let id = self.allocate(&request);
        match id {
            Some(_) => self.counters.thp_fault_alloc += 1,
            None => self.counters.thp_fault_fallback += 1,
        }
        id
    }

    /// How hard to try (`vma_thp_gfp_mask`).
    fn huge_gfp(&self, advised: bool) -> u32 {
        const LIGHT: u32 = gfp::KERNEL & !(gfp::DIRECT_RECLAIM | gfp::KSWAPD_RECLAIM);
        let direct = LIGHT | gfp::DIRECT_RECLAIM;
        match self.scenario.vm.thp_defrag {
            Defrag::Always if advised => direct,
            Defrag::Always => direct | gfp::NORETRY,
            Defrag::Defer => LIGHT | gfp::KSWAPD_RECLAIM,
            Defrag::DeferMadvise if advised => direct | gfp::KSWAPD_RECLAIM,
            Defrag::DeferMadvise => LIGHT | gfp::KSWAPD_RECLAIM,
            Defrag::Madvise if advised => direct,
            Defrag::Madvise | Defrag::Never => LIGHT,
        }
    }
}
