//! Taking memory: each means a small adapter behind one value.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::accessed_bits;
use super::generations::Eviction;
use super::lease::Leases;
use prairie_daemon::file::{Buffer, Held, Words};
use prairie_host::cgroup::limit;

/// Something to be done for a cgroup that may take the kernel long.
#[derive(Debug)]
pub enum Work {
    /// Write to `memory.reclaim`.
    Reclaim {
        /// The open file.
        file: Arc<Held>,
        /// `memory.current`, to see what left between two parts of a request.
        current: Arc<Held>,
        /// A number of bytes.
        bytes: u64,
        /// Say `swappiness=` where the kernel takes it.
        swappiness: Option<u32>,
    },
    /// Evict generations by age.
    Evict {
        /// `lru_gen`, open for writing.
        file: Arc<Held>,
        /// What.
        evictions: Vec<Eviction>,
    },
    /// Begin generations (`lru_gen` commands).
    Begin {
        /// `lru_gen`, open for writing.
        file: Arc<Held>,
        /// The commands.
        commands: Vec<Words>,
    },
    /// Lower `memory.high` and put it back at once: kernels without `memory.reclaim`.
    Poke {
        /// Puts it back in any case.
        leases: Arc<Mutex<Leases>>,
        /// The cgroup's directory.
        directory: PathBuf,
        /// A number of bytes.
        bytes: u64,
    },
    /// Clear the accessed bits.
    Clear {
        /// `/proc`.
        proc: PathBuf,
        /// The cgroup's directory.
        directory: PathBuf,
    },
    /// Sum up what has not been touched since.
    Measure {
        /// `/proc`.
        proc: PathBuf,
        /// The cgroup's directory.
        directory: PathBuf,
    },
}

/// The result.
#[derive(Debug)]
pub enum Outcome {
    /// The bytes requested; the kernel found fewer if `partial`.
    Asked {
        /// Bytes in the requests that were made.
        bytes: u64,
        /// It ran out of pages to take (`EAGAIN`), or of time.
        partial: bool,
    },
    /// Age was marked.
    Marked,
    /// Idle bytes; `None` if no process could be read.
    Idle(Option<u64>),
    /// It was refused.
    Failed(io::Error),
}

/// A request is made in parts of at most this, so that a deadline can be kept and an overshoot is
/// noticed.
const PART_BYTES: u64 = 8 << 20;

impl Work {
    /// Performs the request. Blocks as long as the kernel does, but starts no further part after
    /// `deadline`.
    pub fn perform(&self, deadline: Duration) -> Outcome {
        let started = Instant::now();
        let in_time = || started.elapsed() < deadline;
        match self {
            Work::Reclaim { file, current, bytes, swappiness } => {
                reclaim(file, current, *bytes, *swappiness, &in_time)
            }
            Work::Evict { file, evictions } => evict(file, evictions, &in_time),
            Work::Begin { file, commands } => {
                match commands.iter().try_for_each(|command| file.write(command.as_str())) {
                    Ok(()) => Outcome::Marked,
                    Err(error) => Outcome::Failed(error),
                }
            }
            Work::Poke { leases, directory, bytes } => poke(leases, directory, *bytes),
            Work::Clear { proc, directory } => {
                accessed_bits::clear(proc, directory);
                Outcome::Marked
            }
            Work::Measure { proc, directory } => {
                Outcome::Idle(accessed_bits::idle_bytes(proc, directory))
            }
        }
    }
}

fn reclaim(
    file: &Held,
    current: &Held,
    bytes: u64,
    swappiness: Option<u32>,
    in_time: &dyn Fn() -> bool,
) -> Outcome {
    let mut asked = 0;
    // A request of one part needs no look at what left: the next period sees it.
    let before = if bytes > PART_BYTES { read_current(current) } else { None };
    while asked < bytes && in_time() {
        let part = (bytes - asked).min(PART_BYTES);
        let words = match swappiness {
            Some(swappiness) => Words::of(format_args!("{part} swappiness={swappiness}\n")),
            None => Words::of(format_args!("{part}\n")),
        };
        match file.write(words.as_str()) {
            Ok(()) => asked += part,
            Err(error) if is(&error, Errno::AGAIN) => {
                return Outcome::Asked { bytes: asked + part, partial: true };
            }
            Err(error) if is(&error, Errno::INTR) => break,
            Err(error) => return Outcome::Failed(error),
        }
        if let (Some(before), Some(now)) = (before, before.and_then(|_| read_current(current)))
            && before.saturating_sub(now) >= bytes
        {
            break;
        }
    }
    Outcome::Asked { bytes: asked, partial: asked < bytes }
}

fn read_current(file: &Held) -> Option<u64> {
    let mut buffer = Buffer::default();
    limit::number("memory.current", file.read(&mut buffer).ok()?).ok()
}

fn evict(file: &Held, evictions: &[Eviction], in_time: &dyn Fn() -> bool) -> Outcome {
    let (mut asked, wanted) = (0, evictions.iter().map(|each| each.pages).sum::<u64>());
    for eviction in evictions {
        let mut rest = eviction.pages;
        while rest > 0 && in_time() {
            let part = rest.min(PART_BYTES / 4096);
            match file.write(eviction.command(part).as_str()) {
                Ok(()) => asked += part,
                // The generations moved on since they were read: the next period reads them again.
                Err(error) if is(&error, Errno::INVAL) || is(&error, Errno::RANGE) => break,
                Err(error) if is(&error, Errno::INTR) => break,
                Err(error) => return Outcome::Failed(error),
            }
            rest -= part;
        }
    }
    Outcome::Asked { bytes: asked * 4096, partial: asked < wanted }
}

/// Lowering `memory.high` below what is used makes the kernel reclaim at once, in the writer; the
/// limit that was there comes back as soon as that is done. The cgroup's own tasks are slowed
/// only if they allocate in between.
fn poke(leases: &Mutex<Leases>, directory: &std::path::Path, bytes: u64) -> Outcome {
    let current = std::fs::read_to_string(directory.join("memory.current"))
        .and_then(|text| limit::number("memory.current", &text).map_err(io::Error::other));
    let target = match current {
        Ok(current) => current.saturating_sub(bytes) / 4096 * 4096,
        Err(error) => return Outcome::Failed(error),
    };
    let high = std::fs::read_to_string(directory.join(HIGH)).unwrap_or_default();
    if limit::parse(HIGH, &high).is_ok_and(|high| high.bytes() <= target) {
        // Somebody's limit is lower already: the kernel is at it.
        return Outcome::Asked { bytes: 0, partial: true };
    }
    let lock = || leases.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let announced = lock().announce(directory, HIGH, &target.to_string());
    // Without the lock: this write is the reclaim, and lasts as long.
    let lowered = announced.and_then(|file| file.write(&format!("{target}\n")));
    let given_back = lock().restore(directory, HIGH);
    match lowered.and(given_back) {
        Ok(()) => Outcome::Asked { bytes, partial: false },
        Err(error) if is(&error, Errno::INTR) => Outcome::Asked { bytes, partial: true },
        Err(error) => Outcome::Failed(error),
    }
}

const HIGH: &str = "memory.high";

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// What the kernel says to `swappiness=` in a request for nothing, which reclaims nothing:
/// kernels from 6.11 on take it, older ones answer `EINVAL`.
pub fn takes_swappiness(file: &Held) -> bool {
    file.write("0 swappiness=60\n").is_ok()
}
