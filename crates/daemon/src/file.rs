//! Kernel files that are read again and again: opened once, read into one buffer.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A buffer that grows to the largest file it has seen and is then used again.
#[derive(Debug)]
pub struct Buffer(Vec<u8>);

/// `memory.stat` has some 1.5 KiB.
const FIRST_BYTES: usize = 8 << 10;

/// No file that is read here is longer; what claims to be is not believed.
const MAX_BYTES: usize = 16 << 20;

impl Default for Buffer {
    fn default() -> Buffer {
        Buffer(vec![0; FIRST_BYTES])
    }
}

/// A kernel file that stays open, so that a read needs no path walk and no allocation.
#[derive(Debug)]
pub struct Held(File);

impl Held {
    /// Opens for reading.
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn open(path: &Path) -> io::Result<Held> {
        File::open(path).map(Held)
    }

    /// Opens for writing; the file must exist, and is not cut.
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn open_for_writing(path: &Path) -> io::Result<Held> {
        OpenOptions::new().write(true).open(path).map(Held)
    }

    /// The whole file as it is now.
    ///
    /// # Errors
    /// The system's, `ENODEV` where the cgroup is gone; `InvalidData` where it is no text, or
    /// larger than any file that is read here.
    pub fn read<'b>(&self, buffer: &'b mut Buffer) -> io::Result<&'b str> {
        self.read_until(buffer, |read, _| read == 0)
    }

    /// The same of a file that the kernel writes in one piece, as those of a cgroup are: a read
    /// that does not fill the buffer has seen all of it. Half the system calls.
    ///
    /// # Errors
    /// As [`Held::read`].
    pub fn read_piece<'b>(&self, buffer: &'b mut Buffer) -> io::Result<&'b str> {
        self.read_until(buffer, |read, room| read < room)
    }

    fn read_until<'b>(
        &self,
        buffer: &'b mut Buffer,
        is_end: impl Fn(usize, usize) -> bool,
    ) -> io::Result<&'b str> {
        let bytes = &mut buffer.0;
        let mut len = 0;
        loop {
            let room = bytes.len() - len;
            match self.0.read_at(&mut bytes[len..], len as u64) {
                Ok(read) => {
                    len += read;
                    if is_end(read, room) {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            if len == bytes.len() {
                if len >= MAX_BYTES {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "longer than 16 MiB"));
                }
                bytes.resize(len * 2, 0);
            }
        }
        std::str::from_utf8(&bytes[..len])
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not a text"))
    }

    /// Writes `text` in one call, as kernel files want it.
    ///
    /// # Errors
    /// The system's. `EAGAIN` from `memory.reclaim` means that it reclaimed less than requested.
    pub fn write(&self, text: &str) -> io::Result<()> {
        // A cgroup's files take a write at any place, debugfs' lru_gen only one where it stands.
        let written = match self.0.write_at(text.as_bytes(), 0) {
            Err(error) if error.raw_os_error() == Some(libc::ESPIPE) => {
                (&self.0).write(text.as_bytes())
            }
            written => written,
        };
        match written? {
            written if written == text.len() => Ok(()),
            written => Err(io::Error::other(format!("took {written} of {} bytes", text.len()))),
        }
    }
}

/// A text in a small array, so that writing a number takes no memory.
#[derive(Debug)]
pub struct Words {
    bytes: [u8; 96],
    len: usize,
}

impl Words {
    /// The formatted arguments, cut at 96 bytes (no command is half as long).
    pub fn of(arguments: std::fmt::Arguments<'_>) -> Words {
        let mut words = Words { bytes: [0; 96], len: 0 };
        let _ = std::fmt::write(&mut words, arguments);
        words
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

impl std::fmt::Write for Words {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.len + text.len();
        let slot = self.bytes.get_mut(self.len..end).ok_or(std::fmt::Error)?;
        slot.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// Whether an error of a cgroup's file says that the cgroup is gone.
pub fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_is_read_whole_and_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lru_gen");
        let text = "0123456789abcdef".repeat(5_000);
        std::fs::write(&path, &text).unwrap();
        let (held, mut buffer) = (Held::open(&path).unwrap(), Buffer::default());
        assert_eq!(held.read(&mut buffer).unwrap(), text);
        std::fs::write(&path, "7\n").unwrap();
        assert_eq!(held.read(&mut buffer).unwrap(), "7\n");
        assert_eq!(held.read_piece(&mut buffer).unwrap(), "7\n");
        std::fs::write(&path, &text[..8192]).unwrap();
        assert_eq!(held.read_piece(&mut Buffer::default()).unwrap(), &text[..8192]);
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        assert_eq!(held.read(&mut buffer).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn words_are_cut_not_overrun() {
        assert_eq!(
            Words::of(format_args!("{} swappiness={}", 4096, 0)).as_str(),
            "4096 swappiness=0"
        );
        assert_eq!(Words::of(format_args!("{}{}", "a", "b".repeat(100))).as_str(), "a");
    }
}
