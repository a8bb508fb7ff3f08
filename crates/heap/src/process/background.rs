//! The thread that gives memory back at a steady rate (section 3), off unless a program's
//! environment asks for it.

use core::ffi::c_void;
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::thread::{Timespec, nanosleep, set_name};

use super::malloc;
use crate::front::fatal::warn;
use crate::front::file::File;
use crate::units::Pages;

/// Bytes per second to give back; 0 means no thread.
static RATE: AtomicU64 = AtomicU64::new(0);

/// Starts the thread at a rate other than 0: when the library is loaded.
pub fn start_at(bytes_per_second: u64) {
    // Only processes that have such a thread touch the page of the rate.
    if bytes_per_second != 0 {
        RATE.store(bytes_per_second, Relaxed);
        start();
    }
}

/// Starts the thread if a rate is set: also in each forked child.
pub fn start() {
    if RATE.load(Relaxed) == 0 {
        return;
    }
    // SAFETY: plain values of the C library, set before they are used; the thread takes no
    // argument. The program's signals are blocked while the thread is made, and so in it forever.
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
        warn(format_args!("background thread not started: error {error}"));
    }
}

extern "C" fn release_for_ever(_: *mut c_void) -> *mut c_void {
    let _ = set_name(c"prairie-heap");
    loop {
        let _ = nanosleep(&Timespec { tv_sec: 1, tv_nsec: 0 });
        if is_alone() {
            // The C library ends the process with its last thread, as it would have without this.
            return null_mut();
        }
        malloc::release_steadily(Pages::holding(RATE.load(Relaxed)));
    }
}

/// Whether the program's own threads have all ended, the first one by `pthread_exit` or, in a child
/// that another thread forked, by returning: no thread would end the process then.
fn is_alone() -> bool {
    let mut text = [0; 512];
    let Ok(file) = File::open(c"/proc/self/stat") else { return false };
    let len = file.read(&mut text);
    has_one_thread(&text[..len])
}

/// Whether `/proc/self/stat` shows an ended first thread and one other thread. The program's name,
/// in brackets, may hold anything; behind it come the first thread's state and, seventeen words on,
/// the number of threads, the ended one with them.
fn has_one_thread(stat: &[u8]) -> bool {
    let Some(end) = stat.iter().rposition(|&byte| byte == b')') else { return false };
    let mut words = stat[end + 1..].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    words.next() == Some(b"Z") && words.nth(16) == Some(b"2")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ended_first_thread_and_one_more_are_one() {
        let stat = |name: &str, state: &str, threads: u32| {
            let rest = "1 7 7 0 -1 4194304 95 0 0 0 0 0 0 0 20 0";
            format!("7 ({name}) {state} {rest} {threads} 0 8147 2990080 372 18446744073709551615\n")
        };
        assert!(has_one_thread(stat("x", "Z", 2).as_bytes()));
        assert!(has_one_thread(stat("a) S 1 (b", "Z", 2).as_bytes()));
        assert!(!has_one_thread(stat("x", "S", 2).as_bytes()));
        assert!(!has_one_thread(stat("x", "Z", 3).as_bytes()));
        assert!(!has_one_thread(b"7 (x) Z") && !has_one_thread(b""));
    }
}
