//! The running system: `mmap` and `madvise`.

use rustix::mm::Advice;

use super::Memory;
use crate::mapping::{advise, collapse, map_aligned, resident_share, unmap};
use crate::storage::Mapped;
use crate::units::{HugePages, HugeRange, PageRange};

/// Memory of the running process.
///
/// Reservations grow with the heap, so that few calls serve a large heap and a small one does not
/// fill an address-space limit.
///
/// The first huge pages that are used, 32 MiB of them, stay on small pages until more are
/// needed at once: most programs need less than these hold, and should not pay for whole ones. A
/// program that fills its memory does not pay, and gets whole ones from 8 MiB on. From the first
/// whole one on, each puts one of the first on a huge page as well.
#[derive(Debug)]
pub struct SystemMemory {
    reserved: HugePages,
    /// The huge pages that are on small pages.
    small: [Option<HugeRange>; SMALL_START],
    /// The ones among them with a released part: a bit each. Making them huge would bring released
    /// memory back.
    broken: u16,
    /// Whether more were needed, or the program fills its memory.
    outgrown: bool,
}

/// Huge pages that begin on small pages: 32 MiB (chosen).
const SMALL_START: usize = 16;
/// Huge pages that begin on small pages before the share that the program touches is checked: 8 MiB
/// (chosen: the first ones hold what a program sets up and does not fill).
const FEWEST_SMALL: usize = 4;
/// The last huge pages that this check covers (chosen).
const LAST: usize = 2;
/// The touched share of memory from which on small pages save nothing. Chosen between measured
/// shares: Redis, CPython, and memcached have touched 0.91 to 1, `rptest`, `alloc-test`, and
/// `mstress` 0.3 to 0.7.
const DENSE: f64 = 0.9;
/// The first reservation: 64 MiB.
const SMALLEST_RESERVATION: HugePages = HugePages(32);
/// The largest reservation beyond the request: 1 GiB.
const LARGEST_RESERVATION: HugePages = HugePages(512);

impl SystemMemory {
    /// Memory without any reservation yet.
    pub const fn new() -> SystemMemory {
        SystemMemory {
            reserved: HugePages::ZERO,
            small: [None; SMALL_START],
            broken: 0,
            outgrown: false,
        }
    }

    /// Whether the program has touched nearly all of the huge pages that it used last, before
    /// `room`.
    fn is_dense(&self, room: usize) -> bool {
        let last = (room - LAST..room).filter_map(|place| self.small[place]);
        let touched: f64 = last.map(|range| resident_share(range.start)).sum();
        touched >= DENSE * LAST as f64
    }

    /// Address space reserved so far.
    pub const fn reserved(&self) -> HugePages {
        self.reserved
    }
}

impl Default for SystemMemory {
    fn default() -> Self {
        SystemMemory::new()
    }
}

impl Memory for SystemMemory {
    type Storage = Mapped;

    fn reserve(&mut self, len: HugePages) -> Option<HugeRange> {
        let ample = self.reserved.clamp(SMALLEST_RESERVATION, LARGEST_RESERVATION).max(len);
        let range = map_aligned(ample).or_else(|| map_aligned(len))?;
        // With THP set to `madvise` only advised mappings get huge pages; with `always` the advice
        // makes page faults try harder. It fails where the kernel has no THP, which changes
        // nothing.
        advise(range.pages(), Advice::LinuxHugepage);
        self.reserved += range.len;
        Some(range)
    }

    fn back(&mut self, range: HugeRange) {
        let room = match range.len == HugePages::ONE && !self.outgrown {
            true => self.small.iter().position(Option::is_none),
            false => None,
        };
        // The kernel is asked only where its answer decides.
        if let Some(room) = room.filter(|&room| room < FEWEST_SMALL || !self.is_dense(room)) {
            advise(range.pages(), Advice::LinuxNoHugepage);
            self.small[room] = Some(range);
            self.broken &= !(1 << room);
            return;
        }
        self.outgrown = true;
        let whole = |place: &usize| self.broken & (1 << place) == 0;
        let mut places = (0..SMALL_START).filter(whole);
        if let Some(small) = places.find_map(|place| self.small[place].take()) {
            advise(small.pages(), Advice::LinuxHugepage);
            collapse(small);
        }
    }

    fn unreserve(&mut self, range: HugeRange) -> bool {
        let unmapped = unmap(range);
        if unmapped {
            self.reserved -= range.len;
        }
        unmapped
    }

