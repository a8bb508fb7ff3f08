//! Zeroed numbers on huge pages.

use alloc::alloc::{Layout, handle_alloc_error};
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Bytes of a huge page of the host.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Arrays of this many bytes are worth huge pages of their own.
const LARGE_BYTES: usize = HUGE_PAGE_BYTES / 4;

/// A number whose zero has all bits zero.
pub trait Number: Copy + sealed::Sealed {}

mod sealed {
    pub trait Sealed {}
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl sealed::Sealed for $number {}
        impl Number for $number {}
    )*};
}
numbers!(u8 u16 u32 u64);

// Bytes that are used together, such as a line of the host's cache.
impl<const N: usize> sealed::Sealed for [u8; N] {}
impl<const N: usize> Number for [u8; N] {}

/// Numbers in memory of their own from the kernel, zero at first. A large array begins with a huge
/// page and asks for such; a kernel that has none refuses, and the array is slower then and nothing
/// else. Memory is taken when it is first written to.
pub struct Array<T: Number> {
    first: NonNull<T>,
    len: usize,
    /// The mapping that the numbers lie in, and its bytes; none for an empty array.
    mapping: Option<(NonNull<u8>, usize)>,
}

// SAFETY: an array owns its numbers as a vector does, and numbers may go to any thread.
unsafe impl<T: Number> Send for Array<T> {}
// SAFETY: as above; without `&mut` they are only read.
unsafe impl<T: Number> Sync for Array<T> {}

impl<T: Number> Array<T> {
    /// `len` zeroes.
    ///
    /// # Panics
    /// Ends the program as a vector does if the kernel has no memory left to promise.
    pub fn zeroed(len: usize) -> Array<T> {
        let layout = Layout::array::<T>(len).expect("more than the address space");
        let Some(align) = Self::alignment(layout.size()) else {
            return Array { first: NonNull::dangling(), len, mapping: None };
        };
        // What is never used of the room to align in costs no memory.
        let bytes = layout.size().next_multiple_of(align) + align;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: the kernel chooses the place of a new mapping, so nothing else lies there.
        let start = unsafe { mmap_anonymous(core::ptr::null_mut(), bytes, protection, flags) };
        let Some(start) = start.ok().and_then(|start| NonNull::new(start.cast::<u8>())) else {
            handle_alloc_error(layout);
        };
        let skipped = start.as_ptr().align_offset(align);
        // SAFETY: `bytes` has room for the array after at most `align` bytes.
        let first = unsafe { start.add(skipped) };
        if align == HUGE_PAGE_BYTES {
            let whole = layout.size().next_multiple_of(align);
            // SAFETY: the range lies in the mapping, and MADV_HUGEPAGE changes neither its content
            // nor who may use it.
            let _ = unsafe { madvise(first.as_ptr().cast(), whole, Advice::LinuxHugepage) };
        }
        Array { first: first.cast(), len, mapping: Some((start, bytes)) }
    }

    /// Alignment of an array of `bytes` bytes; `None` for an empty one.
    fn alignment(bytes: usize) -> Option<usize> {
        const PAGE_BYTES: usize = 4096;
        match bytes {
            0 => None,
            LARGE_BYTES.. => Some(HUGE_PAGE_BYTES),
            _ => Some(PAGE_BYTES),
        }
    }
}

impl<T: Number> Drop for Array<T> {
    fn drop(&mut self) {
        if let Some((start, bytes)) = self.mapping {
            // SAFETY: the mapping is this array's alone, and no borrow of it is left.
            let unmapped = unsafe { munmap(start.as_ptr().cast(), bytes) };
            debug_assert!(unmapped.is_ok(), "{unmapped:?}");
        }
    }
}

impl<T: Number> Clone for Array<T> {
    fn clone(&self) -> Array<T> {
        let mut copy = Array::zeroed(self.len);
        copy.copy_from_slice(self);
        copy
    }
}

impl<T: Number> Deref for Array<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `first` begins `len` numbers of this array's mapping, all of them initialized:
        // the kernel zeroes new memory. (Without a mapping, `len` is 0 and `first` aligned.)
        unsafe { core::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<T: Number> DerefMut for Array<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`, and `&mut self` excludes other borrows.
        unsafe { core::slice::from_raw_parts_mut(self.first.as_ptr(), self.len) }
    }
}

impl<T: Number + fmt::Debug> fmt::Debug for Array<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn numbers_are_zero_aligned_and_as_many_as_asked_for() {
        let huge = HUGE_PAGE_BYTES / 4;
        for len in [0, 1, 16, 1000, huge / 4, huge, huge + 5] {
            let numbers = Array::<u32>::zeroed(len);
            assert_eq!((numbers.len(), numbers.iter().sum::<u32>()), (len, 0));
            let align = if len * 4 >= LARGE_BYTES { HUGE_PAGE_BYTES } else { 4 };
            assert_eq!(numbers.as_ptr() as usize % align, 0, "{len} numbers");
        }
    }

    #[test]
    fn a_copy_is_equal_and_apart() {
        let mut numbers = Array::<u8>::zeroed(3);
        numbers[2] = 7;
        let copy = numbers.clone();
        numbers[0] = 1;
        assert_eq!(copy[..], [0, 0, 7]);
        assert_eq!(format!("{numbers:?}"), "[1, 0, 7]");
        std::thread::spawn(move || assert_eq!(copy[2], 7)).join().unwrap();
    }
}
