//! An entry of the table of the CPUs' caches.
//!
//! The threads of a CPU use what its entry names, in restartable sequences: on one CPU these come
//! one after the other, each reads the entry anew, and those of different CPUs share nothing. An
//! entry begins with a stand-in that is empty and full at once.

use super::atomic::{AtomicPtr, Ordering::*};

/// Replaces a stand-in by a cache of the CPU's own, if it still is there. Whether it did.
pub fn replace_stand_in<T>(entry: &AtomicPtr<T>, stand_in: *mut T, fresh: *mut T) -> bool {
    entry.compare_exchange(stand_in, fresh, Release, Relaxed).is_ok()
}

/// Takes a CPU's cache away from it, has `empty` do with it what it wants, and gives it back.
///
/// `stand_in` is in its place meanwhile. `fence` must see to it that no sequence of the CPU that has
/// read the entry before goes on; if it cannot, and says so, the cache is left alone. One thread at
/// a time does so.
pub fn borrow<T>(
    entry: &AtomicPtr<T>,
    cache: *mut T,
    stand_in: *mut T,
    fence: impl FnOnce() -> bool,
    empty: impl FnOnce(),
) {
    entry.store(stand_in, SeqCst);
    if fence() {
        empty();
    }
    entry.store(cache, Release);
}
