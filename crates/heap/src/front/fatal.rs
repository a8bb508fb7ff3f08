//! Ending the process with one line, without allocating.

use core::fmt::{self, Write};

/// A line of text on the stack, truncated if too long.
pub struct Line {
    bytes: [u8; 256],
    len: usize,
}

impl Line {
    /// An empty line.
    pub const fn new() -> Line {
        Line { bytes: [0; 256], len: 0 }
    }

    /// What was written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Default for Line {
    fn default() -> Self {
        Line::new()
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.bytes[self.len..];
        let len = text.len().min(room.len());
        room[..len].copy_from_slice(&text.as_bytes()[..len]);
        self.len += len;
        Ok(())
    }
}

/// Writes a line to standard error.
pub fn warn(message: fmt::Arguments<'_>) {
    let mut line = Line::new();
    let _ = write!(line, "prairie-heap: {message}");
    line.len = line.len.min(line.bytes.len() - 1);
    let _ = line.write_str("\n");
    let _ = rustix::io::write(rustix::stdio::stderr(), line.as_bytes());
}

/// Writes a line to standard error and ends the process with `SIGABRT`.
#[cold]
pub fn fatal(message: fmt::Arguments<'_>) -> ! {
    warn(message);
    // SAFETY: has no preconditions.
    unsafe { libc::abort() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_not_overrun() {
        let mut line = Line::new();
        write!(line, "{}{}", "a".repeat(200), "b".repeat(200)).unwrap();
        assert_eq!(line.as_bytes().len(), 256);
        assert!(line.as_bytes().ends_with(b"abb".get(1..).unwrap()));
    }
}
