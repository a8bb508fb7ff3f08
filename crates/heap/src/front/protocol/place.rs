//! The place of something that is made when it is first needed, and stays for ever.

use super::atomic::{AtomicPtr, Ordering::*};

/// The place: null until it is filled. Memory of noughts is an empty one.
#[derive(Debug)]
#[repr(transparent)]
pub struct Place<T>(AtomicPtr<T>);

impl<T> Place<T> {
    /// An empty place.
    pub const fn new() -> Place<T> {
        Place(AtomicPtr::new(core::ptr::null_mut()))
    }

    /// What is there, as its maker left it, or null.
    #[inline]
    pub fn get(&self) -> *mut T {
        self.0.load(Acquire)
    }

    /// Fills the place, if it is empty.
    ///
    /// # Errors
    /// What another thread has put there meanwhile, as its maker left it.
    pub fn fill(&self, fresh: *mut T) -> Result<(), *mut T> {
        self.0.compare_exchange(core::ptr::null_mut(), fresh, Release, Acquire).map(drop)
    }
}

impl<T> Default for Place<T> {
    fn default() -> Self {
        Place::new()
    }
}
