//! Guarded allocations: a few objects that have a page of their own between inaccessible pages, so
//! that a use after free or an overflow ends the process where it happens.
//!
//! ```text
//!  nobody's │ object of slot 0 │ nobody's │ object of slot 1 │ nobody's │ …
//!           ▲                  ▲
//!           what lies before   objects end at the end of their page, up to 15 bytes that are
//!                              filled with a pattern and checked when the object is freed
//! ```
//! A freed slot's page is inaccessible as well, until the slot is reused.

use core::alloc::Layout;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

use rustix::mm::{Advice, MprotectFlags, madvise, mprotect};

use super::fatal::fatal;
use super::misuse::{double_free, interior};
use super::protocol::slot::{NotLive, Slot};
use super::size_class::GRANULE;
use super::sync::{ForkLock, Lock};
use crate::storage::Storage;

/// Objects that are guarded at a time, live or freed.
const SLOTS: usize = 256;
/// What fills the bytes between an object and the end of its page.
const PATTERN: u8 = 0xa5;

static SLOT: [Slot; SLOTS] = [const { Slot::new() }; SLOTS];

/// Where the pages begin, or 0.
static START: AtomicUsize = AtomicUsize::new(0);
/// 1 in N allocations is guarded; 0 means none.
static ONE_IN: AtomicU64 = AtomicU64::new(0);
static COUNT: AtomicU64 = AtomicU64::new(0);
/// The next slot to use; the holder of the lock hands slots out and takes them back.
static NEXT: Lock<usize> = Lock::new(0);

/// The lock of the slots, for fork.
pub fn fork_lock() -> &'static dyn ForkLock {
    &NEXT
}

/// Starts to guard one allocation in `one_in`. Called once, by setup, which must not allocate.
/// Without storage nothing is guarded.
pub fn set_up<S: Storage>(one_in: u64) {
    let page = rustix::param::page_size();
    let Ok(layout) = Layout::from_size_align((2 * SLOTS + 1) * page, 4096) else { return };
    let Some(place) = S::take(layout) else { return };
    // SAFETY: fresh storage that no other thread knows of.
    let closed = unsafe { mprotect(place.as_ptr().cast(), layout.size(), MprotectFlags::empty()) };
    if closed.is_ok() && install_handler() {
        START.store(place.as_ptr() as usize, Release);
        ONE_IN.store(one_in, Release);
    }
}

/// Whether allocations are counted.
pub fn is_on() -> bool {
    ONE_IN.load(Relaxed) != 0
}

/// A guarded object, or null: this allocation is not chosen, larger than a page, or all slots are
/// live.
pub fn allocate(size: usize) -> *mut u8 {
    let one_in = ONE_IN.load(Relaxed);
    if one_in == 0 || !COUNT.fetch_add(1, Relaxed).is_multiple_of(one_in) {
        return null_mut();
    }
    let page = rustix::param::page_size();
    if size > page {
        return null_mut();
    }
    let Some(mut next) = NEXT.lock() else { return null_mut() };
    let free = (0..SLOTS).map(|step| (*next + step) % SLOTS).find(|&slot| SLOT[slot].is_vacant());
    let Some(number) = free else { return null_mut() };
    let start = page_of(number, page);
    // SAFETY: a page of ours without a live object.
    if unsafe { mprotect(start as *mut c_void, page, MprotectFlags::READ | MprotectFlags::WRITE) }
        .is_err()
    {
        return null_mut();
    }
    *next = (number + 1) % SLOTS;
    let object = start + page - size.max(1).next_multiple_of(GRANULE);
    SLOT[number].hand_out(object, size);
    // SAFETY: the end of the slot's page, behind the object.
    unsafe { ((object + size) as *mut u8).write_bytes(PATTERN, start + page - object - size) };
    object as *mut u8
}

/// Whether an address is in the guarded pages.
pub fn owns(address: usize) -> bool {
    let start = START.load(Relaxed);
    start != 0 && address.wrapping_sub(start) < (2 * SLOTS + 1) * rustix::param::page_size()
}

