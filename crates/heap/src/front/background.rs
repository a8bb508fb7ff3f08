//! The thread that gives memory back at a steady rate (section 3), off unless a program's
//! environment asks for it.

use core::ffi::c_void;
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::fatal::say;
use super::malloc;
use crate::units::Pages;

/// Bytes to give back in a second, or nought: no thread.
static RATE: AtomicU64 = AtomicU64::new(0);

/// Sets the rate; [`start`] starts the thread.
pub fn set_rate(bytes_per_second: u64) {
    RATE.store(bytes_per_second, Relaxed);
}

/// Starts the thread if a rate is set: when the library is loaded, and in each forked child.
pub fn start() {
    if RATE.load(Relaxed) == 0 {
        return;
    }
    // SAFETY: plain values of the C library, set before they are used; the thread takes no
    // argument. The program's signals are blocked while the thread is made, and so in it for ever.
    let error = unsafe {
        let (mut all, mut before) = (core::mem::zeroed(), core::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let mut thread = core::mem::zeroed();
        let error = libc::pthread_create(&mut thread, null(), release_for_ever, null_mut());
        if error == 0 {
            libc::pthread_detach(thread);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, null_mut());
        error
    };
    if error != 0 {
        say(format_args!("no thread to give memory back: error {error}"));
    }
}

extern "C" fn release_for_ever(_: *mut c_void) -> *mut c_void {
    // SAFETY: names the running thread, by a text of less than 16 bytes.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"prairie-heap".as_ptr()) };
    loop {
        let second = libc::timespec { tv_sec: 1, tv_nsec: 0 };
        // SAFETY: the time is valid, and the rest is not asked for.
        unsafe { libc::nanosleep(&second, null_mut()) };
        malloc::release_steadily(Pages::holding(RATE.load(Relaxed)));
    }
}
