//! A sequence lock: a count that shows a reader whether the data changed meanwhile.

use super::atomic::{AtomicU32, Ordering::*, fence};

/// The count: odd while a thread writes. One thread at a time does.
#[derive(Debug)]
#[repr(transparent)]
pub struct Sequence(AtomicU32);

impl Sequence {
    /// Before anything is written.
    pub const fn new() -> Sequence {
        Sequence(AtomicU32::new(0))
    }

    /// Begins to write.
    pub fn begin(&self) {
        self.0.fetch_add(1, Relaxed);
        fence(Release);
    }

    /// Ends what [`Sequence::begin`] began.
    pub fn end(&self) {
        self.0.fetch_add(1, Release);
    }

    /// Whether a thread writes.
    pub fn is_odd(&self) -> bool {
        self.0.load(Relaxed) % 2 == 1
    }

    /// The protocol of a reader, in this process or another: reads with `read`, whose loads may see
    /// any state. `None` if a thread wrote meanwhile.
    #[cfg(test)]
    #[allow(dead_code, reason = "for the models of tests/interleavings")]
    pub fn attempt<R>(&self, read: impl FnOnce() -> R) -> Option<R> {
        let before = self.0.load(Acquire);
        let reading = read();
        fence(Acquire);
        (before.is_multiple_of(2) && self.0.load(Relaxed) == before).then_some(reading)
    }
}

impl Default for Sequence {
    fn default() -> Self {
        Sequence::new()
    }
}
