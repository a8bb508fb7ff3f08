//! The caches of threads, where those of the CPUs are unavailable: the C library has registered no
//! area for restartable sequences.
//!
//! A thread finds its cache through the heap's word of thread-local storage. When the thread ends,
//! its objects go below and the cache to the next thread. That is noticed by
//! `__cxa_thread_atexit_impl`, so a program keeps all of its keys.

use core::alloc::Layout;
use core::cell::Cell;
use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{Ordering, Ordering::Relaxed, compiler_fence};

use super::cache::Stacks;
use super::inside::inside;
use super::size_class::SizeClass;
use super::slab::{Header, Slab, begin};
use super::sync::Lock;
use super::tls;
use super::weak::{dso_handle, weak_address};
use crate::storage::Storage;

/// The word of a thread that is ending: it gets no cache any more.
const ENDING: usize = 1;

/// The cache of a thread.
#[repr(C)]
pub struct ThreadCache {
    slab: Slab,
    /// Set while the thread is inside: a signal handler must leave the stacks alone.
    busy: Cell<bool>,
    /// The next cache without a thread.
    next: Cell<*mut ThreadCache>,
    /// The next cache in the list of all.
    all: Cell<*mut ThreadCache>,
}

/// Caches without a thread, and all caches.
struct Pool {
    spare: *mut ThreadCache,
    all: *mut ThreadCache,
}

// SAFETY: only the holder of the lock reaches the list of spare caches, and no other thread knows
// of a spare cache.
unsafe impl Send for Pool {}

static POOL: Lock<Pool> = Lock::new(Pool { spare: null_mut(), all: null_mut() });

/// The lock of the pool of caches, for fork.
pub fn fork_lock() -> &'static dyn super::sync::ForkLock {
    &POOL
}

/// The stacks of the running thread, while they are in use.
pub struct ThreadStacks {
    cache: &'static ThreadCache,
}

impl ThreadStacks {
    /// The stacks of the running thread. `None` if it is using them already (a signal handler), if
    /// it is ending, or if there is no storage.
    ///
    /// `drain` returns all objects of a cache to the level below; the thread calls it when it ends.
    pub fn of_thread<S: Storage>(drain: fn(&ThreadStacks)) -> Option<ThreadStacks> {
        let word = tls::get();
        let cache = match word {
            0 => ThreadCache::adopt::<S>(drain)?,
            ENDING => return None,
            // SAFETY: the word of a thread that has a cache is its address; caches live forever.
            _ => unsafe { &*(word as *const ThreadCache) },
        };
        if cache.busy.replace(true) {
            return None;
        }
        compiler_fence(Ordering::SeqCst);
        Some(ThreadStacks { cache })
    }

    /// The slabs of all threads, those of no thread too.
    pub fn slabs() -> impl Iterator<Item = &'static Slab> {
        let first = POOL.lock().map_or(null_mut(), |pool| pool.all);
        // SAFETY: caches live forever, and their place in the list of all never changes.
        let mut next = unsafe { first.as_ref() };
        core::iter::from_fn(move || {
            let cache = next?;
            // SAFETY: as above.
            next = unsafe { cache.all.get().as_ref() };
            Some(&cache.slab)
        })
    }
}

impl Drop for ThreadStacks {
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        self.cache.busy.set(false);
    }
}

