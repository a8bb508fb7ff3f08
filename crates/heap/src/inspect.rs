//! Inspection of the heap of another process, by reading what it has published
//! (`process::publish`) from its memory.

pub mod lifetimes;

use std::fs::{self, File};
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;

use crate::front::lifetimes::Histogram;
use crate::front::profile::{SAMPLES, Sample, Table, now_ns, stands_for};
use crate::process::pprof;
use crate::process::publish::{MAGIC, Published, Record};
use crate::process::statistics::Statistics;
use lifetimes::Lifetimes;

/// The processes of this machine that publish the statistics of a heap of this version.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Survey {
    /// Process IDs, rising, and what each has published.
    pub readings: Vec<(u32, Reading)>,
    /// Processes that are not ours to read.
    pub unreadable: usize,
}

/// Reads what all processes have published.
///
/// # Errors
/// If `/proc` cannot be listed.
pub fn read_all() -> io::Result<Survey> {
    let mut survey = Survey::default();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        match read(pid) {
            Ok(reading) => survey.readings.push((pid, reading)),
            Err(Error::Read { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => {
                survey.unreadable += 1;
            }
            // Another malloc, or a process that has ended.
            Err(_) => {}
        }
    }
    survey.readings.sort_by_key(|(pid, _)| *pid);
    Ok(survey)
}

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
    /// It runs on another malloc or another version, or has not allocated enough to publish
    /// statistics.
    NoHeap,
    /// It does not sample its allocations.
    NotSampled,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Read { path, source } => write!(f, "{path}: {source}"),
            Error::NoHeap => {
                f.write_str("runs on another malloc (start it with `prairie heap run -- PROGRAM`)")
            }
            Error::NotSampled => f.write_str(
                "does not sample its allocations (start it with `prairie heap run --sample`)",
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Read { source, .. } => Some(source),
            Error::NoHeap | Error::NotSampled => None,
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
    let process = Process::open(pid)?;
    process
        .published()
        .find_map(|address| reading_at(&process.memory, address))
        .ok_or(Error::NoHeap)
}

/// The live samples of a process that samples its allocations.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Profile {
    samples: Vec<Sample>,
    /// Its `/proc/PID/maps`.
    maps: String,
    /// Samples left out because they changed while they were read.
    pub changing: usize,
}

impl Profile {
    /// The number of samples.
    pub fn samples(&self) -> usize {
        self.samples.len()
    }

    /// Bytes of live objects that the samples stand for: an estimate.
    pub fn bytes(&self) -> f64 {
        self.samples.iter().map(|sample| stands_for(sample.size) * sample.size as f64).sum()
    }

    /// A file for `pprof`: a gzipped protocol buffer.
    pub fn pprof(&self) -> Vec<u8> {
        let mut file = Vec::new();
        let each = |act: &mut dyn FnMut(&Sample)| self.samples.iter().for_each(act);
        pprof::write(|bytes| file.extend_from_slice(bytes), self.maps.as_bytes(), each);
        file
    }
}

/// Reads the live samples of process `pid` from its memory.
///
/// The process goes on meanwhile. Each sample is read twice, and left out if it has changed.
///
/// # Errors
/// As [`read`], or if the process does not sample.
pub fn profile(pid: u32) -> Result<Profile, Error> {
    let process = Process::open(pid)?;
    let (samples, changing) = process.live_samples(process.table()?)?;
    Ok(Profile { samples, maps: process.maps, changing })
}

