//! Data that the fast paths read: constant once the heap is set up, in one cache line.
//!
//! Before setup, the limits are 0 and the window is closed, which sends every call to the slow
//! path. It stays so where the C library has no registered area for restartable sequences.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicIsize, AtomicU8, AtomicU64, AtomicUsize, Ordering::*};

use super::protocol::window::Window;

/// Data of the fast paths.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Control {
    /// Allocations of 1 to this many bytes take the fast path. 0 while allocations are sampled:
    /// then each is counted.
    pub fast_limit: AtomicUsize,
    /// Larger ones up to this many bytes take it too, with their class from a table. Also 0 while
    /// allocations are sampled.
    pub table_limit: AtomicUsize,
    /// Offset of the registered area from the thread pointer.
    pub rseq_offset: AtomicIsize,
    /// The page map's window.
    pub window: Window,
    /// The second word of a small object that is free is its address exclusive-or this key. It is
    /// random for each process, so no program holds such a word by chance.
    pub free_mark: AtomicU64,
    /// Pages of the window whose objects the fast path of free takes: all of them, or 0 where there
    /// are several NUMA nodes, as the node of an object decides there.
    pub free_pages: AtomicU64,
}

impl Control {
    /// Where the class of a page lies, or null if the fast path of free does not take its objects.
    /// In the order of the fast path for x86-64, as [`Window::find`].
    #[inline]
    pub fn class_for_free(&self, page: u64) -> *mut AtomicU8 {
        let index = page.wrapping_sub(self.window.start.load(Acquire));
        if index >= self.free_pages.load(Acquire) {
            return null_mut();
        }
        // Within the array, as the index is less than the number of its entries.
        self.window.classes.load(Relaxed).wrapping_add(index as usize)
    }
}

const _: () = assert!(size_of::<Control>() == 64, "one cache line");

/// The process's.
pub static CONTROL: Control = Control {
    fast_limit: AtomicUsize::new(0),
    table_limit: AtomicUsize::new(0),
    rseq_offset: AtomicIsize::new(0),
    window: Window::new(),
    free_mark: AtomicU64::new(0),
    free_pages: AtomicU64::new(0),
};
