//! A flag that one thread at a time has raised: a try-lock.

use super::atomic::{AtomicU8, Ordering::*};

/// The flag.
#[derive(Debug)]
pub struct Flag(AtomicU8);

impl Flag {
    /// A flag that is not raised.
    pub const fn new() -> Flag {
        Flag(AtomicU8::new(0))
    }

    /// Raises the flag unless it is raised. Whether it did: then the thread sees the effects of all
    /// that raised it before.
    pub fn raise(&self) -> bool {
        self.0.swap(1, Acquire) == 0
    }

    /// Lowers the flag. Whether it was raised.
    pub fn lower(&self) -> bool {
        self.0.swap(0, Release) == 1
    }
}

impl Default for Flag {
    fn default() -> Self {
        Flag::new()
    }
}
