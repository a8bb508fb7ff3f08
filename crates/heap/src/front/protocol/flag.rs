//! A flag that one thread at a time has raised: a lock that nobody waits for.

use super::atomic::{AtomicU8, Ordering::*};

/// The flag.
#[derive(Debug)]
pub struct Flag(AtomicU8);

impl Flag {
    /// A flag that is not raised.
    pub const fn new() -> Flag {
        Flag(AtomicU8::new(0))
    }

    /// Raises the flag, unless it is. Whether it did: then the thread sees what all that had raised
    /// it before have done.
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
