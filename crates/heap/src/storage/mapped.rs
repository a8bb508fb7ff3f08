//! Storage mapped from the kernel, page by page untouched until it is used.

use core::alloc::Layout;
use core::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use super::Storage;
use crate::mapping::{advise, collapse, map_aligned};
use crate::units::{HugePageId, HugePages, HugeRange};

/// Storage that is mapped from the kernel: what a heap that is the program's malloc needs.
///
/// Every piece is a mapping of its own, so it suits few and large pieces, such as the chunks of a
/// [`Slab`](super::Slab).
#[derive(Clone, Copy, Debug, Default)]
pub struct Mapped;

/// Mappings are aligned to the smallest page of any Linux, which is more than any record needs.
const ALIGNMENT: usize = 4096;

/// Pieces of this size are used here and there: with THP set to `always`, each place would cost a
/// huge page.
const SPARSE: usize = 1 << 20;

// SAFETY: an anonymous private mapping is zeroed, readable, writable, and handed out once until it
// is unmapped.
unsafe impl Storage for Mapped {
    fn take(layout: Layout) -> Option<NonNull<u8>> {
        assert!(layout.align() <= ALIGNMENT, "no record asks for {} bytes", layout.align());
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: without an address the kernel picks a place that nothing else occupies.
        let mapped = unsafe {
            mmap_anonymous(core::ptr::null_mut(), layout.size(), protection, MapFlags::PRIVATE)
        };
        let place = mapped.ok()?;
        if layout.size() >= SPARSE {
            // SAFETY: a whole mapping that was just made. Where the kernel has no huge pages the
            // advice fails and is not needed.
            let _ = unsafe { madvise(place, layout.size(), Advice::LinuxNoHugepage) };
        }
        NonNull::new(place.cast())
    }

    fn take_huge_page() -> Option<NonNull<u8>> {
        let range = map_aligned(HugePages::ONE)?;
        advise(range.pages(), Advice::LinuxNoHugepage);
        NonNull::new(range.start.address() as *mut u8)
    }

    unsafe fn settle(place: NonNull<u8>) {
        let start = HugePageId(place.as_ptr() as u64 / HugePages::SIZE);
        let range = HugeRange { start, len: HugePages::ONE };
        advise(range.pages(), Advice::LinuxHugepage);
        collapse(range);
    }

    unsafe fn give_back(place: NonNull<u8>, layout: Layout) {
        // SAFETY: this is a whole mapping that `take` made and nothing uses any more.
        let unmapped = unsafe { munmap(place.as_ptr().cast(), layout.size()) };
        debug_assert!(unmapped.is_ok(), "a mapping of the heap's own can be unmapped");
    }
}

/// Calls `act` with zeroed memory that is mapped for this call. `None` if there is none.
pub fn with_scratch<T>(bytes: usize, act: impl FnOnce(&mut [u8]) -> T) -> Option<T> {
    let layout = Layout::from_size_align(bytes, ALIGNMENT).ok()?;
    let place = Mapped::take(layout)?;
    // SAFETY: the storage is ours until it is given back, and has this size.
    let result = act(unsafe { core::slice::from_raw_parts_mut(place.as_ptr(), bytes) });
    // SAFETY: nothing uses the storage any more.
    unsafe { Mapped::give_back(place, layout) };
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_zeroed_aligned_and_apart() {
        let layout = Layout::from_size_align(10_000, 64).unwrap();
        let [one, two] = [Mapped::take(layout).unwrap(), Mapped::take(layout).unwrap()];
        for place in [one, two] {
            assert_eq!(place.as_ptr() as usize % 64, 0);
            // SAFETY: `take` gave 10,000 bytes that are ours until they are given back.
            let bytes = unsafe { core::slice::from_raw_parts_mut(place.as_ptr(), 10_000) };
            assert!(bytes.iter().all(|&byte| byte == 0));
            bytes.fill(1);
        }
        for place in [one, two] {
            // SAFETY: both came from `take` with this layout and are not used any more.
            unsafe { Mapped::give_back(place, layout) };
        }
    }
}
