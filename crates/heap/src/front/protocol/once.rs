//! One-time initialization by the first thread, while others wait.

use super::atomic::{AtomicUsize, Ordering::*};

/// State: 0 before, then the thread that does it, then `DONE`.
#[derive(Debug)]
pub struct Once(AtomicUsize);

const DONE: usize = usize::MAX;

/// The state that a thread finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// This thread must do it; [`Once::finish`] ends it.
    Mine,
    /// It is done, and all of its effects are visible.
    Done,
    /// This thread is doing it: a function that it called needs it done.
    Within,
    /// Another thread is doing it.
    Others,
}

impl Once {
    /// Before it is done.
    pub const fn new() -> Once {
        Once(AtomicUsize::new(0))
    }

    /// Whether it is done, with all of its effects visible.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.0.load(Acquire) == DONE
    }

    /// What thread `me`, whose name is unique and not 0, must do.
    pub fn begin(&self, me: usize) -> Turn {
        match self.0.compare_exchange(0, me, Relaxed, Acquire) {
            Ok(_) => Turn::Mine,
            Err(DONE) => Turn::Done,
            Err(other) if other == me => Turn::Within,
            Err(_) => Turn::Others,
        }
    }

    /// Marks it as done.
    pub fn finish(&self) {
        self.0.store(DONE, Release);
    }
}

impl Default for Once {
    fn default() -> Self {
        Once::new()
    }
}
