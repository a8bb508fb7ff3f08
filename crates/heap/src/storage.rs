//! Storage for the heap's metadata, which never comes from the heap itself.
//!
//! A `Slab` is a growing table of records, addressed by `Key`s. It takes memory in chunks of
//! doubling size from a [`Storage`] and never moves a record, so that growing costs no copy and a
//! key is found with one count of leading zeros.

mod mapped;
mod slab;
mod zeroed;

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::units::HugePages;

pub(crate) use mapped::{Mapped, with_scratch};
pub(crate) use slab::{Key, Slab};
pub(crate) use zeroed::{Zeroable, Zeroed};

/// A source of storage for the heap's metadata.
///
/// # Safety
/// Storage that `take` returns is valid for reads and writes of `layout`, zeroed, and the caller's
/// alone until it is given back.
pub unsafe trait Storage: core::fmt::Debug {
    /// Zeroed storage of a layout, or `None` if there is no more. Never called with size 0.
    fn take(layout: Layout) -> Option<NonNull<u8>>;

    /// Zeroed storage of the size of a huge page, that will be used from its start on and never
    /// given back. It is on small pages until [`Storage::settle`].
    fn take_huge_page() -> Option<NonNull<u8>> {
        Self::take(Layout::from_size_align(HugePages::SIZE as usize, 4096).ok()?)
    }

    /// Puts what [`Storage::take_huge_page`] gave on a huge page, where the system has them.
    ///
    /// # Safety
    /// `place` came from there.
    unsafe fn settle(_place: NonNull<u8>) {}

    /// Gives storage back.
    ///
    /// # Safety
    /// `place` came from `take` with the same `layout`, and nothing uses it any more.
    unsafe fn give_back(place: NonNull<u8>, layout: Layout);
}

/// Storage from Rust's global allocator: for playback and tests, never for a heap that is that
/// allocator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocated;

// SAFETY: the global allocator makes the same promise for `alloc_zeroed`.
unsafe impl Storage for Allocated {
    fn take(layout: Layout) -> Option<NonNull<u8>> {
        debug_assert_ne!(layout.size(), 0);
        // SAFETY: the layout's size is not 0, by the trait's promise.
        NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })
    }

    unsafe fn give_back(place: NonNull<u8>, layout: Layout) {
        // SAFETY: `place` came from `alloc_zeroed` with this layout, by the caller's promise.
        unsafe { std::alloc::dealloc(place.as_ptr(), layout) }
    }
}
