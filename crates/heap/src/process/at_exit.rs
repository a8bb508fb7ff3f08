//! Statistics at exit and of `malloc_stats`.

use core::fmt::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};

use super::output;
use super::settings::{ExitStatistics, Format};
use super::shared;

/// Writes to a file through a buffer on the stack.
struct Buffered<'a> {
    file: BorrowedFd<'a>,
    buffer: [u8; 4096],
    len: usize,
}

impl<'a> Buffered<'a> {
    fn over(file: BorrowedFd<'a>) -> Buffered<'a> {
        Buffered { file, buffer: [0; 4096], len: 0 }
    }

    fn push_out(&mut self) {
        let mut rest = &self.buffer[..self.len];
        while let Ok(written @ 1..) = rustix::io::write(self.file, rest) {
            rest = &rest[written..];
        }
        self.len = 0;
    }
}

impl Drop for Buffered<'_> {
    fn drop(&mut self) {
        self.push_out();
    }
}

impl std::io::Write for Buffered<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.len == self.buffer.len() {
            self.push_out();
        }
        let room = &mut self.buffer[self.len..];
        let len = bytes.len().min(room.len());
        room[..len].copy_from_slice(&bytes[..len]);
        self.len += len;
        Ok(len)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.push_out();
        Ok(())
    }
}

impl fmt::Write for Buffered<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        std::io::Write::write_all(self, text.as_bytes()).map_err(|_| fmt::Error)
    }
}

/// Writes the statistics as text to standard error, as `malloc_stats` does.
pub fn to_standard_error() {
    write(Format::Text, rustix::stdio::stderr());
}

/// Writes what the settings ask for.
pub fn write_as_asked(asked: &ExitStatistics) {
    match asked.path() {
        None => write(asked.format, rustix::stdio::stderr()),
        Some(path) => {
            if let Some(file) = output::create(path, "statistics") {
                write(asked.format, file.as_fd());
            }
        }
    }
}

fn write(format: Format, file: BorrowedFd<'_>) {
    let Some(statistics) = shared::statistics() else { return };
    let mut file = Buffered::over(file);
    match format {
        Format::Text => {
            let _ = write!(file, "{statistics}");
        }
        Format::Json => {
            let _ = serde_json::to_writer(&mut file, &statistics);
            let _ = file.write_str("\n");
        }
    }
}
