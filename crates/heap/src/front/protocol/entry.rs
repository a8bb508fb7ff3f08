//! An entry of the table of the CPUs' caches.
//!
//! The threads of a CPU use what its entry names, in restartable sequences: on one CPU these come
//! one after the other, each reads the entry again, and those of different CPUs share nothing. An
//! entry begins with a stand-in that is empty and full at once.

use super::atomic::{AtomicPtr, Ordering::*};

/// Replaces a stand-in with a cache of the CPU's own, if it is still there. Whether it did.
pub fn replace_stand_in<T>(entry: &AtomicPtr<T>, stand_in: *mut T, fresh: *mut T) -> bool {
    entry.compare_exchange(stand_in, fresh, Release, Relaxed).is_ok()
}

/// Takes a CPU's cache away, passes it to `empty`, and gives it back.
///
/// `stand_in` is in its place meanwhile. `fence` must ensure that no sequence of the CPU that has
/// read the entry before goes on; if it returns that it cannot, the cache is left alone. One thread
/// at a time does so.
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
