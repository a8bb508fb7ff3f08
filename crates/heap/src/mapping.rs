//! Address space by whole huge pages: mapped, and what the kernel is advised to do with it.

use core::ffi::c_void;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::system_call::system_call;
use crate::units::{HugePageId, HugePages, HugeRange, PageRange};

/// Maps `len` huge pages at a multiple of a huge page: maps one more and cuts the ends off.
pub fn map_aligned(len: HugePages) -> Option<HugeRange> {
    let size = usize::try_from(len.0.checked_mul(HugePages::SIZE)?).ok()?;
    let ample = size.checked_add(HugePages::SIZE as usize)?;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: without an address the kernel picks a place that nothing else occupies.
    let mapped =
        unsafe { mmap_anonymous(core::ptr::null_mut(), ample, protection, flags) }.ok()? as usize;
    let start = mapped.next_multiple_of(HugePages::SIZE as usize);
    unmap_end(mapped, start - mapped);
    unmap_end(start + size, mapped + ample - (start + size));
    Some(HugeRange { start: HugePageId(start as u64 / HugePages::SIZE), len })
}

/// Unmaps an end of a fresh mapping. If the kernel refuses, the address space is lost, not wrong.
fn unmap_end(start: usize, size: usize) {
    if size > 0 {
        // SAFETY: the end of a mapping that was just made and that nothing refers to.
        let _ = unsafe { munmap(start as *mut c_void, size) };
    }
}

/// Unmaps a part of what [`map_aligned`] gave. False if the kernel refuses, as it may where that
/// would split a mapping in two; nothing has changed then.
pub fn unmap(range: HugeRange) -> bool {
    let start = range.start.address() as *mut c_void;
    // SAFETY: the page heap alone requests this, for huge pages that no span lies on.
    unsafe { munmap(start, range.len.bytes() as usize) }.is_ok()
}

/// Puts a range that is in use on huge pages at once, where the kernel can (`MADV_COLLAPSE`, 6.1);
/// elsewhere its daemon does so in time.
pub fn collapse(range: HugeRange) {
    const MADV_COLLAPSE: usize = 25;
    let (start, size) = (range.start.address() as usize, range.len.bytes() as usize);
    // SAFETY: the range lies in a mapping that `map_aligned` made, and keeps its contents.
    unsafe { system_call(libc::SYS_madvise, [start, size, MADV_COLLAPSE, 0, 0, 0]) };
}

/// Smallest size of a page of the system.
const SMALLEST_PAGE: usize = 4 << 10;

/// The share of a huge page that has memory: of pages, those that were touched and not released
/// (`mincore`). 0 where the kernel does not tell.
pub fn resident_share(page: HugePageId) -> f64 {
    let mut is_resident = [0u8; HugePages::SIZE as usize / SMALLEST_PAGE];
    let pages = HugePages::SIZE as usize / rustix::param::page_size();
    let range = [page.address() as usize, HugePages::SIZE as usize];
    // SAFETY: the kernel writes a byte for each page of the system in the range, and there are at
    // most as many as the array has.
    unsafe {
        let place = (&raw mut is_resident) as usize;
        system_call(libc::SYS_mincore, [range[0], range[1], place, 0, 0, 0])
    };
    let resident = is_resident[..pages].iter().filter(|&&byte| byte & 1 == 1).count();
    resident as f64 / pages as f64
}

/// Advises the kernel about a range that [`map_aligned`] gave. Whether it took the advice.
pub fn advise(range: PageRange, advice: Advice) -> bool {
    let start = range.start.address() as *mut c_void;
    // SAFETY: the range lies in a mapping that `map_aligned` made. `LinuxHugepage` keeps its
    // contents, and `LinuxDontNeed` is requested by the page heap alone, for pages that are in no
    // span or that a span is about to lose.
    unsafe { madvise(start, range.len.bytes() as usize, advice) }.is_ok()
}