impl ThreadCache {
    /// Gives the running thread a cache, spare or new.
    #[cold]
    fn adopt<S: Storage>(drain: fn(&ThreadStacks)) -> Option<&'static ThreadCache> {
        let mut pool = POOL.lock()?;
        let mut cache = pool.spare;
        if cache.is_null() {
            cache = S::take(Layout::new::<ThreadCache>())?.as_ptr().cast();
            // SAFETY: fresh, zeroed storage for a cache; all its fields may be zero.
            unsafe { (*cache).all.set(pool.all) };
            pool.all = cache;
        } else {
            // SAFETY: a spare cache lives and is known to the pool alone.
            pool.spare = unsafe { (*cache).next.get() };
        }
        drop(pool);
        // Registering allocates; it finds the thread with a cache.
        tls::set(cache as usize);
        at_thread_end(end_of_thread, drain as *mut c_void);
        // SAFETY: caches live forever.
        Some(unsafe { &*cache })
    }

    /// Gives the objects of a thread that ends below, and the cache to the next thread.
    fn retire(&'static self, drain: fn(&ThreadStacks)) {
        self.busy.set(true);
        tls::set(ENDING);
        drain(&ThreadStacks { cache: self });
        if let Some(mut pool) = POOL.lock() {
            self.next.set(pool.spare);
            pool.spare = (&raw const *self).cast_mut();
        }
    }
}

/// Runs `act` with `argument` when the thread ends, where the C library can do that. Elsewhere the
/// thread's objects stay in its cache.
fn at_thread_end(act: extern "C" fn(*mut c_void), argument: *mut c_void) {
    type Register = extern "C" fn(extern "C" fn(*mut c_void), *mut c_void, *const u8) -> i32;
    let register = weak_address!("__cxa_thread_atexit_impl");
    if register.is_null() {
        return;
    }
    // SAFETY: the C library defines the function with this signature.
    let register = unsafe { core::mem::transmute::<*const u8, Register>(register) };
    register(act, argument, dso_handle());
}

extern "C" fn end_of_thread(drain: *mut c_void) {
    // SAFETY: the argument is what `adopt` registered.
    let drain = unsafe { core::mem::transmute::<*mut c_void, fn(&ThreadStacks)>(drain) };
    let word = tls::get();
    if word <= ENDING {
        return;
    }
    // SAFETY: the word of a thread that has a cache is its address; caches live forever.
    let cache = unsafe { &*(word as *const ThreadCache) };
    inside(|| cache.retire(drain));
}

impl Stacks for ThreadStacks {
    #[inline]
    fn pop(&self, class: SizeClass) -> *mut u8 {
        let mut object = [null_mut()];
        self.pop_batch(class, &mut object);
        object[0]
    }

    #[inline]
    fn push(&self, class: SizeClass, object: *mut u8) -> bool {
        self.push_batch(class, &[object]) == 1
    }

    #[inline]
    fn push_batch(&self, class: SizeClass, objects: &[*mut u8]) -> usize {
        let Header { top, end } = self.cache.slab.header(class);
        let pushed = objects.len().min((end - top) as usize);
        for (number, &object) in (top + 1..).zip(&objects[..pushed]) {
            self.cache.slab.slot(number).store(object as u64, Relaxed);
        }
        self.cache.slab.set_header(class, Header { top: top + pushed as u32, end });
        pushed
    }

    #[inline]
    fn pop_batch(&self, class: SizeClass, objects: &mut [*mut u8]) -> usize {
        let Header { top, end } = self.cache.slab.header(class);
        let popped = objects.len().min(top.saturating_sub(begin(class)) as usize);
        for (back, object) in objects[..popped].iter_mut().enumerate() {
            *object = self.cache.slab.slot(top - back as u32).load(Relaxed) as *mut u8;
        }
        self.cache.slab.set_header(class, Header { top: top - popped as u32, end });
        popped
    }

    fn slab(&self) -> Option<&Slab> {
        Some(&self.cache.slab)
    }

    fn replace_header(&self, _: &Slab, class: SizeClass, old: Header, new: Header) -> bool {
        let same = self.cache.slab.header(class) == old;
        if same {
            self.cache.slab.set_header(class, new);
        }
        same
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The stacks of a fresh cache that no thread has.
    pub fn stacks_of_nobody() -> ThreadStacks {
        // SAFETY: each field of a cache may be zero.
        let cache = unsafe { Box::<ThreadCache>::new_zeroed().assume_init() };
        ThreadStacks { cache: Box::leak(cache) }
    }
}
