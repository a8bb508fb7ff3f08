//! Files, accessed by system calls that the heap issues itself.
//!
//! The C library's `open`, `read`, `write` and `close` are cancellation points, which malloc must
//! not be. rustix opens, reads and writes without them, but an [`OwnedFd`] closes by the C library.

use core::ffi::CStr;
use core::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Result;

/// An open file.
#[derive(Debug)]
pub struct File(ManuallyDrop<OwnedFd>);

impl File {
    /// Opens a file to read it.
    pub fn open(path: &CStr) -> Result<File> {
        File::with(path, OFlags::RDONLY, 0)
    }

    /// Opens a file to read and write it.
    pub fn open_to_write(path: &CStr) -> Result<File> {
        File::with(path, OFlags::RDWR, 0)
    }

    /// Creates a file, or empties the one that exists.
    pub fn create(path: &CStr) -> Result<File> {
        File::with(path, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC, 0o644)
    }

    /// Creates a file that must not exist yet.
    pub fn create_new(path: &CStr) -> Result<File> {
        File::with(path, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, 0o600)
    }

    fn with(path: &CStr, flags: OFlags, mode: u32) -> Result<File> {
        let file = openat(CWD, path, flags | OFlags::CLOEXEC, Mode::from_raw_mode(mode))?;
        Ok(File(ManuallyDrop::new(file)))
    }

    /// Reads from where the file stands to its end, or until `text` is full. Returns the bytes
    /// read; an error ends the file.
    pub fn read(&self, text: &mut [u8]) -> usize {
        let mut len = 0;
        while let Ok(read @ 1..) = rustix::io::read(self, &mut text[len..]) {
            len += read;
        }
        len
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: the descriptor is the file's own, and closed once.
        unsafe { rustix::io::close(self.0.as_raw_fd()) };
    }
}
