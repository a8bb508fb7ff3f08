//! The heap as a Rust program's global allocator.

use core::alloc::{GlobalAlloc, Layout};

use super::malloc;
use super::reallocate::reallocate;
use crate::front::size_class::GRANULE;

/// Prairie's heap for a Rust program: what Rust allocates comes from it, what C libraries in the
/// program allocate does not.
///
/// Use [`global_allocator!`](crate::global_allocator): a program that names the type itself lacks
/// what the heap does at load and at exit (handlers for fork, the thread that gives memory back,
/// statistics).
///
/// ```
/// prairie_heap::global_allocator!();
///
/// let numbers: Vec<u32> = (0..1000).collect();
/// assert_eq!(numbers.iter().sum::<u32>(), 499_500);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct PrairieHeap;

/// Makes [`PrairieHeap`] the global allocator of the program that calls this macro, at the top
/// level of one of its modules.
#[macro_export]
macro_rules! global_allocator {
    () => {
        #[global_allocator]
        static PRAIRIE_HEAP: $crate::PrairieHeap = $crate::PrairieHeap;

        $crate::run_at_load_and_exit!();
    };
}

// SAFETY: objects are as large and as aligned as requested, belong to the caller alone until they
// are freed, and stay where they are.
unsafe impl GlobalAlloc for PrairieHeap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= GRANULE {
            malloc::allocate_quickly(layout.size())
        } else {
            malloc::allocate_aligned(layout.size(), layout.align())
        }
    }

    #[inline]
    unsafe fn dealloc(&self, object: *mut u8, _: Layout) {
        // SAFETY: the caller's promise.
        unsafe { malloc::free_quickly(object) };
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= GRANULE {
            return malloc::allocate_zeroed(layout.size());
        }
        let object = malloc::allocate_aligned(layout.size(), layout.align());
        if !object.is_null() {
            // SAFETY: the object is ours and holds the layout's size.
            unsafe { object.write_bytes(0, layout.size()) };
        }
        object
    }

    unsafe fn realloc(&self, object: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() <= GRANULE {
            // SAFETY: the caller's promise; Rust's sizes are not 0 here.
            return unsafe { reallocate(object, size) };
        }
        let fresh = malloc::allocate_aligned(size, layout.align());
        if !fresh.is_null() {
            // SAFETY: two objects of at least as many bytes; the old one is the caller's to free.
            unsafe {
                fresh.copy_from_nonoverlapping(object, layout.size().min(size));
                malloc::free(object);
            }
        }
        fresh
    }
}
