//! Address space by whole huge pages: mapped, and what the kernel is advised to do with it.

use core::ffi::c_void;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

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
pub fn collapse(range: HugeRange) {
    const MADV_COLLAPSE: usize = 25;
    let (start, size) = (range.start.address() as usize, range.len.bytes() as usize);
    // SAFETY: the range lies in a mapping that `reserve` made, and keeps its contents.
    unsafe { madvise_raw(start, size, MADV_COLLAPSE) };
}

/// `madvise` with an advice that rustix does not know. A system call of its own: the C library's
/// function sets `errno`, which malloc must not. The result is of no use.
///
/// # Safety
/// As for [`madvise`].
unsafe fn madvise_raw(start: usize, size: usize, advice: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's promise; the kernel changes these registers alone.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") libc::SYS_madvise => _,
            in("rdi") start,
            in("rsi") size,
            in("rdx") advice,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") libc::SYS_madvise,
            inlateout("x0") start => _,
            in("x1") size,
            in("x2") advice,
            options(nostack),
        );
    }
}

/// Advises the kernel about a range that [`map_aligned`] gave. Whether it took the advice.
pub fn advise(range: PageRange, advice: Advice) -> bool {
    let start = range.start.address() as *mut c_void;
    // SAFETY: the range lies in a mapping that `map_aligned` made. `LinuxHugepage` keeps its
    // contents, and `LinuxDontNeed` is requested by the page heap alone, for pages that are in no
    // span.
    unsafe { madvise(start, range.len.bytes() as usize, advice) }.is_ok()
}
