//! Address space without memory, and the kernel's bookkeeping of it.

use super::Memory;
use crate::storage::Allocated;
use crate::units::{HugePageId, HugePages, HugeRange, PageRange, Pages};

/// Where the address space begins: far from 0, so that a page number is never small.
const BASE: HugePageId = HugePageId(1 << 20);
const PAGES: u64 = HugePages::PAGES.0;

/// How the kernel would back a huge page.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Pages with memory behind them.
    backed: [u64; 4],
    /// Whether one huge page is behind them all.
    huge: bool,
}

/// Memory for playback: hands out addresses, and accounts for what a kernel with transparent huge
/// pages would put behind them.
///
/// The first touch of an aligned 2 MiB without memory gets a huge page; releasing a part of a huge
/// page splits it, and what is touched afterwards gets small pages until all of it was released.
/// Neither khugepaged, which may collapse small pages later, nor a shortage of huge pages is
/// modeled. A page here is the heap's page of 8 KiB.
///
/// It also counts calls, and can be set to refuse them.
#[derive(Debug, Default)]
pub struct CountingMemory {
    entries: Vec<Entry>,
    totals: Resident,
    calls: Calls,
    /// Huge pages that were given back. Their addresses are not handed out again.
    unreserved: HugePages,
    /// Huge pages that may be reserved at a time; `None` is no limit.
    limit: Option<HugePages>,
    refuses_release: bool,
    without_huge_pages: bool,
}

/// The memory that backs the address space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Resident {
    /// Pages with memory behind them.
    pub pages: Pages,
    /// Those of them on huge pages.
    pub on_huge_pages: Pages,
}

/// System calls, and what they changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Calls {
    /// Calls that reserve address space.
    pub reserve: u64,
    /// Calls that release memory.
    pub release: u64,
    /// Huge pages that a partial release split.
    pub huge_pages_split: u64,
    /// Page faults: first touches, of a huge page or of an 8 KiB page each.
    pub faults: u64,
}

impl CountingMemory {
    /// Address space without reservations, on a kernel that gives huge pages.
    pub fn new() -> CountingMemory {
        CountingMemory::default()
    }

    /// The same, with room for `limit` to be reserved at a time.
    pub fn limited(limit: HugePages) -> CountingMemory {
        CountingMemory { limit: Some(limit), ..CountingMemory::default() }
    }

    /// Sets whether the kernel refuses to take memory back.
    pub fn refuse_release(&mut self, refuses: bool) {
        self.refuses_release = refuses;
    }

    /// Whether the kernel refuses to take memory back.
    pub fn refuses_release(&self) -> bool {
        self.refuses_release
    }

    /// Sets whether the kernel gives no huge pages.
    pub fn without_huge_pages(&mut self, without: bool) {
        self.without_huge_pages = without;
    }

    /// Address space reserved so far.
    pub fn reserved(&self) -> HugePages {
        HugePages(self.entries.len() as u64)
    }

    /// The memory that backs the address space.
    pub fn resident(&self) -> Resident {
        self.totals
    }

    /// The calls so far.
    pub fn calls(&self) -> Calls {
        self.calls
    }

    /// Simulates writes to all of the pages.
    ///
    /// # Panics
    /// If they were not reserved.
    #[inline]
    pub fn touch(&mut self, range: PageRange) {
        for (index, mask, _) in parts(range) {
            let entry = &mut self.entries[index];
            if entry.huge {
                continue;
            }
            if !self.without_huge_pages && entry.backed == [0; 4] {
                *entry = Entry { backed: [u64::MAX; 4], huge: true };
                self.totals.pages += HugePages::PAGES;
                self.totals.on_huge_pages += HugePages::PAGES;
                self.calls.faults += 1;
                continue;
            }
            for (backed, mask) in entry.backed.iter_mut().zip(mask) {
                let new = u64::from((mask & !*backed).count_ones());
                *backed |= mask;
                self.totals.pages += Pages(new);
                self.calls.faults += new;
            }
        }
    }

