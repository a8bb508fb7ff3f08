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
#[derive(Debug, Default)]
pub struct SystemMemory {
    reserved: HugePages,
}

/// The first reservation: 64 MiB.
const SMALLEST_RESERVATION: HugePages = HugePages(32);
/// The largest reservation that was not asked for: 1 GiB.
const LARGEST_RESERVATION: HugePages = HugePages(512);

impl SystemMemory {
    /// Memory of which nothing is reserved yet.
    pub const fn new() -> SystemMemory {
        SystemMemory { reserved: HugePages::ZERO }
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

    fn back(&mut self, _range: HugeRange) {}

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
    fn absurd_sizes_are_refused() {
        let mut memory = SystemMemory::new();
        assert_eq!(memory.reserve(HugePages(u64::MAX)), None);
        assert_eq!(memory.reserve(HugePages(u64::MAX >> HugePages::SHIFT)), None);
        assert_eq!(memory.reserved(), HugePages::ZERO);
    }
}
