//! Functions of the C library that are cancellation points, without being one.
//!
//! Rust's panic handler calls them, on its way to a backtrace. `build.rs` has the linker replace
//! the calls in the shared library (`--wrap`); the archive leaves them to the program that links
//! it. The names are hidden symbols, which Rust's own functions cannot have.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::io::IoSlice;
use std::os::fd::BorrowedFd;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

macro_rules! wrapped {
    ($($name:literal = $own:ident)*) => {$(
        core::arch::global_asm!(
            concat!(".globl __wrap_", $name),
            concat!(".hidden __wrap_", $name),
            concat!(".type __wrap_", $name, ", @function"),
            concat!("__wrap_", $name, ":"),
            #[cfg(target_arch = "x86_64")]
            "jmp {own}",
            #[cfg(target_arch = "aarch64")]
            "b {own}",
            own = sym $own,
        );
    )*};
}

wrapped! { "open" = open "open64" = open "close" = close "read" = read "write" = write "writev" = writev }

fn or_errno(result: Result<isize, Errno>) -> isize {
    result.unwrap_or_else(|error| {
        // SAFETY: the place of the thread's `errno`.
        unsafe { *libc::__errno_location() = error.raw_os_error() };
        -1
    })
}

unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    use std::os::fd::IntoRawFd;
    // SAFETY: the caller passes a C string.
    let path = unsafe { CStr::from_ptr(path) };
    let flags = OFlags::from_bits_retain(flags as c_uint);
    let file = openat(CWD, path, flags, Mode::from_raw_mode(mode));
    or_errno(file.map(|file| file.into_raw_fd() as isize)) as c_int
}

unsafe extern "C" fn close(file: c_int) -> c_int {
    // SAFETY: the caller owns the descriptor.
    unsafe { rustix::io::close(file) };
    0
}

unsafe extern "C" fn read(file: c_int, place: *mut c_void, len: usize) -> isize {
    // SAFETY: the caller passes an open file and a buffer of this length.
    let (file, place) = unsafe {
        (BorrowedFd::borrow_raw(file), core::slice::from_raw_parts_mut(place.cast::<u8>(), len))
    };
    or_errno(rustix::io::read(file, place).map(|len| len as isize))
}

unsafe extern "C" fn write(file: c_int, bytes: *const c_void, len: usize) -> isize {
    // SAFETY: as for `read`.
    let (file, bytes) = unsafe {
        (BorrowedFd::borrow_raw(file), core::slice::from_raw_parts(bytes.cast::<u8>(), len))
    };
    or_errno(rustix::io::write(file, bytes).map(|len| len as isize))
}

unsafe extern "C" fn writev(file: c_int, parts: *const IoSlice<'_>, count: c_int) -> isize {
    // SAFETY: the caller passes an open file and `count` `iovec`s, which `IoSlice` has the layout
    // of.
    let (file, parts) = unsafe {
        (BorrowedFd::borrow_raw(file), core::slice::from_raw_parts(parts, count as usize))
    };
    or_errno(rustix::io::writev(file, parts).map(|len| len as isize))
}
