//! Recorded accesses of a real program, as the plugin in `plugin/accesses.c` writes them.
//!
//! A file is one thread: a header of 16 bytes (`PRAIRIEACCESS`, then 0, 1, 0), then 8 bytes an
//! access, little endian:
//!
//! ```text
//! 63 … 49                                     | 48     | 47 … 0
//! instructions since the access before        | store? | virtual address
//! ```

use std::io::{ErrorKind, Read};

use thiserror::Error;

/// The header of a file: a name and version 1.
pub const HEADER: [u8; 16] = *b"PRAIRIEACCESS\0\x01\0";

/// Bytes of a record.
const RECORD: usize = 8;

/// Programs of x86-64 and aarch64 Linux have addresses below this, unless they ask for more.
const ADDRESSES: u64 = 1 << 47;

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Virtual address, below 2⁴⁷.
    pub address: u64,
    /// Whether it is a store.
    pub store: bool,
    /// Instructions since the access before, up to 32,767.
    pub instructions: u32,
}

/// Why a file is refused. The caller names it.
#[derive(Debug, Error)]
pub enum Error {
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Io(#[from] std::io::Error),
    /// It is something else.
    #[error("not an access trace: expected the header PRAIRIEACCESS, version 1")]
    Header,
    /// It is truncated.
    #[error("truncated in record {record}: {bytes} of 8 bytes")]
    MidRecord {
        /// Number of the record, from 0.
        record: u64,
        /// Bytes of it that are there.
        bytes: usize,
    },
    /// An address that no program has.
    #[error("record {record} has address {address:#x}; those of programs are below 0x800000000000")]
    Address {
        /// Number of the record, from 0.
        record: u64,
        /// Its address.
        address: u64,
    },
    /// Nothing was recorded.
    #[error("empty trace: expected at least one access")]
    Empty,
}

/// The records of a file, in order. After an error comes nothing more.
#[derive(Debug)]
pub struct Records<R> {
    input: R,
    buffer: Box<[u8]>,
    /// The unread part of the buffer.
    next: usize,
    filled: usize,
    count: u64,
    ended: bool,
}

impl<R: Read> Records<R> {
    /// Begins to read.
    ///
    /// # Errors
    /// [`Error::Header`] or [`Error::Io`].
    pub fn new(mut input: R) -> Result<Records<R>, Error> {
        let mut header = [0; HEADER.len()];
        match input.read_exact(&mut header) {
            Ok(()) if header == HEADER => {}
            Err(error) if error.kind() != ErrorKind::UnexpectedEof => return Err(error.into()),
            _ => return Err(Error::Header),
        }
        let buffer = vec![0; 1 << 16].into_boxed_slice();
        Ok(Records { input, buffer, next: 0, filled: 0, count: 0, ended: false })
    }

    /// Reads as much as the buffer holds, or all there is.
    fn fill(&mut self) -> Result<(), Error> {
        (self.next, self.filled) = (0, 0);
        while self.filled < self.buffer.len() {
            match self.input.read(&mut self.buffer[self.filled..]) {
                Ok(0) => break,
                Ok(bytes) => self.filled += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn record(&mut self) -> Result<Option<Record>, Error> {
        if self.next == self.filled {
            self.fill()?;
        }
        let Some(bytes) = self.buffer[self.next..self.filled].first_chunk::<RECORD>() else {
            return match self.filled - self.next {
                0 if self.count == 0 => Err(Error::Empty),
                0 => Ok(None),
                bytes => Err(Error::MidRecord { record: self.count, bytes }),
            };
        };
        let word = u64::from_le_bytes(*bytes);
        let address = word & ((1 << 48) - 1);
        if address >= ADDRESSES {
            return Err(Error::Address { record: self.count, address });
        }
        self.next += RECORD;
        self.count += 1;
        let instructions = (word >> 49) as u32;
        Ok(Some(Record { address, store: word >> 48 & 1 == 1, instructions }))
    }
}

impl<R: Read> Iterator for Records<R> {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Result<Record, Error>> {
        if self.ended {
            return None;
        }
        let record = self.record().transpose();
        self.ended = !matches!(record, Some(Ok(_)));
        record
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A file of some records.
    pub(crate) fn file(records: &[Record]) -> Vec<u8> {
        let word = |record: &Record| {
            record.address | u64::from(record.store) << 48 | u64::from(record.instructions) << 49
        };
        let words = records.iter().flat_map(|record| word(record).to_le_bytes());
        HEADER.into_iter().chain(words).collect()
    }

    fn refused(bytes: &[u8]) -> String {
        let all = Records::new(bytes).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        all.unwrap_err().to_string()
    }

    /// The first output of the plugin for a small program under QEMU 7.2.
    #[test]
    fn the_plugins_files_are_read() {
        let mut bytes = HEADER.to_vec();
        for word in [0x0005_0040_0280_5828_u64, 0x0035_0040_0280_5820] {
            bytes.extend(word.to_le_bytes());
        }
        let all: Vec<Record> = Records::new(&bytes[..]).unwrap().map(Result::unwrap).collect();
        let record = |address, instructions| Record { address, store: true, instructions };
        assert_eq!(all, [record(0x40_0280_5828, 2), record(0x40_0280_5820, 26)]);
    }

    #[test]
    fn files_that_are_not_traces_are_refused_in_one_line() {
        let whole = file(&[Record { address: 64, store: true, instructions: 3 }; 3]);
        assert!(refused(b"").starts_with("not an access trace"));
        assert!(refused(b"PAR1 and something long enough").starts_with("not an access trace"));
        assert_eq!(refused(&whole[..16]), "empty trace: expected at least one access");
        assert_eq!(refused(&whole[..16 + 8 + 5]), "truncated in record 1: 5 of 8 bytes");
        let beyond = file(&[Record { address: 1 << 47, store: false, instructions: 0 }]);
        assert_eq!(
            refused(&beyond),
            "record 0 has address 0x800000000000; those of programs are below 0x800000000000"
        );
    }

    proptest! {
        #[test]
        fn records_come_back_as_they_were(
            records in prop::collection::vec((0..ADDRESSES, any::<bool>(), 0u32..1 << 15)
                .prop_map(|(address, store, instructions)| Record { address, store, instructions }), 1..50),
        ) {
            let read: Vec<Record> =
                Records::new(&file(&records)[..]).unwrap().map(Result::unwrap).collect();
            prop_assert_eq!(read, records);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut whole = HEADER.to_vec();
            whole.extend(&bytes);
            let _ = Records::new(&whole[..]).unwrap().count();
            let _ = Records::new(&bytes[..]).map(Iterator::count);
        }
    }
}
