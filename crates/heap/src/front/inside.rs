//! Cancellation of a thread that is inside the heap, at any moment: undefined in POSIX.
//!
//! The thread is unwound and would keep its locks forever. Destructors of the locks' guards cannot
//! prevent that: the compiler's tables for the unwinder list calls, and a thread is stopped between
//! them. Nor does an `extern "C"` function end the program, as it does for a panic: the unwinder of
//! cancelled threads passes it. So each entry that may take a lock does its work in a call of its
//! own, and the program ends where that call is unwound.

use super::fatal::fatal;

/// Does `work`. If the thread is unwound meanwhile, the program ends with one line.
// Never inlined: in an `extern "C"` function the destructor would share the entry that is passed.
#[inline(never)]
pub fn inside<R>(work: impl FnOnce() -> R) -> R {
    let inside = Inside;
    let result = call(work);
    core::mem::forget(inside);
    result
}

/// Keeps `work` out of [`inside`], where a thread may be stopped in this call alone.
#[inline(never)]
fn call<R>(work: impl FnOnce() -> R) -> R {
    work()
}

struct Inside;

impl Drop for Inside {
    fn drop(&mut self) {
        fatal(format_args!(
            "a thread was cancelled, or ended by a signal handler, inside the heap"
        ));
    }
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use core::ffi::c_void;
    use core::ptr::{null, null_mut};
    use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::super::sync::{ForkLock, Lock};
    use super::*;

    unsafe extern "C" {
        fn pthread_setcanceltype(kind: i32, before: *mut i32) -> i32;
        fn pthread_cancel(thread: libc::pthread_t) -> i32;
    }

    static HELD: Lock<u64> = Lock::new(0);
    static COUNT: AtomicU64 = AtomicU64::new(0);

    fn hold_for_ever() {
        if let Some(mut held) = HELD.lock() {
            loop {
                *held = held.wrapping_add(1);
                COUNT.store(*held, Relaxed);
                assert!(*held != 0, "a call that may unwind");
            }
        }
    }

    extern "C" fn thread(_: *mut c_void) -> *mut c_void {
        const ASYNCHRONOUS: i32 = 1;
        // SAFETY: sets how this thread is cancelled.
        unsafe { pthread_setcanceltype(ASYNCHRONOUS, null_mut()) };
        inside(hold_for_ever);
        null_mut()
    }

    /// The test runs itself as another process, which is expected to end.
    #[test]
    fn a_thread_cancelled_with_a_lock_ends_the_program() {
        const CHILD: &str = "PRAIRIE_TEST_CANCELLED_INSIDE";
        if std::env::var_os(CHILD).is_some() {
            let mut id = 0;
            // SAFETY: the thread is made, cancelled, and joined once.
            unsafe {
                libc::pthread_create(&mut id, null(), thread, null_mut());
                while COUNT.load(Relaxed) == 0 {
                    std::thread::yield_now();
                }
                pthread_cancel(id);
                libc::pthread_join(id, null_mut());
            }
            std::process::exit(if HELD.bars() { 3 } else { 0 });
        }
        let name = std::thread::current().name().unwrap().to_owned();
        let mut child = Command::new(std::env::current_exe().unwrap());
        let output =
            child.args(["--exact", &name, "--nocapture"]).env(CHILD, "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{} {said}", output.status);
        assert!(said.contains("cancelled"), "{said}");
    }
}
