//! Pins of a real process, as the kernel that runs the tests counts them.
#![allow(missing_docs)]

mod common;

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use common::take;
use prairie_host::{Roots, Survey};

const BYTES: usize = 1 << 20;

/// An io_uring instance with `memory` as its one registered buffer.
fn registered(memory: &mut [u8]) -> std::io::Result<OwnedFd> {
    const IORING_REGISTER_BUFFERS: libc::c_uint = 0;
    // `struct io_uring_params`, all zero.
    let mut params = [0u32; 30];
    // SAFETY: the kernel writes the 120 bytes of its parameters.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 4, params.as_mut_ptr()) };
    if ring < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: a descriptor that the kernel has just opened for us.
    let ring = unsafe { OwnedFd::from_raw_fd(ring as i32) };
    let buffer = libc::iovec { iov_base: memory.as_mut_ptr().cast(), iov_len: memory.len() };
    // SAFETY: one buffer, which outlives the ring in the tests.
    let done = unsafe {
        let (fd, one) = (ring.as_raw_fd(), &raw const buffer);
        libc::syscall(libc::SYS_io_uring_register, fd, IORING_REGISTER_BUFFERS, one, 1)
    };
    if done < 0 { Err(std::io::Error::last_os_error()) } else { Ok(ring) }
}

#[test]
fn registered_buffers_are_pins_and_mlock_and_vmsplice_are_not() {
    let mut memory = vec![1u8; BYTES];
    let ring = match registered(&mut memory) {
        Ok(ring) => ring,
        Err(error) => return prairie_testing::skip(format_args!("io_uring: {error}")),
    };
    let mine = || {
        let survey = Survey::of(&take(&Roots::live()).unwrap()).unwrap();
        let pins = survey.pins.unwrap_or_default();
        pins.processes.into_iter().find(|process| process.pid == std::process::id())
    };
    let found = mine().expect("this process has pins");
    assert_eq!((found.io_uring_buffers, found.io_uring_bytes), (1, BYTES as u64));
    // A buffer that begins within a page pins that page, too.
    let pages = BYTES as u64..=BYTES as u64 + 2 * 4096;
    assert!(pages.contains(&found.charged_bytes), "{found:?}");
    drop(ring);

    let locked = vec![1u8; BYTES / 32];
    // SAFETY: memory of our own.
    let done = unsafe { libc::mlock(locked.as_ptr().cast(), locked.len()) };
    assert!(done == 0 || mine().is_none());
    let mut pipe = [0; 2];
    // SAFETY: two descriptors are written; one buffer of our own is read.
    let spliced = unsafe {
        assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
        let from = libc::iovec { iov_base: memory.as_mut_ptr().cast(), iov_len: 8192 };
        libc::vmsplice(pipe[1], &raw const from, 1, 0)
    };
    assert_eq!(spliced, 8192);
    // The kernel gives up a ring's pins after its last close, not before that returns.
    for _ in 0..100 {
        if mine().is_none() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("a locked page or a spliced one counts as pinned: {:?}", mine());
}
