//! One container: a memory cgroup whose files are held open.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use prairie_host::ParseError;
use prairie_host::cgroup::{Limit, MemoryStat, limit, memory_stat};

use crate::counter::Counters;
use crate::observation::{Observation, Room};
use crate::signal::{Signal, Source};
use prairie_daemon::file::{Buffer, Held, is_gone};

/// A memory cgroup.
#[derive(Debug)]
pub struct Cgroup {
    /// Its path below the root of cgroup v2, without a leading slash.
    pub path: String,
    /// Its directory.
    pub directory: PathBuf,
    current: Held,
    stat: Held,
    pressure: Vec<(&'static Source, Held)>,
    swap_current: Option<Held>,
    protected_bytes: u64,
    swap: Vec<SwapLimit>,
}

/// A limit on swap, of the cgroup or one above it.
#[derive(Debug)]
struct SwapLimit {
    max_bytes: u64,
    current: Held,
}

/// Why a cgroup could not be sampled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CgroupError {
    /// It was removed.
    #[error("the cgroup is gone")]
    Gone,
    /// A file could not be read.
    #[error("{file}: {source}")]
    Io {
        /// Which.
        file: &'static str,
        /// The reason that the system gives.
        source: io::Error,
    },
    /// A file is not what the kernel writes.
    #[error(transparent)]
    Parse(#[from] ParseError),
}

impl CgroupError {
    fn of(file: &'static str) -> impl Fn(io::Error) -> CgroupError {
        move |source| {
            if is_gone(&source) { CgroupError::Gone } else { CgroupError::Io { file, source } }
        }
    }
}

impl Cgroup {
    /// Opens the cgroup at `path` below `root` with the files of its signals.
    /// `memory.swap.current` and files that a signal does not require may be missing.
    ///
    /// # Errors
    /// [`CgroupError`] where any other file is missing.
    pub fn open(
        root: &Path,
        path: &str,
        signals: &'static [Signal],
    ) -> Result<Cgroup, CgroupError> {
        let directory = root.join(path);
        fs::metadata(&directory).map_err(CgroupError::of("its directory"))?;
        let held = |file: &'static str| {
            Held::open(&directory.join(file)).map_err(|source| CgroupError::Io { file, source })
        };
        let mut pressure = Vec::new();
        for source in signals.iter().filter_map(|signal| signal.source.as_ref()) {
            match held(source.file) {
                Ok(file) => pressure.push((source, file)),
                Err(trouble) if source.is_required => return Err(trouble),
                Err(_) => {}
            }
        }
        let mut cgroup = Cgroup {
            path: path.to_owned(),
            current: held("memory.current")?,
            stat: held("memory.stat")?,
            pressure,
            swap_current: held("memory.swap.current").ok(),
            protected_bytes: 0,
            swap: Vec::new(),
            directory,
        };
        cgroup.refresh();
        Ok(cgroup)
    }

    /// Reads limits again, its own and those above it; they change rarely. What cannot be read is
    /// taken for no limit on what may be protected, and for no swap at all.
    pub fn refresh(&mut self) {
        let read = |file: &str| {
            let text = fs::read_to_string(self.directory.join(file)).ok()?;
            limit::parse(file, &text).ok()
        };
        let protected = ["memory.min", "memory.low"].into_iter().filter_map(read);
        let protected = protected.map(Limit::bytes).max().unwrap_or(0);
        let above = self.directory.ancestors().take(self.path.split('/').count());
        let swap = above.filter_map(|dir| {
            let text = fs::read_to_string(dir.join("memory.swap.max")).ok()?;
            let Ok(Limit::Bytes(max_bytes)) = limit::parse("memory.swap.max", &text) else {
                return None;
            };
            let current = Held::open(&dir.join("memory.swap.current")).ok()?;
            Some(SwapLimit { max_bytes, current })
        });
        let swap = swap.collect();
        (self.protected_bytes, self.swap) = (protected, swap);
    }

    /// The least `memory.swap.max` of the cgroup and all above it when limits were last read.
    pub fn swap_max_bytes(&self) -> u64 {
        self.swap.iter().map(|limit| limit.max_bytes).min().unwrap_or(u64::MAX)
    }

    /// Reads what is cheap to read: totals of pressure, and the size. All else is as it was in
    /// `known`. Each file is read once a period, because reading `memory.pressure` often makes the
    /// kernel lose stalls shorter than its clock tick; two signals must not share a file.
    ///
    /// # Errors
    /// [`CgroupError`].
    pub fn glimpse(
        &self,
        at: Duration,
        known: &Observation,
        buffer: &mut Buffer,
    ) -> Result<Observation, CgroupError> {
        let mut counters = Counters::default();
        for (source, file) in &self.pressure {
            let text = file.read_piece(buffer).map_err(CgroupError::of(source.file))?;
            (source.parse)(source.file, text, &mut counters)?;
        }
        Ok(Observation {
            at,
            current_bytes: self.current_bytes(buffer)?,
            protected_bytes: self.protected_bytes,
            counters,
            ..*known
        })
    }

    /// Reads the rest of what a controller is reported: `memory.stat`, which costs the kernel more than
    /// all else together, and room in swap. `room` is the host's; the cgroup's own limits are
    /// applied.
    ///
    /// # Errors
    /// [`CgroupError`].
    pub fn count(
        &self,
        glimpse: Observation,
        room: Room,
        buffer: &mut Buffer,
    ) -> Result<Observation, CgroupError> {
        let stat = self.stat(buffer)?;
        let swap_bytes = self.swap_bytes(buffer)?.unwrap_or(stat.zswapped);
        Ok(Observation { stat, swap_bytes, room: self.room(room, buffer)?, ..glimpse })
    }

    /// `memory.current`.
    ///
    /// # Errors
    /// [`CgroupError`].
    pub fn current_bytes(&self, buffer: &mut Buffer) -> Result<u64, CgroupError> {
        number(&self.current, "memory.current", buffer)
    }

    /// `memory.stat`.
    ///
    /// # Errors
    /// [`CgroupError`].
    pub fn stat(&self, buffer: &mut Buffer) -> Result<MemoryStat, CgroupError> {
        let text = self.stat.read_piece(buffer).map_err(CgroupError::of("memory.stat"))?;
        Ok(memory_stat::parse("memory.stat", text)?)
    }

    /// `memory.swap.current`; nothing on a kernel without it.
    ///
    /// # Errors
    /// [`CgroupError`].
    pub fn swap_bytes(&self, buffer: &mut Buffer) -> Result<Option<u64>, CgroupError> {
        let file = self.swap_current.as_ref();
        file.map(|file| number(file, "memory.swap.current", buffer)).transpose()
    }

    /// The host's room, cut by the limits of the cgroup and all above it.
    fn room(&self, host: Room, buffer: &mut Buffer) -> Result<Room, CgroupError> {
        self.swap.iter().try_fold(host, |room, limit| {
            let used = number(&limit.current, "memory.swap.current", buffer)?;
            let free = limit.max_bytes.saturating_sub(used);
            Ok(Room {
                swap_bytes: room.swap_bytes.min(limit.max_bytes),
                swap_free_bytes: room.swap_free_bytes.min(free),
                ..room
            })
        })
    }
}

fn number(file: &Held, name: &'static str, buffer: &mut Buffer) -> Result<u64, CgroupError> {
    let text = file.read_piece(buffer).map_err(CgroupError::of(name))?;
    Ok(limit::number(name, text)?)
}
