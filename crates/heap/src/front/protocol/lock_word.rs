//! The word of a lock: its owner, and whether a thread sleeps on it.

use super::atomic::{AtomicUsize, Ordering::*};

/// Set in the word when a thread sleeps on it. Names of threads are even.
pub const WAITERS: usize = 1;

/// How a thread waits for a lock.
pub trait Waiting {
    /// Spins before a thread goes to sleep.
    const SPINS: u32;

    /// Whether it still waits for the lock.
    fn is_patient(&self) -> bool;

    /// Sleeps until the word may have changed, if it is `marked`; the comparison and falling asleep
    /// are atomic for the waking thread. May return spuriously.
    fn sleep(&mut self, word: &AtomicUsize, marked: usize);
}

/// The word: 0, or the name of the owner, and [`WAITERS`].
#[derive(Debug)]
#[repr(transparent)]
pub struct LockWord(AtomicUsize);

impl LockWord {
    /// A free lock's.
    pub const fn new() -> LockWord {
        LockWord(AtomicUsize::new(0))
    }

    /// Takes the lock for thread `me` if it is free.
    ///
    /// # Errors
    /// The word, if it is not.
    #[inline]
    pub fn try_take(&self, me: usize) -> Result<(), usize> {
        self.0.compare_exchange(0, me, Acquire, Relaxed).map(drop)
    }

    /// Takes the lock for thread `me` when it becomes free. False if `me` owns it already, or has
    /// given up waiting.
    pub fn take(&self, me: usize, waiting: &mut impl Waiting) -> bool {
        take(&self.0, me, waiting)
    }

    /// The owner, or 0.
    #[inline]
    pub fn owner(&self) -> usize {
        self.0.load(Relaxed) & !WAITERS
    }

    /// Whether a thread sleeps on the word.
    #[cfg(test)]
    #[allow(dead_code, reason = "for the models of tests/interleavings")]
    pub fn has_waiters(&self) -> bool {
        self.0.load(Relaxed) & WAITERS != 0
    }

    /// Releases the lock. If a thread sleeps, calls `wake`, which must wake one.
    #[inline]
    pub fn give_up(&self, wake: impl FnOnce(&AtomicUsize)) {
        if self.0.swap(0, Release) & WAITERS != 0 {
            wake(&self.0);
        }
    }

    /// Frees the lock while no other thread runs.
    pub fn reset(&self) {
        self.0.store(0, Release);
    }
}

impl Default for LockWord {
    fn default() -> Self {
        LockWord::new()
    }
}

fn take<W: Waiting>(word: &AtomicUsize, me: usize, waiting: &mut W) -> bool {
    let mut spins = 0;
    // Once asleep, a thread cannot know whether others sleep, and takes the lock with the mark.
    let mut mark = 0;
    loop {
        let seen = word.load(Relaxed);
        if seen & !WAITERS == me {
            return false;
        }
        if seen & !WAITERS == 0 {
            if word.compare_exchange(seen, me | mark, Acquire, Relaxed).is_ok() {
                return true;
            }
        } else if spins < W::SPINS {
            spins += 1;
            core::hint::spin_loop();
        } else if !waiting.is_patient() {
            return false;
        } else {
            mark = WAITERS;
            let marked = seen | WAITERS;
            let is_marked =
                seen == marked || word.compare_exchange(seen, marked, Relaxed, Relaxed).is_ok();
            if is_marked {
                waiting.sleep(word, marked);
            }
        }
    }
}
