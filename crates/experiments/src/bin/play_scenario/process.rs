//! One process: for each byte on its input it does what one slice of its life asks for, and answers
//! with the times of its page faults (the simulator's `Machine::run_process`).
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io::{Read, Write, stdin, stdout};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr;
use std::time::Instant;

use anyhow::{Context, Result};
use prairie_model::random::Random;
use prairie_sim::machine::scenario::{FileSet, ProcessKind, Scenario};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::files;

const PAGE: usize = 4096;
const HUGE: usize = 2 << 20;
/// Pages touched again in each slice, and bytes of a read, as in the simulator.
const TOUCHES: u64 = 24;
const READ_AHEAD: usize = 128 << 10;

/// After an answer: there is more to do, or this was the last slice.
pub(crate) const MORE: u8 = 0;
pub(crate) const LAST: u8 = 1;

/// Lives until its last slice.
///
/// # Errors
/// If the input or a file cannot be read or written.
pub(crate) fn run(
    scenario: &Scenario,
    folder: &Path,
    kind: usize,
    number: u32,
    seed: u64,
) -> Result<()> {
    // The OOM killer may kill this process, not its parent.
    fs::write("/proc/self/oom_score_adj", "0")?;
    let kind = scenario.processes.get(kind).context("no such kind of process")?;
    let set = scenario.files.iter().find(|set| kind.files.as_ref() == Some(&set.name));
    let mut life = Life::new(kind, set, folder, number, seed)?;
    let (mut input, mut output) = (stdin().lock(), stdout().lock());
    while input.read_exact(&mut [0]).is_ok() {
        let last = life.slice()?;
        let mut answer = vec![if last { LAST } else { MORE }, life.faults.len().min(255) as u8];
        for &time in life.faults.iter().take(255) {
            answer.extend(time.to_le_bytes());
        }
        life.faults.clear();
        output.write_all(&answer)?;
        output.flush()?;
        if last {
            break;
        }
    }
    Ok(())
}

/// What a process plans to do and has done.
struct Life<'a> {
    kind: &'a ProcessKind,
    set: Option<&'a FileSet>,
    folder: &'a Path,
    number: u32,
    random: Random,
    memory: Memory,
    slices: u64,
    slices_done: u64,
    touched: u64,
    read_pages: u64,
    pages_read: u64,
    reading: Option<(File, u64)>,
    stats_done: f64,
    write_pages: u64,
    pages_written: u64,
    written: u32,
    /// Times of the faults that may have brought a huge page, in nanoseconds.
    faults: Vec<u32>,
}

