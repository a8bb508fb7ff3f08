//! Taking memory: each means a small adapter behind one value.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::io::Errno;

use super::accessed_bits::{self, IdleProcesses};
use super::clock::Clock;
use super::generations::Eviction;
use super::lease::Leases;
use crate::call_size::CallSize;
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
        /// How much one call asks for.
        size: CallSize,
    },
    /// Evict generations by age.
    Evict {
        /// `lru_gen`, open for writing.
        file: Arc<Held>,
        /// What.
        evictions: Vec<Eviction>,
        /// How much one call asks for.
        size: CallSize,
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
        /// The processes whose bits were cleared.
        cleared: Arc<BTreeSet<u32>>,
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
        /// The calls that were made.
        calls: Calls,
    },
    /// Age was marked by generations.
    Marked,
    /// Accessed bits were cleared, of these processes.
    Cleared(BTreeSet<u32>),
    /// Idle memory.
    Idle(IdleProcesses),
    /// It was refused.
    Failed(io::Error),
}

/// The calls of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Calls {
    /// How many.
    pub count: u64,
    /// The CPU time that the last of them used.
    pub last: Duration,
    /// The most that one of them used.
    pub longest: Duration,
    /// The learned call size; `None` where calls cannot be split.
    pub size: Option<CallSize>,
}

/// A request that is under way: calls of a limited size with rests between them, up to a deadline.
struct Request<'a> {
    clock: &'a dyn Clock,
    ends: Duration,
    size: CallSize,
    calls: Calls,
}

impl Request<'_> {
    fn new(clock: &dyn Clock, deadline: Duration, size: CallSize) -> Request<'_> {
        Request { clock, ends: clock.now() + deadline, size, calls: Calls::default() }
    }

    /// Bytes of the next call out of `rest`; nothing when all is done or time is up.
    fn next(&self, rest: u64) -> Option<u64> {
        (rest > 0 && self.clock.now() < self.ends).then(|| rest.min(self.size.bytes()))
    }

    /// Makes a call for `bytes`, after a rest as long as the call before: others that want the CPU
    /// get at least half of it.
    fn call(&mut self, bytes: u64, make: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        if self.calls.count > 0 {
            self.clock.rest(self.calls.last);
        }
        let before = self.clock.used();
        let made = make();
        let used = self.clock.used().saturating_sub(before);
        self.size = self.size.after(bytes, used);
        self.calls.count += 1;
        self.calls.last = used;
        self.calls.longest = self.calls.longest.max(used);
        made
    }

    /// Its outcome: `bytes` were requested.
    fn asked(self, bytes: u64, partial: bool) -> Outcome {
        Outcome::Asked { bytes, partial, calls: Calls { size: Some(self.size), ..self.calls } }
    }
}

impl Work {
    /// Performs the request. Blocks as long as the kernel does, but starts no further part after
    /// `deadline`.
    pub fn perform(&self, deadline: Duration, clock: &dyn Clock) -> Outcome {
        match self {
            Work::Reclaim { file, current, bytes, swappiness, size } => {
                let request = Request::new(clock, deadline, *size);
                reclaim(file, current, *bytes, *swappiness, request)
            }
            Work::Evict { file, evictions, size } => {
                evict(file, evictions, Request::new(clock, deadline, *size))
            }
            Work::Begin { file, commands } => {
                match commands.iter().try_for_each(|command| file.write(command.as_str())) {
                    Ok(()) => Outcome::Marked,
                    Err(error) => Outcome::Failed(error),
                }
            }
            Work::Poke { leases, directory, bytes } => poke(leases, directory, *bytes),
            Work::Clear { proc, directory } => {
                Outcome::Cleared(accessed_bits::clear(proc, directory))
            }
            Work::Measure { proc, directory, cleared } => {
                let processes = &accessed_bits::processes(directory) & cleared;
                Outcome::Idle(IdleProcesses::of(proc, &processes))
            }
        }
    }
}

