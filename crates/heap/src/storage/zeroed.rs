//! One large record in storage of its own, made in place.

use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use super::Storage;

/// A type whose value of all zero bytes is valid.
///
/// # Safety
/// Zeroed memory is a valid value of the type.
pub unsafe trait Zeroable {}

// SAFETY: zero is a number.
unsafe impl Zeroable for u32 {}
// SAFETY: zero is a number.
unsafe impl Zeroable for u64 {}
// SAFETY: an array of valid values is valid.
unsafe impl<T: Zeroable, const N: usize> Zeroable for [T; N] {}

// SAFETY: a record is a `NonNull` and nothing else, for which `Option` promises that null is
// `None`.
unsafe impl<T: Zeroable, S: Storage> Zeroable for Option<Zeroed<T, S>> {}

/// A record that begins as zeros and lives in a [`Storage`].
///
/// It is never on the stack: a program's threads may have stacks smaller than the page heap's
/// tables. The kernel gives its pages when they are first touched.
#[repr(transparent)]
pub struct Zeroed<T: Zeroable, S: Storage> {
    place: NonNull<T>,
    storage: PhantomData<S>,
}

// SAFETY: it owns its record, as a `Box` does; storage is not tied to a thread.
unsafe impl<T: Zeroable + Send, S: Storage> Send for Zeroed<T, S> {}

impl<T: Zeroable, S: Storage> Zeroed<T, S> {
    /// A record of zeros. `None` if there is no storage for it.
    pub fn new() -> Option<Zeroed<T, S>> {
        let place = S::take(Layout::new::<T>())?.cast();
        Some(Zeroed { place, storage: PhantomData })
    }
}

impl<T: Zeroable, S: Storage> Deref for Zeroed<T, S> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: storage of `T`'s layout, zeroed, which is a valid `T`, and ours.
        unsafe { self.place.as_ref() }
    }
}

impl<T: Zeroable, S: Storage> DerefMut for Zeroed<T, S> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and it is borrowed mutably.
        unsafe { self.place.as_mut() }
    }
}

impl<T: Zeroable, S: Storage> Drop for Zeroed<T, S> {
    fn drop(&mut self) {
        // SAFETY: a valid `T`, taken with this layout in `new`, and its owner is gone.
        unsafe {
            self.place.drop_in_place();
            S::give_back(self.place.cast(), Layout::new::<T>());
        }
    }
}

impl<T: Zeroable, S: Storage> fmt::Debug for Zeroed<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record of {} bytes", size_of::<T>())
    }
}