/// Reads how long the sampled objects of process `pid` have lived, those that were freed and those
/// that are live, and the sizes of its spans.
///
/// The process goes on meanwhile: an object that is freed during this may be missing.
///
/// # Errors
/// As [`profile`].
pub fn lifetimes(pid: u32) -> Result<Lifetimes, Error> {
    let process = Process::open(pid)?;
    let reading = process.published().find_map(|address| reading_at(&process.memory, address));
    let reading = reading.ok_or(Error::NoHeap)?;
    let table = process.table()?;
    let number = |offset| process.number(table, offset).map(u64::from_ne_bytes);
    let freed = number(offset_of!(Table, freed)).filter(|&place| place > 0);
    let freed = freed.and_then(|place| process.cells(place)).ok_or(Error::NotSampled)?;
    let since_ns = number(offset_of!(Table, since_ns)).ok_or(Error::NotSampled)?;
    let (live, _) = process.live_samples(table)?;
    let now_ns = now_ns();
    let live = live.iter().map(|sample| (sample.size, now_ns.saturating_sub(sample.born_ns)));
    let observed_ns = now_ns.saturating_sub(since_ns).max(1);
    Ok(Lifetimes::of(observed_ns, &freed, live, reading.statistics.classes.iter()))
}

const PROFILE: usize = offset_of!(Published, profile);

/// A process whose memory is read.
struct Process {
    maps: String,
    memory: File,
}

impl Process {
    fn open(pid: u32) -> Result<Process, Error> {
        let path = format!("/proc/{pid}/maps");
        let maps = fs::read_to_string(&path).map_err(|source| Error::Read { path, source })?;
        let path = format!("/proc/{pid}/mem");
        let memory = File::open(&path).map_err(|source| Error::Read { path, source })?;
        Ok(Process { maps, memory })
    }

    /// Where something of this version is published.
    fn published(&self) -> impl Iterator<Item = u64> {
        candidates(&self.maps)
            .filter(|&(start, end)| end - start <= LONGEST)
            .flat_map(|(start, end)| (start..end).step_by(ALIGNMENT as usize))
            .filter(|&address| self.number(address, offset_of!(Published, magic)) == Some(MAGIC))
    }

    fn number<const BYTES: usize>(&self, address: u64, offset: usize) -> Option<[u8; BYTES]> {
        let mut bytes = [0; BYTES];
        self.memory.read_exact_at(&mut bytes, address.checked_add(offset as u64)?).ok()?;
        Some(bytes)
    }

    /// Where the table of samples lies.
    fn table(&self) -> Result<u64, Error> {
        let table = self.published().find_map(|address| self.number::<8>(address, PROFILE));
        table.map(u64::from_ne_bytes).ok_or(Error::NoHeap)
    }

    /// The live samples of a table, and how many were left out because they changed.
    fn live_samples(&self, table: u64) -> Result<(Vec<Sample>, usize), Error> {
        let places = self.number(table, offset_of!(Table, places)).map(u64::from_ne_bytes);
        let used = self.number(table, offset_of!(Table, used)).map(u32::from_ne_bytes);
        let (Some(places @ 1..), Some(used)) = (places, used) else {
            return Err(Error::NotSampled);
        };
        let used = (used as usize).min(SAMPLES);
        let (first, second) = (self.samples(places, used), self.samples(places, used));
        let (Some(first), Some(second)) = (first, second) else { return Err(Error::NotSampled) };
        let live = first.iter().zip(&second).filter(|(first, _)| first.is_live());
        let (same, changing): (Vec<_>, Vec<_>) = live.partition(|(first, second)| first == second);
        Ok((same.into_iter().map(|(sample, _)| *sample).collect(), changing.len()))
    }

    /// A histogram of freed samples.
    fn cells(&self, place: u64) -> Option<Box<Histogram>> {
        let mut bytes = vec![0; size_of::<Histogram>()];
        self.memory.read_exact_at(&mut bytes, place).ok()?;
        // SAFETY: as many bytes as a histogram has, which is made of numbers alone.
        Some(Box::new(unsafe { bytes.as_ptr().cast::<Histogram>().read_unaligned() }))
    }

    fn samples(&self, places: u64, used: usize) -> Option<Vec<Sample>> {
        let mut bytes = vec![0; used * size_of::<Sample>()];
        self.memory.read_exact_at(&mut bytes, places).ok()?;
        let sample = |bytes: &[u8]| {
            // SAFETY: as many bytes as a sample has, which is made of numbers alone.
            unsafe { bytes.as_ptr().cast::<Sample>().read_unaligned() }
        };
        Some(bytes.chunks_exact(size_of::<Sample>()).map(sample).collect())
    }
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