impl<'a> Life<'a> {
    fn new(
        kind: &'a ProcessKind,
        set: Option<&'a FileSet>,
        folder: &'a Path,
        number: u32,
        seed: u64,
    ) -> Result<Life<'a>> {
        let mut random = Random::new(seed);
        let pages = |bytes: f64| (bytes.max(0.0) / PAGE as f64).round() as u64;
        let anonymous = pages(kind.anonymous.sample(&mut random));
        let cpu_ns = kind.cpu.sample(&mut random).max(0.0) as u64;
        Ok(Life {
            memory: Memory::new(anonymous as usize)?,
            slices: cpu_ns.div_ceil(kind.slice.0).max(1),
            read_pages: pages(kind.read.sample(&mut random)),
            write_pages: pages(kind.write.sample(&mut random)),
            kind,
            set,
            folder,
            number,
            random,
            slices_done: 0,
            touched: 0,
            pages_read: 0,
            reading: None,
            stats_done: 0.0,
            pages_written: 0,
            written: 0,
            faults: Vec::new(),
        })
    }

    /// Does one slice; returns whether it was the last.
    fn slice(&mut self) -> Result<bool> {
        self.slices_done += 1;
        self.grow();
        self.touch_again();
        self.read_files()?;
        self.look_at_files();
        self.write_files()?;
        Ok(self.slices_done >= self.slices)
    }

    /// The part of `total` that must be done after this slice.
    fn due(&self, total: u64, share_of_life: f64) -> u64 {
        let life = (self.slices as f64 * share_of_life).max(1.0);
        (total as f64 * (self.slices_done as f64 / life).min(1.0)) as u64
    }

    fn grow(&mut self) {
        let pages = self.memory.pages as u64;
        let due = self.due(pages, self.kind.growth);
        while self.touched < due {
            let page = self.touched as usize;
            let may_be_huge =
                page.is_multiple_of(HUGE / PAGE) && pages as usize - page >= HUGE / PAGE;
            let started = Instant::now();
            self.memory.touch(page);
            if may_be_huge {
                self.faults.push(u32::try_from(started.elapsed().as_nanos()).unwrap_or(u32::MAX));
            }
            self.touched += 1;
        }
    }

    fn touch_again(&mut self) {
        let hot = (self.touched as f64 * self.kind.hot) as u64;
        for _ in 0..TOUCHES.min(hot) {
            let page = self.touched - 1 - self.random.below(hot);
            self.memory.touch(page as usize);
        }
    }

    fn read_files(&mut self) -> Result<()> {
        let due = self.due(self.read_pages, 1.0);
        let mut buffer = vec![0; READ_AHEAD];
        while let Some(set) = self.set
            && self.pages_read < due
        {
            let (file, at) = match self.reading.take() {
                Some(place) => place,
                None => {
                    let share = self.random.share().powf(self.kind.skew);
                    (File::open(self.file(set, self.number, share))?, 0)
                }
            };
            let read = file.read_at(&mut buffer, at)?;
            self.pages_read += read.div_ceil(PAGE).max(1) as u64;
            self.reading = (read == READ_AHEAD).then_some((file, at + read as u64));
        }
        Ok(())
    }

    fn file(&self, set: &FileSet, copy: u32, share: f64) -> std::path::PathBuf {
        let number = ((share * f64::from(set.count)) as u32).min(set.count - 1);
        files::path(self.folder, set, copy % set.copies, number)
    }

    fn look_at_files(&mut self) {
        let Some(set) = self.set.filter(|_| self.kind.stat_rate > 0.0) else { return };
        let count = f64::from(set.count);
        let more = self.stats_done + self.kind.stat_rate * self.kind.slice.0 as f64 / 1e9;
        for at in self.stats_done as u64..more as u64 {
            let within = at as f64 % (count * f64::from(set.copies));
            // A file that is gone costs a look as well.
            let _ = fs::metadata(self.file(set, (within / count) as u32, within % count / count));
        }
        self.stats_done = more;
    }

    fn write_files(&mut self) -> Result<()> {
        let due = self.due(self.write_pages, 1.0);
        while self.pages_written < due {
            let bytes = self.kind.written_file.sample(&mut self.random).max(1.0) as usize;
            let name = format!("written/{}-{}-{}", self.kind.name, self.number, self.written);
            fs::write(self.folder.join(name), vec![2; bytes])?;
            self.pages_written += bytes.div_ceil(PAGE) as u64;
            self.written += 1;
        }
        Ok(())
    }
}

impl Drop for Life<'_> {
    fn drop(&mut self) {
        for at in (0..self.written).filter(|_| self.kind.temporary) {
            let name = format!("written/{}-{}-{at}", self.kind.name, self.number);
            let _ = fs::remove_file(self.folder.join(name));
        }
    }
}

/// Anonymous memory that begins where a huge page may.
struct Memory {
    start: *mut u8,
    pages: usize,
}

impl Memory {
    fn new(pages: usize) -> Result<Memory> {
        let (bytes, flags) = (pages * PAGE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        let all = bytes + HUGE;
        // SAFETY: the kernel chooses a place where nothing is mapped.
        let mapped = unsafe {
            mmap_anonymous(ptr::null_mut(), all, ProtFlags::READ | ProtFlags::WRITE, flags)?
        };
        let skip = mapped.align_offset(HUGE);
        let start = mapped.wrapping_byte_add(skip);
        for (from, length) in [(mapped, skip), (start.wrapping_byte_add(bytes), HUGE - skip)] {
            if length > 0 {
                // SAFETY: whole pages of the mapping above, before and after what is kept.
                unsafe { munmap(from, length)? };
            }
        }
        Ok(Memory { start: start.cast(), pages })
    }

    fn touch(&mut self, page: usize) {
        assert!(page < self.pages, "page {page} of {}", self.pages);
        // SAFETY: inside the mapping, which lives as long as the process and has no other user.
        unsafe { self.start.add(page * PAGE).write_volatile(1) };
    }
}
