//! A list that any thread adds to and any thread takes as a whole: objects whose free had to be
//! deferred.

use super::atomic::{AtomicPtr, Ordering::*, Plain};

/// An object in the list: its first word is the next one's address.
#[derive(Debug)]
#[repr(transparent)]
pub struct Object {
    next: Plain<*mut Object>,
}

/// The list.
#[derive(Debug)]
pub struct Deferred(AtomicPtr<Object>);

impl Deferred {
    /// An empty list.
    pub const fn new() -> Deferred {
        Deferred(AtomicPtr::new(core::ptr::null_mut()))
    }

    /// Whether it looks empty.
    pub fn is_empty(&self) -> bool {
        self.0.load(Relaxed).is_null()
    }

    /// Adds an object.
    ///
    /// # Safety
    /// The object belongs to the list alone until [`Deferred::take_all`] hands it out, and holds a
    /// word.
    pub unsafe fn push(&self, object: *mut Object) {
        let mut first = self.0.load(Relaxed);
        loop {
            // SAFETY: the object is ours until it is in the list.
            unsafe { (*object).next.write(first) };
            match self.0.compare_exchange(first, object, Release, Relaxed) {
                Ok(_) => return,
                Err(other) => first = other,
            }
        }
    }

    /// Takes all objects of the list, and hands each to `act`.
    pub fn take_all(&self, mut act: impl FnMut(*mut Object)) {
        let mut next = self.0.swap(core::ptr::null_mut(), Acquire);
        while !next.is_null() {
            let object = next;
            // SAFETY: objects that were in the list belong to the caller alone.
            next = unsafe { (*object).next.read() };
            act(object);
        }
    }
}

impl Default for Deferred {
    fn default() -> Self {
        Deferred::new()
    }
}
