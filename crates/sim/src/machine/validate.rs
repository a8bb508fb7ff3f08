//! Whether everything that the machine knows agrees.

use super::Machine;
use super::page::{PageId, Use};
use super::process::Place;

impl Machine {
    /// Compares frames, pages, lists, files, processes and caches with each other. Time linear in
    /// memory.
    ///
    /// # Panics
    /// If they are inconsistent: a frame has two owners or none, or a list has a wrong count.
    pub fn validate(&self) {
        self.memory.validate();
        self.lru.validate(&self.memory.pages);
        self.files.validate(&self.memory.pages);
        self.slabs.validate(&self.memory.pages);
        self.validate_processes();
        self.validate_confinement();
        for &id in &self.hugetlb {
            assert_eq!(self.memory.pages[id].used_as, Use::HugeTlb, "{id:?}");
        }
    }

    fn validate_processes(&self) {
        let pages = &self.memory.pages;
        let (mut resident, mut swapped, mut tables, mut stacks) = (0, 0, 0, 0);
        for (number, process) in self.processes.iter().enumerate() {
            let mut here = 0;
            for index in 0..process.pages() {
                match process.place(index) {
                    Place::Nowhere => {}
                    Place::Swap(_) => swapped += 1,
                    Place::Memory(id) => {
                        let page = &pages[id];
                        assert_eq!(
                            (page.used_as, page.owner as usize),
                            (Use::Anonymous, number),
                            "{id:?}"
                        );
                        let inside = u64::from(index - page.index);
                        assert!(inside < page.frames(), "{id:?} {page:?} at {index}");
                        here += 1;
                    }
                }
            }
            assert_eq!(here, process.resident, "pages of process {number}");
            resident += here;
            tables += process.tables.iter().filter(|&&table| table != PageId::NONE).count() as u64;
            stacks += process.stack.pages.iter().map(|&id| pages[id].frames()).sum::<u64>();
        }
        assert_eq!(resident, pages.frames_used_as(Use::Anonymous), "memory of no process");
        assert_eq!(swapped, self.swap.used(), "slots of swap");
        assert_eq!(tables, pages.frames_used_as(Use::PageTable), "page tables");
        assert_eq!(stacks, pages.frames_used_as(Use::Stack), "kernel stacks");
    }

    /// In debug builds: on small machines often, on large ones from time to time.
    #[cfg(debug_assertions)]
    pub(super) fn validate_now_and_then(&self) {
        let frames = self.memory.table.frames();
        let every = if frames <= 1 << 18 { 997 } else { frames };
        if self.clock.slices().is_multiple_of(every) {
            self.validate();
        }
    }
}
