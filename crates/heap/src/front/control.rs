//! Data that the fast paths read: constant once the heap is set up, in one cache line.
//!
//! Before setup, the limits are 0 and the window is closed, which sends every call to the slow
//! path. It stays so where the C library has no registered area for restartable sequences.

use core::sync::atomic::{AtomicIsize, AtomicU64, AtomicUsize};

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
}

/// The process's.
pub static CONTROL: Control = Control {
    fast_limit: AtomicUsize::new(0),
    table_limit: AtomicUsize::new(0),
    rseq_offset: AtomicIsize::new(0),
    window: Window::new(),
    free_mark: AtomicU64::new(0),
};
