//! Something that the first thread does, once, while others wait.

use super::atomic::{AtomicUsize, Ordering::*};

/// Where it stands: nought before, then the thread that does it, then `DONE`.
#[derive(Debug)]
pub struct Once(AtomicUsize);

const DONE: usize = usize::MAX;

/// What a thread that needs it done finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It is this thread's to do; [`Once::finish`] ends it.
    Mine,
    /// It is done, and all that was done is seen.
    Done,
    /// This thread is at it: a function that it called needs it done.
    Within,
    /// Another thread is at it.
    Others,
}

impl Once {
    /// Before it is done.
    pub const fn new() -> Once {
        Once(AtomicUsize::new(0))
    }

    /// Whether it is done, and all that was done is seen.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.0.load(Acquire) == DONE
    }

    /// What thread `me`, no thread's name but its own and not nought, is to do.
    pub fn begin(&self, me: usize) -> Turn {
        match self.0.compare_exchange(0, me, Relaxed, Acquire) {
            Ok(_) => Turn::Mine,
            Err(DONE) => Turn::Done,
            Err(other) if other == me => Turn::Within,
            Err(_) => Turn::Others,
        }
    }

    /// Says that it is done.
    pub fn finish(&self) {
        self.0.store(DONE, Release);
    }
}

impl Default for Once {
    fn default() -> Self {
        Once::new()
    }
}
