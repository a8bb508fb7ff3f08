//! Inspection of the heap of another process, by reading what it has published
//! (`process::publish`) from its memory.

use std::fs::{self, File};
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;

use crate::process::publish::{MAGIC, Published, Record};
use crate::process::statistics::Statistics;

/// The published statistics of a process.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reading {
    /// The statistics.
    pub statistics: Statistics,
    /// When they were written, in nanoseconds of the kernel's monotonic clock.
    pub written_ns: u64,
    /// Operations of the page level since.
    pub operations_since: u32,
}

/// Why a process's heap cannot be inspected.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Its files in `/proc` cannot be read.
    Read {
        /// Which file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// It runs on another malloc, or has not allocated enough to publish statistics.
    NoHeap,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Read { path, source } => write!(f, "{path}: {source}"),
            Error::NoHeap => {
                f.write_str("runs on another malloc (start it with `prairie heap run -- PROGRAM`)")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Read { source, .. } => Some(source),
            Error::NoHeap => None,
        }
    }
}

/// What is published lies at a multiple of this, as its type says.
const ALIGNMENT: u64 = align_of::<Published>() as u64;
/// Mappings of writable data longer than this belong to no library.
const LONGEST: u64 = 64 << 20;
/// Attempts to read a record that changes meanwhile.
const ATTEMPTS: u32 = 100;

/// Reads what process `pid` has published.
///
/// # Errors
/// If the process is gone or not ours to read, or runs on another malloc.
pub fn read(pid: u32) -> Result<Reading, Error> {
    let path = format!("/proc/{pid}/maps");
    let maps = fs::read_to_string(&path).map_err(|source| Error::Read { path, source })?;
    let path = format!("/proc/{pid}/mem");
    let memory = File::open(&path).map_err(|source| Error::Read { path, source })?;
    candidates(&maps)
        .filter(|&(start, end)| end - start <= LONGEST)
        .flat_map(|(start, end)| (start..end).step_by(ALIGNMENT as usize))
        .find_map(|address| reading_at(&memory, address))
        .ok_or(Error::NoHeap)
}

/// The writable private data of files, and the data without file right behind it, where variables
/// that begin as zeros lie.
fn candidates(maps: &str) -> impl Iterator<Item = (u64, u64)> {
    let mut end_of_file_data = 0;
    maps.lines().filter_map(move |line| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let bounds = [start, end].map(|bound| u64::from_str_radix(bound, 16).ok());
        let [Some(start), Some(end)] = bounds else { return None };
        let access = words.next()?;
        let of_file = words.nth(3).is_some_and(|name| name.starts_with('/'));
        let behind = start == end_of_file_data;
        if of_file || behind {
            end_of_file_data = end;
        }
        (access == "rw-p" && (of_file || behind)).then_some((start, end))
    })
}

fn reading_at(memory: &File, address: u64) -> Option<Reading> {
    let number = |offset: usize| {
        let mut bytes = [0; 4];
        memory.read_exact_at(&mut bytes, address + offset as u64).ok()?;
        Some(u32::from_ne_bytes(bytes))
    };
    let mut magic = [0; 8];
    memory.read_exact_at(&mut magic, address).ok()?;
    // Another version has other fields.
    if magic != MAGIC {
        return None;
    }
    for _ in 0..ATTEMPTS {
        let sequence = number(offset_of!(Published, sequence))?;
        let mut written = [0; 8];
        let place = address + offset_of!(Published, written_ns) as u64;
        memory.read_exact_at(&mut written, place).ok()?;
        let mut record = [0; size_of::<Record>()];
        memory.read_exact_at(&mut record, address + Published::RECORD_OFFSET as u64).ok()?;
        // SAFETY: as many bytes as a record has, which is made of numbers alone.
        let record = unsafe { record.as_ptr().cast::<Record>().read_unaligned() };
        let reading = Reading {
            statistics: record.statistics(),
            written_ns: u64::from_ne_bytes(written),
            operations_since: number(offset_of!(Published, operations_since))?,
        };
        if sequence.is_multiple_of(2) && number(offset_of!(Published, sequence))? == sequence {
            return Some(reading);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_at_data_of_files_and_behind_it() {
        let maps = "\
1000-2000 r-xp 00000000 fd:00 12 /usr/lib/a.so
2000-3000 rw-p 00001000 fd:00 12 /usr/lib/a.so
3000-5000 rw-p 00000000 00:00 0 
7000-9000 rw-p 00000000 00:00 0 
a000-b000 rw-p 00000000 00:00 0                          [stack]
nonsense
c000-d000 rw-s 00000000 fd:00 12 /shared
";
        let found: Vec<_> = candidates(maps).collect();
        assert_eq!(found, [(0x2000, 0x3000), (0x3000, 0x5000)]);
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        assert!(matches!(read(u32::MAX), Err(Error::Read { .. })));
    }
}
