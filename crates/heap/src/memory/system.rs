//! The running system: `mmap` and `madvise`.

use core::ffi::c_void;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use super::Memory;
use crate::storage::Mapped;
use crate::units::{HugePageId, HugePages, HugeRange, PageRange};

/// Memory of the running process.
///
/// Reservations grow with the heap, so that few calls serve a large heap and a small one does not
/// fill an address-space limit.
///
/// The first huge page that is used stays on small pages until a second one is needed: most
/// programs need less than a huge page holds, and should not pay for a whole one.
#[derive(Debug, Default)]
pub struct SystemMemory {
    reserved: HugePages,
    first: First,
}

/// The first huge page that is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum First {
    /// None is used so far.
    #[default]
    Unused,
    /// It is on small pages.
    Small(HugeRange),
    /// It is on a huge page as all others.
    Huge,
}

/// The first reservation: 64 MiB.
const SMALLEST_RESERVATION: HugePages = HugePages(32);
/// The largest reservation that was not asked for: 1 GiB.
const LARGEST_RESERVATION: HugePages = HugePages(512);

impl SystemMemory {
    /// Memory of which nothing is reserved yet.
    pub const fn new() -> SystemMemory {
        SystemMemory { reserved: HugePages::ZERO, first: First::Unused }
    }

    /// Address space reserved so far.
    pub const fn reserved(&self) -> HugePages {
        self.reserved
    }
}

impl Memory for SystemMemory {
    type Storage = Mapped;

    fn reserve(&mut self, len: HugePages) -> Option<HugeRange> {
        let ample = self.reserved.clamp(SMALLEST_RESERVATION, LARGEST_RESERVATION).max(len);
        let range = map_aligned(ample).or_else(|| map_aligned(len))?;
        // With THP set to `madvise` only advised mappings get huge pages; with `always` the advice
        // makes page faults try harder. It fails where the kernel has no THP, which changes nothing.
        advise(range.pages(), Advice::LinuxHugepage);
        self.reserved += range.len;
        Some(range)
    }

    fn back(&mut self, range: HugeRange) {
        match self.first {
            First::Unused if range.len == HugePages::ONE => {
                advise(range.pages(), Advice::LinuxNoHugepage);
                self.first = First::Small(range);
            }
            First::Small(first) => {
                advise(first.pages(), Advice::LinuxHugepage);
                collapse(first);
                self.first = First::Huge;
            }
            First::Unused => self.first = First::Huge,
            First::Huge => {}
        }
    }

    fn release(&mut self, range: PageRange) -> bool {
        advise(range, Advice::LinuxDontNeed)
    }
}

/// Maps `len` huge pages at a multiple of a huge page: maps one more and cuts the ends off.
fn map_aligned(len: HugePages) -> Option<HugeRange> {
    let size = usize::try_from(len.0.checked_mul(HugePages::SIZE)?).ok()?;
    let ample = size.checked_add(HugePages::SIZE as usize)?;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: without an address the kernel picks a place that nothing else occupies.
    let mapped =
        unsafe { mmap_anonymous(core::ptr::null_mut(), ample, protection, flags) }.ok()? as usize;
    let start = mapped.next_multiple_of(HugePages::SIZE as usize);
    unmap(mapped, start - mapped);
    unmap(start + size, mapped + ample - (start + size));
    Some(HugeRange { start: HugePageId(start as u64 / HugePages::SIZE), len })
}

/// Unmaps an end of a fresh mapping. If the kernel refuses, the address space is lost, not wrong.
fn unmap(start: usize, size: usize) {
    if size > 0 {
        // SAFETY: the end of a mapping that was just made and that nothing refers to.
        let _ = unsafe { munmap(start as *mut c_void, size) };
    }
}

/// Puts a range that is in use on huge pages at once, where the kernel can (`MADV_COLLAPSE`, 6.1);
/// elsewhere its daemon does so in time.
fn collapse(range: HugeRange) {
    const MADV_COLLAPSE: i32 = 25;
    let (start, size) = (range.start.address() as *mut c_void, range.len.bytes() as usize);
    // SAFETY: the range lies in a mapping that `reserve` made, and keeps its contents. The C
    // library's call, unlike rustix's, sets `errno`, which malloc must not.
    unsafe {
        let errno = *libc::__errno_location();
        libc::madvise(start, size, MADV_COLLAPSE);
        *libc::__errno_location() = errno;
    }
}

fn advise(range: PageRange, advice: Advice) -> bool {
    let start = range.start.address() as *mut c_void;
    // SAFETY: the range lies in a mapping that `reserve` made. `LinuxHugepage` keeps its contents,
    // and `LinuxDontNeed` is asked for by the page heap alone, for pages that are in no span.
    unsafe { madvise(start, range.len.bytes() as usize, advice) }.is_ok()
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
    fn the_first_huge_page_stays_small_until_a_second_is_needed() {
        let mut memory = SystemMemory::new();
        let range = memory.reserve(HugePages(2)).unwrap();
        let (first, second) = range.split(HugePages::ONE);
        memory.back(first);
        assert_eq!(memory.first, First::Small(first));
        let byte = first.start.address() as *mut u8;
        // SAFETY: the first byte of the reservation.
        unsafe { byte.write(7) };
        memory.back(HugeRange { len: HugePages::ONE, ..second });
        assert_eq!(memory.first, First::Huge);
        // SAFETY: as above.
        assert_eq!(unsafe { byte.read() }, 7);
    }

    #[test]
    fn absurd_sizes_are_refused() {
        let mut memory = SystemMemory::new();
        assert_eq!(memory.reserve(HugePages(u64::MAX)), None);
        assert_eq!(memory.reserve(HugePages(u64::MAX >> HugePages::SHIFT)), None);
        assert_eq!(memory.reserved(), HugePages::ZERO);
    }
}
