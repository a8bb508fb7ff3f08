//! What ends the process when a program frees what it must not.

use super::fatal::fatal;

/// Ends the process: double free.
#[cold]
pub fn double_free(object: *mut u8, size: usize) -> ! {
    fatal(format_args!("double free of {object:p}, an object of {size} bytes"))
}

/// Ends the process: free of a pointer into an object.
#[cold]
pub fn interior(object: *mut u8, size: usize) -> ! {
    fatal(format_args!(
        "free of {object:p}, which points into an object of {size} bytes, not at its start"
    ))
}

/// Ends the process: free of a pointer at which no object begins.
#[cold]
pub fn not_an_object(object: *mut u8) -> ! {
    fatal(format_args!(
        "free of {object:p}, which this heap has not allocated, or which was freed before \
         (if a plugin was opened with RTLD_DEEPBIND, it uses another malloc than the program)"
    ))
}
