//! A program that pins a known number of pages: the judge of `prairie record --pins` in
//! `vm/tests/pins.sh`.
//!
//! io_uring pins the pages of registered buffers long-term, and direct reads pin those that they
//! read into for a moment. The program registers 1,024 small pages and a huge page, reads a file into
//! the small pages, and then into others. It ends the small pages' registration; that of the huge page
//! ends with the program.
//!
//! Usage: `pinned FILE`, where FILE has at least 4 MiB. Writes the frames that stay pinned, for each buffer.

use std::ffi::{CString, c_char, c_long, c_void};
use std::os::unix::ffi::OsStrExt;

const PAGE: usize = 4096;
const BYTES: usize = 4 << 20;
const HUGE: usize = 2 << 20;

// Linux on x86-64; the test compiles this file with nothing but the standard library.
const READ_AND_WRITE: i32 = 3;
const PRIVATE_ANONYMOUS: i32 = 0x22;
const ADVISE_HUGE: i32 = 14;
const ADVISE_SMALL: i32 = 15;
const DIRECT: i32 = 0o40000;
const IO_URING_SETUP: c_long = 425;
const IO_URING_REGISTER: c_long = 427;
const REGISTER_BUFFERS: u32 = 0;
const UNREGISTER_BUFFERS: u32 = 1;

unsafe extern "C" {
    fn mmap(at: *mut c_void, bytes: usize, protection: i32, flags: i32, file: i32, from: i64)
    -> *mut c_void;
    fn madvise(at: *mut c_void, bytes: usize, advice: i32) -> i32;
    fn open(path: *const c_char, flags: i32, ...) -> i32;
    fn pread(file: i32, to: *mut c_void, bytes: usize, from: i64) -> isize;
    fn syscall(number: c_long, ...) -> c_long;
}

/// Fails with the system's error.
fn checked(what: &str, returned: i64) -> i64 {
    assert!(returned >= 0, "{what}: {}", std::io::Error::last_os_error());
    returned
}

/// Touched memory, aligned to huge pages.
fn memory(bytes: usize, advice: i32) -> *mut u8 {
    let (null, flags) = (std::ptr::null_mut(), PRIVATE_ANONYMOUS);
    // SAFETY: a new mapping at an address that the kernel chooses overlaps nothing.
    let at = unsafe { mmap(null, bytes + HUGE, READ_AND_WRITE, flags, -1, 0) };
    checked("mmap", at as i64);
    let at = at.cast::<u8>();
    // SAFETY: the aligned part lies within the mapping, which is a huge page larger.
    let start = unsafe { at.add(at.align_offset(HUGE)) };
    // SAFETY: the range lies within the mapping, and nothing refers to its contents.
    checked("madvise", unsafe { madvise(start.cast(), bytes, advice) }.into());
    for offset in (0..bytes).step_by(PAGE) {
        // SAFETY: the byte lies within the mapping, which is writable.
        unsafe { start.add(offset).write_volatile(1) };
    }
    start
}

/// A ring that keeps `bytes` from `start` on registered.
fn registered(start: *mut u8, bytes: usize) -> i64 {
    // `struct io_uring_params` and a `struct iovec`.
    let mut parameters = [0_u64; 15];
    let buffer = [start as u64, bytes as u64];
    // SAFETY: the kernel writes no more than the 120 bytes of its structure.
    let ring = unsafe { syscall(IO_URING_SETUP, 4_u32, parameters.as_mut_ptr()) };
    let ring = checked("io_uring_setup", ring);
    // SAFETY: the kernel reads one buffer, which lies within a mapping that is never unmapped.
    let done = unsafe { syscall(IO_URING_REGISTER, ring, REGISTER_BUFFERS, buffer.as_ptr(), 1_u32) };
    checked("io_uring_register", done);
    ring
}

/// Reads `bytes` of a file that is open for direct reads, in parts.
fn read(file: i32, to: *mut u8, bytes: usize) {
    for offset in (0..bytes).step_by(1 << 20) {
        // SAFETY: the part lies within the mapping at `to`, which is writable.
        let got = unsafe { pread(file, to.add(offset).cast(), 1 << 20, offset as i64) };
        assert_eq!(checked("pread", got as i64), 1 << 20);
    }
}

fn main() {
    let path = std::env::args_os().nth(1).expect("FILE");
    let path = CString::new(path.as_bytes()).unwrap();
    // SAFETY: the path ends with a zero.
    let file = checked("open", unsafe { open(path.as_ptr(), DIRECT) }.into()) as i32;
    let small = memory(BYTES, ADVISE_SMALL);
    let huge = memory(HUGE, ADVISE_HUGE);
    let other = memory(BYTES, ADVISE_SMALL);
    let ring = registered(small, BYTES);
    let _kept = registered(huge, HUGE);
    read(file, small, BYTES);
    read(file, other, BYTES);
    let null = std::ptr::null::<c_void>();
    // SAFETY: nothing is passed.
    let done = unsafe { syscall(IO_URING_REGISTER, ring, UNREGISTER_BUFFERS, null, 0_u32) };
    checked("io_uring_register", done);
    // The kernel lets go of them when the ring has nothing left to do.
    std::thread::sleep(std::time::Duration::from_millis(200));
    println!("small {} huge 1", BYTES / PAGE);
}
