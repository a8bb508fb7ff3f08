//! Memory of the host for large arrays that are read at random.
//!
//! The state of a simulated machine is megabytes to gigabytes, and most of its accesses miss the
//! host's caches. Two things keep that bearable: huge pages, so that the host's TLB does not miss
//! as well ([`Array`]), and prefetches, so that many of these misses wait together ([`prefetch`]).
//! Neither changes any result.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod array;

pub use array::{Array, Number};

/// Has an element brought into the host's cache and does not wait for it. Where the host has no
/// such instruction, and beyond the end, nothing happens.
#[inline]
pub fn prefetch<T>(elements: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(element) = elements.get(at) {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the address is that of a live element, and a prefetch is a hint: it reads
        // nothing into the program and cannot fault.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(element).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (elements, at);
}
