//! The window: the pages whose size classes lie in one array, which a free finds with one load.

use core::ptr::null_mut;

use super::atomic::{AtomicPtr, AtomicU8, AtomicU64, Ordering::*};

/// Start of a window that is not open: so far from all pages that none lies in it, whichever of its
/// other fields a thread has seen change.
const NOWHERE: u64 = 1 << 63;

/// The pages whose classes lie in one array. It is opened once.
#[repr(C)]
#[derive(Debug)]
pub struct Window {
    /// Number of the first page.
    pub start: AtomicU64,
    /// Number of pages; 0 until it is open.
    pub pages: AtomicU64,
    /// The code of the class of each, and behind the last one two marks for each.
    pub classes: AtomicPtr<AtomicU8>,
}

/// Page size, as a power of two of bytes.
const PAGE_SHIFT: u32 = 13;
const MARK_SHIFT: u32 = 12;
/// Bytes of the window that share a mark.
pub const MARK_BYTES: usize = 1 << MARK_SHIFT;

impl Window {
    /// A window that is not open.
    pub const fn new() -> Window {
        Window { start: AtomicU64::new(NOWHERE), ..Window::zeroed() }
    }

    /// The same in zeroed memory, for threads that do not search it while others open it.
    pub const fn zeroed() -> Window {
        Window {
            start: AtomicU64::new(0),
            pages: AtomicU64::new(0),
            classes: AtomicPtr::new(null_mut()),
        }
    }

    /// Opens it. Several threads may do so at once with the same arguments.
    pub fn open(&self, start: u64, pages: u64, classes: *mut AtomicU8) {
        self.classes.store(classes, Relaxed);
        self.start.store(start, Release);
        self.pages.store(pages, Release);
    }

    /// Opens it like another one, if that is open.
    pub fn open_as(&self, other: &Window) {
        let pages = other.pages.load(Acquire);
        if pages != 0 {
            self.open(other.start.load(Relaxed), pages, other.classes.load(Relaxed));
        }
    }

    /// Whether it is open, for all that the thread does afterwards.
    pub fn is_open(&self) -> bool {
        self.pages.load(Acquire) != 0
    }

    /// Where the class of a page lies, or null if that is not in the window.
    ///
    /// In the order of the fast path for x86-64, whose loads all acquire: the start first.
    /// If a page lies behind it, all other fields are visible.
    #[inline]
    pub fn find(&self, page: u64) -> *mut AtomicU8 {
        let index = page.wrapping_sub(self.start.load(Acquire));
        if index >= self.pages.load(Acquire) {
            return null_mut();
        }
        // Within the array, as the index is less than the number of its entries.
        self.classes.load(Relaxed).wrapping_add(index as usize)
    }

    /// Where the mark of an address lies, or null if that is not in the window.
    #[inline]
    pub fn mark(&self, address: u64) -> *mut AtomicU8 {
        let class = self.find(address >> PAGE_SHIFT);
        if class.is_null() {
            return null_mut();
        }
        let (start, pages) = (self.start.load(Relaxed), self.pages.load(Relaxed));
        let number = (address >> MARK_SHIFT) - (start << (PAGE_SHIFT - MARK_SHIFT));
        // Within the array, which has two marks for each page behind its classes.
        self.classes.load(Relaxed).wrapping_add((pages + number) as usize)
    }
}

impl Default for Window {
    fn default() -> Self {
        Window::new()
    }
}
