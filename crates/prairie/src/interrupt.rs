//! Ctrl-C asks long work to stop; a second one ends the program at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Exit code of a program that SIGINT ended, by the shell's convention.
pub const EXIT_CODE: u8 = 130;

/// The flag that the first interruption sets, if signals are to be `caught` here.
pub fn flag(caught: bool) -> &'static AtomicBool {
    if !caught {
        return &INTERRUPTED;
    }
    let installed = ctrlc::set_handler(|| {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            std::process::exit(EXIT_CODE.into());
        }
    });
    // Without a handler the signal ends the program, which leaves nothing half-written either.
    drop(installed);
    &INTERRUPTED
}

/// Sleeps until `due`; false if `interrupted` before.
pub fn sleep_until(due: Instant, interrupted: &AtomicBool) -> bool {
    while let Some(rest) = due.checked_duration_since(Instant::now()) {
        if interrupted.load(Ordering::Relaxed) {
            return false;
        }
        sleep(rest.min(Duration::from_millis(100)));
    }
    true
}

/// Whether the work should stop.
pub fn requested() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}
