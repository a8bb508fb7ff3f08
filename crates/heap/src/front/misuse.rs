//! What ends the process when a program frees what it must not.

use super::fatal::fatal;

/// Ends the process: double free.
#[cold]
pub fn freed_twice(object: *mut u8, size: usize) -> ! {
    fatal(format_args!("{object:p}, an object of {size} bytes, is freed twice"))
}

/// Ends the process: free of a pointer into an object.
#[cold]
pub fn interior(object: *mut u8, size: usize) -> ! {
    fatal(format_args!(
        "{object:p} is freed, which points into an object of {size} bytes and not at its start"
    ))
}

/// Ends the process: free of a pointer at which no object begins.
#[cold]
pub fn not_an_object(object: *mut u8) -> ! {
    fatal(format_args!(
        "{object:p} is freed, which this heap has not allocated, or has taken back already \
         (if a plugin was opened with RTLD_DEEPBIND, it uses another malloc than the program)"
    ))
}