    fn drop_pages(&mut self, range: PageRange) {
        for (index, mask, whole) in parts(range) {
            let entry = &mut self.entries[index];
            if entry.huge {
                self.totals.on_huge_pages -= HugePages::PAGES;
                entry.huge = false;
                self.calls.huge_pages_split += u64::from(!whole);
            }
            for (backed, mask) in entry.backed.iter_mut().zip(mask) {
                self.totals.pages -= Pages(u64::from((*backed & mask).count_ones()));
                *backed &= !mask;
            }
        }
    }
}

impl Memory for CountingMemory {
    type Storage = Allocated;

    fn reserve(&mut self, len: HugePages) -> Option<HugeRange> {
        self.calls.reserve += 1;
        let total = self.reserved().0.checked_add(len.0)?;
        // 16 TiB of address space: more than any trace asks for, less than the index's memory.
        if total > self.limit.map_or(1 << 23, |limit| (limit + self.unreserved).0) {
            return None;
        }
        let start = BASE + self.reserved();
        self.entries.resize(total as usize, Entry::default());
        Some(HugeRange { start, len })
    }

    fn back(&mut self, _range: HugeRange) {}

    fn release(&mut self, range: PageRange) -> bool {
        self.calls.release += 1;
        if self.refuses_release {
            return false;
        }
        self.drop_pages(range);
        true
    }

    fn unreserve(&mut self, range: HugeRange) -> bool {
        self.unreserved += range.len;
        true
    }
}

/// The huge pages of a range: index, mask of the pages meant, and whether those are all.
#[inline]
fn parts(range: PageRange) -> impl Iterator<Item = (usize, [u64; 4], bool)> {
    let first = range.touched_huge_pages();
    (0..first.len.0).map(move |i| {
        let huge_page = first.start + HugePages(i);
        let start = huge_page.first_page();
        let from = range.start.0.saturating_sub(start.0);
        let to = (range.end().0 - start.0).min(PAGES);
        let index = (huge_page - BASE).0 as usize;
        if to - from == PAGES {
            return (index, [u64::MAX; 4], true);
        }
        let mut mask = [0; 4];
        crate::page_bits::set(&mut mask, from as usize, (to - from) as usize);
        (index, mask, false)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(
        memory: &mut CountingMemory,
        huge_pages: u64,
    ) -> impl Fn(u64, u64) -> PageRange + use<> {
        let start = memory.reserve(HugePages(huge_pages)).unwrap().start.first_page();
        move |from, len| PageRange { start: start + Pages(from), len: Pages(len) }
    }

    fn resident(memory: &CountingMemory) -> (u64, u64) {
        (memory.resident().pages.0, memory.resident().on_huge_pages.0)
    }

    #[test]
    fn a_touch_gets_a_huge_page_and_a_partial_release_splits_it() {
        let mut memory = CountingMemory::new();
        let range = pages(&mut memory, 4);
        memory.touch(range(10, 1));
        assert_eq!(resident(&memory), (256, 256));
        memory.touch(range(250, 10));
        assert_eq!(resident(&memory), (512, 512));
        assert!(memory.release(range(0, 100)));
        assert_eq!(resident(&memory), (412, 256));
        memory.touch(range(50, 10));
        assert_eq!(resident(&memory), (422, 256));
        assert!(memory.release(range(0, 256)));
        memory.touch(range(0, 1));
        assert_eq!(resident(&memory), (512, 512));
        assert!(memory.release(range(0, 512)));
        assert_eq!(resident(&memory), (0, 0));
        assert_eq!(memory.calls().huge_pages_split, 1);
    }

    #[test]
    fn without_huge_pages_each_page_is_backed_alone() {
        let mut memory = CountingMemory::new();
        memory.without_huge_pages(true);
        let range = pages(&mut memory, 1);
        memory.touch(range(3, 5));
        memory.touch(range(4, 5));
        assert_eq!(resident(&memory), (6, 0));
        assert_eq!(memory.calls().faults, 6);
    }

    #[test]
    fn refusals_change_nothing() {
        let mut memory = CountingMemory::limited(HugePages(2));
        assert_eq!(memory.reserve(HugePages(3)), None);
        let range = pages(&mut memory, 2);
        assert_eq!(memory.reserve(HugePages(1)), None);
        memory.touch(range(0, 1));
        memory.refuse_release(true);
        assert!(!memory.release(range(0, 256)));
        assert_eq!(resident(&memory), (256, 256));
    }
}
