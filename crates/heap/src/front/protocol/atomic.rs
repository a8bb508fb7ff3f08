//! The atomics that the protocols are written with: those of the machine.

pub use core::sync::atomic::{
    AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

/// A value that one thread at a time may reach, by the protocol that it is part of.
#[derive(Debug)]
#[repr(transparent)]
pub struct Plain<T>(core::cell::UnsafeCell<T>);

impl<T: Copy> Plain<T> {
    /// The value.
    ///
    /// # Safety
    /// No other thread changes it meanwhile.
    pub unsafe fn read(&self) -> T {
        // SAFETY: the caller's promise.
        unsafe { *self.0.get() }
    }

    /// Sets the value.
    ///
    /// # Safety
    /// No other thread reaches it meanwhile.
    pub unsafe fn write(&self, value: T) {
        // SAFETY: the caller's promise.
        unsafe { *self.0.get() = value }
    }
}
