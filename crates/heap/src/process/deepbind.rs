//! Plugins opened with `RTLD_DEEPBIND`.
//!
//! Such a plugin looks for symbols in itself and its own libraries first, and so finds the C
//! library's malloc, whatever is preloaded; what it allocates and the program frees ends the
//! process. So the preloaded library's `dlopen` leaves that flag out. The call is handed on by a
//! jump, as the C library looks at the caller's address to find the caller's own search path.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::front::fatal::{fatal, say};

/// Whether the flag is left as it is (`PRAIRIE_HEAP_DEEPBIND=keep`).
static KEEP: AtomicBool = AtomicBool::new(false);
static SAID: AtomicBool = AtomicBool::new(false);

/// Leaves the flag as it is from now on.
pub fn keep() {
    KEEP.store(true, Relaxed);
}

/// The flags to open a library with. Says once that one was left out.
pub extern "C" fn flags(asked: c_int) -> c_int {
    if asked & libc::RTLD_DEEPBIND == 0 {
        return asked;
    }
    let keep = KEEP.load(Relaxed);
    if !SAID.swap(true, Relaxed) {
        if keep {
            say(format_args!(
                "a library is opened with RTLD_DEEPBIND: it uses another malloc than the program, \
                 and what one allocates the other must not free"
            ));
        } else {
            say(format_args!(
                "RTLD_DEEPBIND is left out, so that a library uses the program's malloc \
                 (PRAIRIE_HEAP_DEEPBIND=keep keeps it)"
            ));
        }
    }
    if keep { asked } else { asked & !libc::RTLD_DEEPBIND }
}

/// The C library's `dlopen`.
pub extern "C" fn next_dlopen() -> *mut c_void {
    // SAFETY: looks the next symbol of this name up, behind the library that this code is in.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"dlopen".as_ptr()) };
    if next.is_null() {
        fatal(format_args!("no dlopen is there to hand a call on to"));
    }
    next
}
