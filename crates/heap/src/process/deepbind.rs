//! Support of plugins opened with `RTLD_DEEPBIND`.
//!
//! Such a plugin looks for symbols in itself and its own libraries first, and so finds the C
//! library's malloc, whatever is preloaded; what it allocates and the program frees ends the
//! process. The preloaded library's `dlopen` therefore clears that flag. The call is forwarded by a
//! jump, as the C library uses the caller's address to find the caller's search path.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::front::fatal::{fatal, warn};

/// glibc's flag; musl has none, and `libc` does not declare it there.
const RTLD_DEEPBIND: c_int = 8;

/// Whether the flag is kept (`PRAIRIE_HEAP_DEEPBIND=keep`).
static KEEP: AtomicBool = AtomicBool::new(false);
static SAID: AtomicBool = AtomicBool::new(false);

/// Keeps the flag from now on.
pub fn keep() {
    KEEP.store(true, Relaxed);
}

/// The flags to open a library with. Reports once that one was left out.
pub extern "C" fn flags(asked: c_int) -> c_int {
    if asked & RTLD_DEEPBIND == 0 {
        return asked;
    }
    let keep = KEEP.load(Relaxed);
    if !SAID.swap(true, Relaxed) {
        if keep {
            warn(format_args!(
                "a library is opened with RTLD_DEEPBIND: it uses another malloc than the program, \
                 and what one allocates the other must not free"
            ));
        } else {
            warn(format_args!(
                "RTLD_DEEPBIND is left out, so that a library uses the program's malloc \
                 (PRAIRIE_HEAP_DEEPBIND=keep keeps it)"
            ));
        }
    }
    if keep { asked } else { asked & !RTLD_DEEPBIND }
}

/// The C library's `dlopen`.
pub extern "C" fn next_dlopen() -> *mut c_void {
    // SAFETY: looks the next symbol of this name up, behind the library that this code is in.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"dlopen".as_ptr()) };
    if next.is_null() {
        fatal(format_args!("no dlopen found to forward a call to"));
    }
    next
}
