//! Locks for a malloc: they allocate nothing, know their owner, and can be reset after fork.
//!
//! A thread never waits for a lock while it holds another one, so a waiting thread blocks no other
//! thread, and a signal handler that runs inside malloc can take every lock but the one its own
//! thread holds; that one is refused, and the handler works without it (see [`super::emergency`]).

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};
use core::time::Duration;

use rustix::thread::futex;

use super::protocol::lock_word::{LockWord, WAITERS, Waiting};

/// How long a thread waits for a lock that a fork holds, before it works without it. A fork takes
/// its locks before it takes those of stdio; a thread inside stdio that allocates takes them the
/// other way round, and one of them must give way.
const PATIENCE_WITH_FORK: Duration = Duration::from_millis(60);
const NAP: Duration = Duration::from_millis(20);

/// Whether this process is between the preparation and the end of a fork.
static FORKING: AtomicBool = AtomicBool::new(false);

/// A lock around a value.
#[derive(Debug)]
pub struct Lock<T> {
    /// Names its owner by the thread pointer, which is even.
    word: LockWord,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by the owner of the lock alone.
unsafe impl<T: Send> Sync for Lock<T> {}

/// A lock that is held.
pub struct Guard<'a, T> {
    lock: &'a Lock<T>,
}

/// Operations of a lock for fork, whatever it guards.
pub trait ForkLock {
    /// Takes the lock if it is free.
    fn take_for_fork(&self) -> ForkClaim;
    /// Whether this thread holds the lock, or a fork does.
    fn bars(&self) -> bool;
    /// Gives up a lock that was taken for a fork, in the parent.
    fn give_up(&self);
    /// Frees a lock that was taken for a fork, in the child, where no thread waits.
    fn reset(&self);
}

/// Whether a fork could take a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkClaim {
    /// It is taken now.
    Acquired,
    /// The forking thread held it before: a signal handler forks.
    AlreadyHeld,
    /// Another thread holds it.
    Busy,
}

/// The thread pointer: different for each thread, the same in a forked child.
#[inline]
pub(crate) fn me() -> usize {
    let pointer: usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads the thread control block's pointer to itself, which the ABI demands.
    unsafe {
        core::arch::asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, pure, readonly));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: reads the thread pointer register.
    unsafe {
        core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, pure, nomem));
    }
    pointer
}

impl<T> Lock<T> {
    /// A free lock around a value.
    pub const fn new(value: T) -> Lock<T> {
        Lock { word: LockWord::new(), value: UnsafeCell::new(value) }
    }

    /// Takes the lock. `None` if this thread holds it already (a signal handler runs inside the
    /// heap), or if a fork holds it for too long.
    #[inline]
    pub fn lock(&self) -> Option<Guard<'_, T>> {
        match self.word.try_take(me()) {
            Ok(()) => Some(Guard { lock: self }),
            Err(_) => self.wait(),
        }
    }

    #[cold]
    fn wait(&self) -> Option<Guard<'_, T>> {
        let mut naps = Naps { waited: Duration::ZERO };
        self.word.take(me(), &mut naps).then(|| Guard { lock: self })
    }

    /// Whether this thread holds the lock, or a fork does.
    pub fn is_barred(&self) -> bool {
        let owner = self.word.owner();
        owner == me() || (owner != 0 && FORKING.load(Relaxed))
    }

    fn unlock(&self) {
        self.word.give_up(|word| {
            let _ = futex::wake(futex_of(word), futex::Flags::PRIVATE, 1);
        });
    }
}

/// Sleeps in the kernel, a nap at a time.
struct Naps {
    waited: Duration,
}

impl Waiting for Naps {
    const SPINS: u32 = 100;

    fn is_patient(&self) -> bool {
        !FORKING.load(Relaxed) || self.waited < PATIENCE_WITH_FORK
    }

    fn sleep(&mut self, word: &AtomicUsize, marked: usize) {
        let nap = futex::Timespec { tv_sec: 0, tv_nsec: NAP.as_nanos() as i64 };
        let _ = futex::wait(futex_of(word), futex::Flags::PRIVATE, marked as u32, Some(&nap));
        self.waited += NAP;
    }
}

/// The half of the word that holds the mark, which is what the kernel compares.
fn futex_of(word: &AtomicUsize) -> &AtomicU32 {
    let low_half = usize::from(cfg!(target_endian = "big"));
    // SAFETY: an aligned half of an atomic word, borrowed as long as the word.
    unsafe { &*(&raw const *word).cast::<AtomicU32>().add(low_half) }
}

impl<T> ForkLock for Lock<T> {
    fn take_for_fork(&self) -> ForkClaim {
        match self.word.try_take(me()) {
            Ok(()) => ForkClaim::Acquired,
            Err(word) if word & !WAITERS == me() => ForkClaim::AlreadyHeld,
            Err(_) => ForkClaim::Busy,
        }
    }

    fn bars(&self) -> bool {
        self.is_barred()
    }

    fn give_up(&self) {
        self.unlock();
    }

    fn reset(&self) {
        self.word.reset();
    }
}

/// Says that a fork begins or has ended.
pub fn set_forking(forking: bool) {
    FORKING.store(forking, SeqCst);
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard's thread holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard's thread holds the lock, and the guard is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_from_many_threads_are_not_lost() {
        let lock = Lock::new(0u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50_000 {
                        *lock.lock().unwrap() += 1;
                    }
                });
            }
        });
        assert_eq!(*lock.lock().unwrap(), 200_000);
    }

    #[test]
    fn a_sleeper_is_woken() {
        let lock = Lock::new(());
        let held = lock.lock().unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| drop(lock.lock().unwrap()));
            while !lock.word.has_waiters() {
                std::thread::yield_now();
            }
            drop(held);
            waiter.join().unwrap();
        });
        assert!(lock.lock().is_some());
    }

    #[test]
    fn the_owner_is_refused_and_not_deadlocked() {
        let lock = Lock::new(());
        let held = lock.lock().unwrap();
        assert!(lock.lock().is_none());
        assert_eq!(lock.take_for_fork(), ForkClaim::AlreadyHeld);
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(lock.take_for_fork(), ForkClaim::Busy));
        });
        drop(held);
        assert_eq!(lock.take_for_fork(), ForkClaim::Acquired);
        lock.reset();
        assert!(lock.lock().is_some());
    }
}