fn reclaim(
    file: &Held,
    current: &Held,
    bytes: u64,
    swappiness: Option<u32>,
    mut request: Request<'_>,
) -> Outcome {
    let mut asked = 0;
    // A request of one call needs no look at what left: the next period sees it.
    let before = if bytes > request.size.bytes() { read_current(current) } else { None };
    while let Some(part) = request.next(bytes - asked) {
        let words = match swappiness {
            Some(swappiness) => Words::of(format_args!("{part} swappiness={swappiness}\n")),
            None => Words::of(format_args!("{part}\n")),
        };
        match request.call(part, || file.write(words.as_str())) {
            Ok(()) => asked += request.size.taken_bytes(part).min(bytes - asked),
            Err(error) if is(&error, Errno::AGAIN) => return request.asked(asked + part, true),
            Err(error) if is(&error, Errno::INTR) => break,
            Err(error) => return Outcome::Failed(error),
        }
        if let (Some(before), Some(now)) = (before, before.and_then(|_| read_current(current)))
            && before.saturating_sub(now) >= bytes
        {
            break;
        }
    }
    request.asked(asked, asked < bytes)
}

fn read_current(file: &Held) -> Option<u64> {
    let mut buffer = Buffer::default();
    limit::number("memory.current", file.read(&mut buffer).ok()?).ok()
}

fn evict(file: &Held, evictions: &[Eviction], mut request: Request<'_>) -> Outcome {
    let (mut asked, wanted) = (0, evictions.iter().map(|each| each.pages).sum::<u64>());
    for eviction in evictions {
        let mut rest = eviction.pages;
        while let Some(part) = request.next(rest * 4096) {
            let pages = part / 4096;
            // Pages reclaimed beyond a call are not requested again.
            let taken = rest.min(request.size.taken_bytes(part) / 4096);
            match request.call(part, || file.write(eviction.command(pages).as_str())) {
                Ok(()) => asked += taken,
                // The generations moved on since they were read: the next period reads them again.
                Err(error) if is(&error, Errno::INVAL) || is(&error, Errno::RANGE) => break,
                Err(error) if is(&error, Errno::INTR) => break,
                Err(error) => return Outcome::Failed(error),
            }
            rest -= taken;
        }
    }
    request.asked(asked * 4096, asked < wanted)
}

