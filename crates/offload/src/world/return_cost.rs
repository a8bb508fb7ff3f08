//! The cost of a refault, measured on this host with the daemon's own pages.
//!
//! Some pages are filled, handed to the kernel for eviction, and read again under a clock. What a
//! major fault took on average, decompression or device included, is the cost of one return.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr;
use std::time::{Duration, Instant};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Pages that are tried: some 10 ms on zswap.
const PAGES: usize = 128;

const PAGE: usize = 4096;

/// The paper's cost of a read from compressed memory (p90, §2.5), where none can be measured.
pub const FALLBACK: Duration = Duration::from_micros(40);

/// The mean cost of a major fault on this host's swap, or nothing where no page left: no swap, no
/// room in it, or a kernel that would not evict.
pub fn measure() -> Option<Duration> {
    let len = PAGES * PAGE;
    let flags = MapFlags::PRIVATE;
    // SAFETY: a new mapping at a place of the kernel's choice touches no memory that is in use.
    let start =
        unsafe { mmap_anonymous(ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags) };
    let start = start.ok()?;
    let cost = measure_in(start, len);
    // SAFETY: the mapping of that length was made above, and no reference into it remains.
    let _ = unsafe { munmap(start, len) };
    cost
}

fn measure_in(start: *mut c_void, len: usize) -> Option<Duration> {
    // SAFETY: the mapping is ours alone, readable and writable for `len` bytes until after this
    // function; advice does not change what its bytes are.
    let (bytes, evict) = unsafe {
        // Small pages: a huge one would go to the device whole, past zswap.
        let _ = madvise(start, len, Advice::LinuxNoHugepage);
        let bytes = std::slice::from_raw_parts_mut(start.cast::<u8>(), len);
        (bytes, || madvise(start, len, Advice::LinuxPageOut))
    };
    fill(bytes);
    evict().ok()?;
    let before = major_faults();
    let started = Instant::now();
    // Backwards and by a stride, so that readahead does not fetch the next page with each.
    let order = (0..PAGES).map(|at| PAGES - 1 - at * 37 % PAGES);
    let sum: u64 = order.map(|page| u64::from(bytes[page * PAGE])).sum();
    std::hint::black_box(sum);
    let took = started.elapsed();
    let faults = major_faults().saturating_sub(before);
    (faults >= PAGES as u64 / 8).then(|| took / faults as u32)
}

/// Half noise, half zeros: compresses by two, as data do.
fn fill(bytes: &mut [u8]) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for page in bytes.chunks_mut(PAGE) {
        for word in page[..PAGE / 2].chunks_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_ne_bytes());
        }
    }
}

/// Major faults of this thread so far.
pub(crate) fn major_faults() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call fills the structure that it is given, and all zeros are a valid one.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_majflt.max(0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_reported_only_if_pages_left() {
        let has_swap = std::fs::read_to_string("/proc/swaps").is_ok_and(|t| t.lines().count() > 1);
        match measure() {
            Some(cost) => assert!(has_swap && cost > Duration::from_nanos(500), "{cost:?}"),
            None => assert!(!has_swap),
        }
    }
}
