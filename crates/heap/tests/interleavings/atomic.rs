//! The atomics that the protocols are tried with: loom's, behind the face of those of the machine.
//!
//! They are made at the first use, so that they can be constants as the machine's can; a model has
//! its first thread use each of them before there is a second one. And they can be weakened: under
//! [`Weakened`] each operation loses an ordering, as if the protocol had not requested it.

use std::cell::{Cell, OnceCell};

use loom::sync::atomic as loom_atomic;
pub use std::sync::atomic::Ordering;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

/// What the operations of a model are robbed of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weakened {
    /// Nothing.
    Not,
    /// Loads, exchanges and fences no longer acquire.
    Acquire,
    /// Stores, exchanges and fences no longer release.
    Release,
}

thread_local! {
    /// Loom runs all threads of a model on the one that requested it.
    static WEAKENED: Cell<Weakened> = const { Cell::new(Weakened::Not) };
}

/// Weakens the operations of the models that this thread runs from now on.
pub fn weaken(how: Weakened) {
    WEAKENED.set(how);
}

fn weak(order: Ordering) -> Ordering {
    match (WEAKENED.get(), order) {
        (Weakened::Not, order) => order,
        (Weakened::Acquire, Acquire) | (Weakened::Release, Release) => Relaxed,
        (Weakened::Acquire, AcqRel | SeqCst) => Release,
        (Weakened::Release, AcqRel | SeqCst) => Acquire,
        (_, order) => order,
    }
}

/// A fence, unless it is weakened away.
pub fn fence(order: Ordering) {
    match weak(order) {
        Relaxed => {}
        order => loom_atomic::fence(order),
    }
}

macro_rules! atomic {
    ($(#[$what:meta])* $name:ident $(<$T:ident>)?, $value:ty) => {
        $(#[$what])*
        #[derive(Debug)]
        pub struct $name $(<$T>)? {
            first: $value,
            made: OnceCell<loom_atomic::$name $(<$T>)?>,
        }

        // SAFETY: loom runs the threads of a model in turns, on one thread of the system.
        unsafe impl $(<$T>)? Sync for $name $(<$T>)? {}
        // SAFETY: as above.
        unsafe impl $(<$T>)? Send for $name $(<$T>)? {}

        impl $(<$T>)? $name $(<$T>)? {
            pub const fn new(first: $value) -> Self {
                $name { first, made: OnceCell::new() }
            }

            fn made(&self) -> &loom_atomic::$name $(<$T>)? {
                self.made.get_or_init(|| loom_atomic::$name::new(self.first))
            }

            pub fn load(&self, order: Ordering) -> $value {
                self.made().load(weak(order))
            }

            pub fn store(&self, value: $value, order: Ordering) {
                // Loom's stores know of no SeqCst that a weakened one could not do without.
                self.made().store(value, match weak(order) {
                    Acquire => Relaxed,
                    order => order,
                });
            }

            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                self.made().swap(value, weak(order))
            }

            pub fn compare_exchange(
                &self,
                old: $value,
                new: $value,
                order: Ordering,
                failed: Ordering,
            ) -> Result<$value, $value> {
                self.made().compare_exchange(old, new, weak(order), weak(failed))
            }
        }
    };
}

macro_rules! number {
    ($name:ident, $value:ty) => {
        atomic!(
            /// A number, as the machine's of this name.
            $name, $value
        );

        impl $name {
            pub fn fetch_add(&self, more: $value, order: Ordering) -> $value {
                self.made().fetch_add(more, weak(order))
            }
        }
    };
}

number!(AtomicU8, u8);
number!(AtomicU32, u32);
number!(AtomicU64, u64);
number!(AtomicUsize, usize);
atomic!(
    /// A pointer, as the machine's.
    AtomicPtr<T>, *mut T
);

/// A value that only one thread at a time may reach: loom ends the model if two do.
#[derive(Debug)]
pub struct Plain<T>(loom::cell::UnsafeCell<T>);

impl<T: Copy> Plain<T> {
    pub fn new(value: T) -> Plain<T> {
        Plain(loom::cell::UnsafeCell::new(value))
    }

    /// # Safety
    /// None is needed: what is promised elsewhere is looked into here.
    pub unsafe fn read(&self) -> T {
        // SAFETY: loom has seen to it that nobody writes.
        self.0.with(|value| unsafe { *value })
    }

    /// # Safety
    /// As for [`Plain::read`].
    pub unsafe fn write(&self, new: T) {
        // SAFETY: loom has seen to it that nobody else reads or writes.
        self.0.with_mut(|value| unsafe { *value = new });
    }
}