/// Lowering `memory.high` below the current use makes the kernel reclaim at once, in the writer;
/// the previous limit is restored as soon as that is done. The cgroup's own tasks are slowed only
/// if they allocate in between.
fn poke(leases: &Mutex<Leases>, directory: &std::path::Path, bytes: u64) -> Outcome {
    let current = std::fs::read_to_string(directory.join("memory.current"))
        .and_then(|text| limit::number("memory.current", &text).map_err(io::Error::other));
    let target = match current {
        Ok(current) => current.saturating_sub(bytes) / 4096 * 4096,
        Err(error) => return Outcome::Failed(error),
    };
    let high = std::fs::read_to_string(directory.join(HIGH)).unwrap_or_default();
    if limit::parse(HIGH, &high).is_ok_and(|high| high.bytes() <= target) {
        // Another program's limit is lower already: the kernel reclaims to it.
        return Outcome::Asked { bytes: 0, partial: true, calls: Calls::default() };
    }
    let lock = || leases.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let announced = lock().announce(directory, HIGH, &target.to_string());
    // Without the lock: this write is the reclaim, and lasts as long.
    let lowered = announced.and_then(|file| file.write(&format!("{target}\n")));
    let given_back = lock().restore(directory, HIGH);
    match lowered.and(given_back) {
        Ok(()) => Outcome::Asked { bytes, partial: false, calls: Calls::default() },
        Err(error) if is(&error, Errno::INTR) => {
            Outcome::Asked { bytes, partial: true, calls: Calls::default() }
        }
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

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::io::Read;

    use super::*;
    use crate::call_size::Lists;

    /// A clock by which each call takes the same CPU time, and everything else none.
    struct Ticking {
        each: Duration,
        used: Cell<Duration>,
        reads: Cell<u32>,
        now: Cell<Duration>,
        rests: RefCell<Vec<Duration>>,
    }

    impl Ticking {
        fn new(each: Duration) -> Ticking {
            let zero = || Cell::new(Duration::ZERO);
            Ticking {
                each,
                used: zero(),
                reads: Cell::new(0),
                now: zero(),
                rests: RefCell::default(),
            }
        }
    }

    impl Clock for Ticking {
        fn now(&self) -> Duration {
            self.now.get()
        }

        /// Read before and after each call.
        fn used(&self) -> Duration {
            self.reads.set(self.reads.get() + 1);
            if self.reads.get().is_multiple_of(2) {
                self.used.set(self.used.get() + self.each);
                self.now.set(self.now.get() + self.each);
            }
            self.used.get()
        }

        fn rest(&self, time: Duration) {
            self.now.set(self.now.get() + time);
            self.rests.borrow_mut().push(time);
        }
    }

    /// A file that keeps all that is written to it, open for both.
    fn fifo(path: &std::path::Path) -> std::fs::File {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let (here, kind) = (rustix::fs::CWD, rustix::fs::FileType::Fifo);
        rustix::fs::mknodat(here, path, kind, mode, 0).unwrap();
        std::fs::File::options().read(true).write(true).open(path).unwrap()
    }

    /// What a request of 4 MiB writes to `memory.reclaim`, a FIFO here, with calls of at most 1 ms.
    fn written(clock: &Ticking, deadline: Duration, current: &str) -> (Vec<u64>, Outcome) {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("memory.reclaim");
        let mut reader = fifo(&path);
        std::fs::write(root.path().join("memory.current"), current).unwrap();
        let work = Work::Reclaim {
            file: Arc::new(Held::open_for_writing(&path).unwrap()),
            current: Arc::new(Held::open(&root.path().join("memory.current")).unwrap()),
            bytes: 4 << 20,
            swappiness: None,
            size: CallSize::new(Duration::from_millis(1), Lists::Classic),
        };
        let outcome = work.perform(deadline, clock);
        std::io::Write::write_all(&mut reader, b"end\n").unwrap();
        let mut text = String::new();
        while !text.ends_with("end\n") {
            let mut bytes = [0; 4096];
            let read = reader.read(&mut bytes).unwrap();
            text += std::str::from_utf8(&bytes[..read]).unwrap();
        }
        let parts = text.lines().filter_map(|line| line.parse().ok()).collect();
        (parts, outcome)
    }

    #[test]
    fn a_request_is_split_by_what_a_call_takes() {
        let second = Duration::from_secs(1);
        // 150 us for 32 pages, about 5 us a page: 96 pages in half a millisecond, once known.
        let clock = Ticking::new(Duration::from_micros(150));
        let (parts, outcome) = written(&clock, second, "1\n");
        assert_eq!(parts.iter().sum::<u64>(), 4 << 20);
        assert_eq!(parts[0], 32 * 4096, "nothing is known yet");
        assert!(parts.iter().max() > parts.first(), "{parts:?}");
        assert!(parts.iter().all(|part| *part <= 256 * 4096), "{parts:?}");
        let rests = clock.rests.borrow();
        assert_eq!(rests.len(), parts.len() - 1, "between calls");
        assert!(rests.iter().all(|rest| *rest == clock.each));
        let Outcome::Asked { bytes, partial: false, calls } = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!((bytes, calls.count), (4 << 20, parts.len() as u64));
        assert_eq!(calls.longest, clock.each);
        assert_ne!(calls.size, Some(CallSize::new(Duration::from_millis(1), Lists::Classic)));
    }

    #[test]
    fn with_generations_a_call_for_half_a_batch_takes_a_whole_one() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("lru_gen");
        let mut reader = fifo(&path);
        let eviction = Eviction { memcg: 14, node: 0, sequence: 5, swappiness: 200, pages: 150 };
        let work = Work::Evict {
            file: Arc::new(Held::open_for_writing(&path).unwrap()),
            evictions: vec![eviction],
            size: CallSize::new(Duration::from_millis(1), Lists::Mglru),
        };
        // 64 pages in 2 ms: one batch is the least.
        let clock = Ticking::new(Duration::from_millis(2));
        let outcome = work.perform(Duration::from_secs(1), &clock);
        let Outcome::Asked { bytes, partial: false, calls } = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!((bytes, calls.count), (150 * 4096, 3));
        let expected = "- 14 0 5 200 32".repeat(2) + "- 14 0 5 200 22";
        let mut text = vec![0; expected.len()];
        reader.read_exact(&mut text).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn no_call_begins_after_the_deadline() {
        // 10 ms and as long a rest: the calls begin at 0, 20, and 40 ms.
        let clock = Ticking::new(Duration::from_millis(10));
        let (parts, outcome) = written(&clock, Duration::from_millis(45), "1\n");
        assert_eq!(parts, [32 * 4096; 3]);
        let Outcome::Asked { bytes, partial: true, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!(bytes, 3 * 32 * 4096);
    }
}