    fn release(&mut self, range: PageRange) -> bool {
        if !advise(range, Advice::LinuxDontNeed) {
            return false;
        }
        for (number, place) in self.small.iter_mut().enumerate() {
            let Some(pages) = place.map(HugeRange::pages) else { continue };
            if range.start <= pages.start && pages.end() <= range.end() {
                // A whole huge page that is released returns to its initial state.
                advise(pages, Advice::LinuxHugepage);
                *place = None;
            } else if range.start < pages.end() && pages.start < range.end() {
                self.broken |= 1 << number;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{PageId, Pages};

    #[test]
    fn reserves_aligned_writable_memory_and_releases_it() {
        let mut memory = SystemMemory::new();
        let range = memory.reserve(HugePages(3)).unwrap();
        assert!(range.len >= HugePages(3));
        assert_eq!(memory.reserved(), range.len);
        let first = range.start.address() as *mut u8;
        let second_page = PageRange { start: range.start.first_page() + Pages(1), len: Pages(1) };
        let read = |page: PageId| {
            // SAFETY: the page lies in the range that was reserved for this test.
            unsafe { (page.address() as *const u8).read_volatile() }
        };
        // SAFETY: the first 16 KiB of a reservation of at least 6 MiB.
        unsafe { first.write_bytes(7, 16 << 10) };
        assert!(memory.release(second_page));
        assert_eq!(read(range.start.first_page()), 7);
        assert_eq!(read(second_page.start), 0);
    }

    #[test]
    fn the_first_huge_pages_stay_small_until_more_are_needed() {
        let mut memory = SystemMemory::new();
        let mut rest = memory.reserve(HugePages(2 * SMALL_START as u64)).unwrap();
        let mut next = || {
            let (first, after) = rest.split(HugePages::ONE);
            rest = after;
            first
        };
        let small = [(); SMALL_START].map(|()| next());
        for range in small {
            memory.back(range);
            // SAFETY: the first byte of a huge page of the reservation.
            unsafe { (range.start.address() as *mut u8).write(7) };
        }
        assert_eq!(memory.small, small.map(Some), "a byte of each is not dense");
        for still_small in (0..SMALL_START).rev() {
            memory.back(next());
            assert_eq!(memory.small.iter().flatten().count(), still_small);
        }
        for range in small {
            // SAFETY: as above.
            assert_eq!(unsafe { (range.start.address() as *mut u8).read() }, 7);
        }
    }

    #[test]
    fn a_program_that_fills_its_memory_gets_huge_pages_early() {
        let mut memory = SystemMemory::new();
        let mut rest = memory.reserve(HugePages(FEWEST_SMALL as u64 + 2)).unwrap();
        let mut use_next = |memory: &mut SystemMemory, share: f64| {
            let (first, after) = rest.split(HugePages::ONE);
            rest = after;
            memory.back(first);
            let bytes = (share * HugePages::SIZE as f64) as usize;
            // SAFETY: the beginning of a huge page of the reservation.
            unsafe { (first.start.address() as *mut u8).write_bytes(7, bytes) };
        };
        for _ in 2..FEWEST_SMALL {
            use_next(&mut memory, 0.1);
        }
        use_next(&mut memory, 0.8);
        use_next(&mut memory, 0.95);
        use_next(&mut memory, 0.9);
        assert!(!memory.outgrown, "of the last ones less than nine tenths were touched");
        use_next(&mut memory, 0.0);
        assert!(memory.outgrown);
        assert_eq!(memory.small.iter().flatten().count(), FEWEST_SMALL);
    }

    #[test]
    fn what_was_released_of_a_small_one_does_not_come_back() {
        let mut memory = SystemMemory::new();
        let mut rest = memory.reserve(HugePages(SMALL_START as u64 + 2)).unwrap();
        let mut next = || {
            let (first, after) = rest.split(HugePages::ONE);
            rest = after;
            first
        };
        let small = [(); SMALL_START].map(|()| next());
        small.iter().for_each(|&range| memory.back(range));
        let part = PageRange { start: small[0].start.first_page() + Pages(3), len: Pages(100) };
        assert!(memory.release(part));
        memory.back(next());
        assert_eq!((memory.small[0], memory.small[1]), (Some(small[0]), None));
        // All of it is released: its next use starts over.
        assert!(memory.release(small[0].pages()));
        assert_eq!(memory.small[0], None);
    }

    #[test]
    fn huge_pages_that_go_back_leave_room_for_other_small_ones() {
        let mut memory = SystemMemory::new();
        let mut rest = memory.reserve(HugePages(SMALL_START as u64 + 1)).unwrap();
        let ranges = [(); SMALL_START].map(|()| {
            let (first, after) = rest.split(HugePages::ONE);
            rest = after;
            memory.back(first);
            first
        });
        // Half of one does not count, all of two does.
        let half = PageRange { len: Pages(128), ..ranges[0].pages() };
        assert!(memory.release(half));
        assert!(memory.small.iter().all(Option::is_some));
        assert!(memory.release(HugeRange { len: HugePages(2), ..ranges[3] }.pages()));
        assert_eq!(memory.small.iter().flatten().count(), SMALL_START - 2);
        memory.back(rest.split(HugePages::ONE).0);
        memory.back(ranges[4]);
        assert!(memory.small.iter().all(Option::is_some) && !memory.outgrown);
        memory.back(ranges[3]);
        assert_eq!(memory.small.iter().flatten().count(), SMALL_START - 1);
    }

    #[test]
    fn a_program_that_begins_with_a_large_span_has_no_small_ones() {
        let mut memory = SystemMemory::new();
        let (two, rest) = memory.reserve(HugePages(3)).unwrap().split(HugePages(2));
        memory.back(two);
        memory.back(rest.split(HugePages::ONE).0);
        assert_eq!(memory.small, [None; SMALL_START]);
    }

    #[test]
    fn absurd_sizes_are_refused() {
        let mut memory = SystemMemory::new();
        assert_eq!(memory.reserve(HugePages(u64::MAX)), None);
        assert_eq!(memory.reserve(HugePages(u64::MAX >> HugePages::SHIFT)), None);
        assert_eq!(memory.reserved(), HugePages::ZERO);
    }
}
