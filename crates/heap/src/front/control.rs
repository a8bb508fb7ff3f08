//! What the fast paths read: constants once the heap is set up, in one cache line.
//!
//! All is nought before, which sends every call to the slow path, and stays nought where the C
//! library has no registered area for restartable sequences.

use core::sync::atomic::{AtomicIsize, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize};

/// What the fast paths read.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Control {
    /// Allocations of 1 to this many bytes take the fast path. Nought while allocations are
    /// sampled: then each is counted.
    pub fast_limit: AtomicUsize,
    /// Offset of the registered area from the thread pointer.
    pub rseq_offset: AtomicIsize,
    /// First page of the page map's window.
    pub window_start: AtomicU64,
    /// Pages of the page map's window.
    pub window_pages: AtomicU64,
    /// Class of each page of the window.
    pub window_classes: AtomicPtr<AtomicU8>,
    /// The second word of a free object is its address exclusive-or this key. It is drawn when the
    /// process starts, so no program holds such a word by chance.
    pub free_mark: AtomicU64,
}

/// The process's.
pub static CONTROL: Control = Control {
    fast_limit: AtomicUsize::new(0),
    rseq_offset: AtomicIsize::new(0),
    window_start: AtomicU64::new(0),
    window_pages: AtomicU64::new(0),
    window_classes: AtomicPtr::new(core::ptr::null_mut()),
    free_mark: AtomicU64::new(0),
};
