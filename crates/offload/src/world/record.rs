//! The record of leases: the guardian's lines in a file, for the case that daemon and guardian are
//! both killed.
//!
//! Lines are appended. Each request by `memory.high` adds two, 100 MB a day with a hundred
//! containers, and the file is in memory (`/run`). Once it is much longer than what is leased, the
//! lines of what is leased are written beside it and renamed, so that a reader sees all of them
//! at any time.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A shorter record is left as it is: some hundreds of requests.
const MIN_BYTES: u64 = 64 << 10;

/// The record, open for appending.
#[derive(Debug)]
pub(super) struct Record {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// It is worth compacting from this length on.
    long_bytes: u64,
}

impl Record {
    /// Opens or begins the record at `path`.
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn open(path: &Path) -> io::Result<Record> {
        let file = File::options().create(true).append(true).open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Record { path: path.to_owned(), file, bytes, long_bytes: MIN_BYTES })
    }

    /// Adds a line.
    ///
    /// # Errors
    /// I/O errors of the system; the record is as it was then.
    pub fn append(&mut self, line: &str) -> io::Result<()> {
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            // The half of a line would garble the next one.
            let _ = self.file.set_len(self.bytes);
            return Err(error);
        }
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// Whether it is long enough to be compacted.
    pub fn is_long(&self) -> bool {
        self.bytes >= self.long_bytes
    }

    /// Replaces its contents by `text`, all at once. If that fails, the record stays and grows to
    /// twice its length before it is tried again.
    pub fn compact(&mut self, text: &str) {
        let beside = self.path.with_extension("new");
        let replaced = fs::write(&beside, text)
            .and_then(|()| File::options().append(true).open(&beside))
            .and_then(|file| fs::rename(&beside, &self.path).map(|()| file));
        match replaced {
            Ok(file) => (self.file, self.bytes) = (file, text.len() as u64),
            Err(_) => drop(fs::remove_file(&beside)),
        }
        self.long_bytes = MIN_BYTES.max(2 * self.bytes);
    }

    /// Empties it.
    pub fn clear(&mut self) {
        if self.file.set_len(0).is_ok() {
            self.bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_record_is_replaced_and_goes_on() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("leases");
        let mut record = Record::open(&path).unwrap();
        while !record.is_long() {
            record.append("hold 1 2 0 max /a/memory.zswap.max\n").unwrap();
        }
        assert!(fs::metadata(&path).unwrap().len() < MIN_BYTES + 100);
        record.compact("hold 7 2 0 max /b/memory.zswap.max\n");
        assert!(!record.is_long());
        record.append("free 7\n").unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "hold 7 2 0 max /b/memory.zswap.max\nfree 7\n");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1, "nothing is left beside it");
        record.clear();
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
    }

    #[test]
    fn what_cannot_be_replaced_stays() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("leases");
        let mut record = Record::open(&path).unwrap();
        let line = format!("{}\n", "x".repeat(MIN_BYTES as usize));
        record.append(&line).unwrap();
        // A directory in the place of the file beside it.
        fs::create_dir(root.path().join("leases.new")).unwrap();
        record.compact("");
        assert_eq!(fs::read_to_string(&path).unwrap(), line);
        assert!(!record.is_long(), "it is tried again at twice the length");
    }
}
