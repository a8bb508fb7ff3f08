//! A pointer that is set once, when its target is first needed.

use super::atomic::{AtomicPtr, Ordering::*};

/// The place: null until it is filled. Zeroed memory is an empty one.
#[derive(Debug)]
#[repr(transparent)]
pub struct Place<T>(AtomicPtr<T>);

impl<T> Place<T> {
    /// An empty place.
    pub const fn new() -> Place<T> {
        Place(AtomicPtr::new(core::ptr::null_mut()))
    }

    /// The target, fully initialized, or null.
    #[inline]
    pub fn get(&self) -> *mut T {
        self.0.load(Acquire)
    }

    /// Fills the place, if it is empty.
    ///
    /// # Errors
    /// The target that another thread has put there meanwhile, fully initialized.
    pub fn fill(&self, fresh: *mut T) -> Result<(), *mut T> {
        self.0.compare_exchange(core::ptr::null_mut(), fresh, Release, Acquire).map(drop)
    }
}

impl<T> Default for Place<T> {
    fn default() -> Self {
        Place::new()
    }
}