/// Bytes of a live guarded object; ends the process if the pointer is none.
pub fn usable_size(object: *mut u8) -> usize {
    size_in(slot_of(object), object)
}

/// Frees a guarded object and makes its page inaccessible.
pub fn free(object: *mut u8) {
    let slot = slot_of(object);
    // Without the lock the object is lost, but violations are reported.
    let Some(_next) = NEXT.lock() else {
        size_in(slot, object);
        return;
    };
    let page = rustix::param::page_size();
    let (size, start) = (size_in(slot, object), object as usize & !(page - 1));
    let behind = object as usize + size;
    // SAFETY: the end of the live object's page.
    let rest = unsafe { core::slice::from_raw_parts(behind as *const u8, start + page - behind) };
    if rest.iter().any(|&byte| byte != PATTERN) {
        fatal(format_args!("{object:p}, an object of {size} bytes, was overrun"));
    }
    // Released before it is closed, so that the page reads as zeros when the slot is used again.
    // SAFETY: the page of an object that is no longer used.
    unsafe {
        let _ = madvise(start as *mut c_void, page, Advice::LinuxDontNeed);
        let _ = mprotect(start as *mut c_void, page, MprotectFlags::empty());
    }
    slot.vacate();
}

/// The slot whose pages a pointer points to.
fn slot_of(object: *mut u8) -> &'static Slot {
    let pages = (object as usize - START.load(Relaxed)) / rustix::param::page_size();
    &SLOT[(pages.max(1) - 1) / 2 % SLOTS]
}

/// Bytes of a slot's live object; ends the process if the pointer is not it.
fn size_in(slot: &Slot, object: *mut u8) -> usize {
    match slot.size_of(object as usize) {
        Ok(size) => size,
        Err(NotLive::Freed(size)) => double_free(object, size),
        Err(NotLive::Other(size)) => interior(object, size),
    }
}

fn page_of(slot: usize, page: usize) -> usize {
    START.load(Relaxed) + (2 * slot + 1) * page
}

/// The kind of violation of an access to the guarded pages, and its slot.
fn violation(address: usize) -> (&'static str, usize) {
    let page = rustix::param::page_size();
    let (pages, within) = ((address - START.load(Relaxed)) / page, address % page);
    if pages % 2 == 1 {
        return ("used after free", pages / 2);
    }
    // Between two objects: behind the one, or in front of the other.
    let used = |slot: usize| slot < SLOTS && SLOT[slot].is_used();
    let (before, after) = (pages.wrapping_div(2).wrapping_sub(1), pages / 2);
    if used(before) && (within < page / 2 || !used(after)) {
        ("accessed behind its end", before)
    } else {
        ("accessed in front of its start", after.min(SLOTS - 1))
    }
}

static mut BEFORE: core::mem::MaybeUninit<libc::sigaction> = core::mem::MaybeUninit::zeroed();

fn install_handler() -> bool {
    type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
    let handler: Handler = on_fault;
    // SAFETY: a handler of this signature, and a place for the previous one that no other thread
    // writes.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGSEGV, &action, (&raw mut BEFORE).cast()) == 0
    }
}

/// Reports the violation; any other fault goes to the previous handler.
extern "C" fn on_fault(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel gives a handler of `SA_SIGINFO` its information.
    let address = unsafe { (*info).si_addr() } as usize;
    if owns(address) {
        let (what, slot) = violation(address);
        let (object, size) = SLOT[slot].last();
        fatal(format_args!(
            "{:p}, a guarded object of {size} bytes, is {what}, at {:p}",
            object as *const u8, address as *const u8
        ));
    }
    // The instruction is retried, and faults under the previous handler.
    // SAFETY: what `install_handler` kept.
    unsafe { libc::sigaction(libc::SIGSEGV, (&raw const BEFORE).cast(), null_mut()) };
}
