//! Fork: every level is consistent in the child, whatever the parent's other threads were doing.
//!
//! Per-CPU caches need nothing: their sections commit with one store, so any copy of them is
//! consistent. The locks of the shared levels are taken before the fork and released after it. As
//! no thread waits while it holds one, all become free soon. A signal handler that forks inside the
//! heap keeps the lock that its own thread holds. `vfork` and `posix_spawn` run none of this and
//! change nothing.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::shared::{HEAP, ProcessHeap};
use super::{background, publish};
use crate::front::size_class::CLASSES;
use crate::front::sync::{ForkClaim, ForkLock, me, set_forking};
use crate::front::weak::{dso_handle, weak_address};
use crate::front::{cpu, guard, profile, thread};
use crate::memory::node::MAX_NODES;

const WORDS: usize = (16 + MAX_NODES * (2 * (CLASSES + 1) + 1)).div_ceil(64);
/// A bit for each lock.
type LockSet = [u64; WORDS];

/// The locks that the fork under way has taken. It has all of them, so there is one such fork.
static TAKEN: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
/// The thread whose fork is under way, or 0.
static FORKER: AtomicUsize = AtomicUsize::new(0);
/// Forks within that fork: of signal handlers that interrupted it.
static NESTED: AtomicUsize = AtomicUsize::new(0);

/// Registers the three handlers. Called once, when the library is loaded.
pub fn register() {
    type Handler = unsafe extern "C" fn();
    type Register = extern "C" fn(Handler, Handler, Handler, *const u8) -> i32;
    // What `pthread_atfork` calls, whose own code lies in each library, and with glibc at the end
    // of its text: a place that would be resident for this alone.
    let direct = weak_address!("__register_atfork");
    if direct.is_null() {
        // SAFETY: the handlers live as long as the library, which is never unloaded.
        unsafe { libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child)) };
        return;
    }
    // SAFETY: the C library defines the function with this signature.
    let register = unsafe { core::mem::transmute::<*const u8, Register>(direct) };
    register(prepare, in_parent, in_child, dso_handle());
}

fn locks() -> impl Iterator<Item = (usize, &'static dyn ForkLock)> {
    let own = [cpu::fork_lock(), thread::fork_lock(), guard::fork_lock(), profile::fork_lock()];
    own.into_iter().chain(HEAP.all().flat_map(ProcessHeap::locks)).enumerate()
}

unsafe extern "C" fn prepare() {
    if FORKER.load(Relaxed) == me() {
        NESTED.fetch_add(1, Relaxed);
        return;
    }
    let taken = loop {
        match take_all() {
            Some(taken) => break taken,
            None => rustix::thread::sched_yield(),
        }
    };
    for (word, bits) in TAKEN.iter().zip(taken) {
        word.store(bits, Relaxed);
    }
    FORKER.store(me(), Relaxed);
    set_forking(true);
}

/// Takes all locks except those that the thread holds already. If another thread keeps one,
/// releases those taken, so that two forking threads never wait for each other.
fn take_all() -> Option<LockSet> {
    let mut taken = [0; WORDS];
    for (number, lock) in locks() {
        match take_patiently(lock) {
            ForkClaim::Acquired => taken[number / 64] |= 1 << (number % 64),
            ForkClaim::AlreadyHeld => {}
            ForkClaim::Busy => {
                each_of(taken, |lock| lock.give_up());
                return None;
            }
        }
    }
    Some(taken)
}

fn take_patiently(lock: &dyn ForkLock) -> ForkClaim {
    const SPINS: u32 = 1000;
    for _ in 0..SPINS {
        match lock.take_for_fork() {
            ForkClaim::Busy => core::hint::spin_loop(),
            taken => return taken,
        }
    }
    ForkClaim::Busy
}

fn each_of(set: LockSet, act: impl Fn(&dyn ForkLock)) {
    for (number, lock) in locks() {
        if set[number / 64] >> (number % 64) & 1 == 1 {
            act(lock);
        }
    }
}

unsafe extern "C" fn in_parent() {
    end(|lock| lock.give_up());
}

unsafe extern "C" fn in_child() {
    end(|lock| lock.reset());
    // The recording is the parent's.
    HEAP.record(None);
    publish::after_fork();
    background::start();
}

fn end(act: impl Fn(&dyn ForkLock)) {
    if NESTED.fetch_update(Relaxed, Relaxed, |nested| nested.checked_sub(1)).is_ok() {
        return;
    }
    FORKER.store(0, Relaxed);
    set_forking(false);
    each_of(TAKEN.each_ref().map(|word| word.load(Relaxed)), act);
}
